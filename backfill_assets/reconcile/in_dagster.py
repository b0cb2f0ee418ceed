"""What controls add to Dagster: the sensor `controls`, and a check of each control on the first
table that its query names.

Not here: judging controls (`reconcile.reconcile`) and their newest outcomes
(`reading.outcomes`).
"""

from collections.abc import Mapping

import dagster as dg

from backfill_assets.dagster.adding import (
    CONTROLS,
    LakeContext,
    Opened,
    ShownLake,
    Tick,
    lake_sensor,
    standing_check,
)
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.queries import named_tables
from backfill_assets.reading.settings import ControlSettings, controls_of
from backfill_assets.reconcile.reconcile import judge_controls

INTERVAL_SECONDS = 3600


def definitions(shown: ShownLake) -> dg.Definitions:
    """The sensor `controls`, and the check `control_NAME` of each control."""
    return dg.Definitions(
        asset_checks=control_checks(shown.opened), sensors=[controls_sensor(shown.lake_context)]
    )


def control_checks(opened: Opened) -> list[dg.AssetChecksDefinition]:
    """The check `control_NAME` of each control, on the first table that its query names; judged by
    its button, too."""
    settings = controls_of(opened.lake.settings)
    return [
        _control_check(opened, name, contract)
        for name, contract in control_tables(opened.pipeline, settings).items()
    ]


def control_tables(
    pipeline: Pipeline, controls: Mapping[str, ControlSettings]
) -> dict[str, Contract]:
    """The table of each control: the first of the pipeline that its query names; controls of
    ledgers are left out."""
    found = dict[str, Contract]()
    for name, control in controls.items():
        tables = named_tables(control.query) or frozenset()
        read = [contract for contract in pipeline.contracts if contract.name in tables]
        if read:
            found[name] = read[0]
    return found


def _control_check(opened: Opened, name: str, contract: Contract) -> dg.AssetChecksDefinition:
    """Return the check of Dagster that judges a control on the page of the table `contract`."""
    words = (
        f"The known total `{name}` of [controls] in lake.toml: "
        f"{controls_of(opened.lake.settings)[name].query}"
    )

    def judge(_: dg.DagsterInstance) -> dg.AssetCheckResult:
        """Judge the control now."""
        [outcome] = judge_controls(opened.lake, opened.pipeline, [name])
        return dg.AssetCheckResult(passed=outcome.holds, metadata={"outcome": str(outcome)})

    return standing_check(opened, contract.name, f"control_{name}", words, judge)


def controls_sensor(lake_context: LakeContext) -> dg.SensorDefinition:
    """The sensor `controls`: once an hour all controls are judged; a broken one is an alarm and a
    red check."""
    return lake_sensor(
        lake_context,
        CONTROLS,
        (),
        lambda _: controls_tick(lake_context),
        "Judges the known totals of [controls] in lake.toml.",
        INTERVAL_SECONDS,
    )


def controls_tick(lake_context: LakeContext) -> Tick:
    """Judge all controls: an alarm per broken one, an evaluation of each control's check."""
    lake, pipeline = lake_context.look()
    tick = Tick(is_kept=True)
    tables = control_tables(pipeline, controls_of(lake.settings))
    for outcome in judge_controls(lake, pipeline):
        if not outcome.holds:
            tick.alarm(f"control {outcome.name}", str(outcome))
        if (contract := tables.get(outcome.name)) is not None:
            evaluation = dg.AssetCheckEvaluation(
                asset_key=lake_context.naming.key(contract.name),
                check_name=f"control_{outcome.name}",
                passed=outcome.holds,
                metadata={"outcome": str(outcome)},
            )
            tick.verdicts.append(evaluation)
    return tick
