"""Controls in Dagster: a check of their own on the table that each reads, and the sensor that judges them every hour.

Not here: judging (`operations.controls`), and where alarms go (`sensors`).
"""

from collections.abc import Iterator

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.queries import named_tables
from backfill_assets.lake.sections import ControlSettings
from backfill_assets.operations.controls import ControlOutcome, judge_controls
from backfill_assets.orchestration.context import LakeContext, Opened
from backfill_assets.orchestration.io_manager import as_failures
from backfill_assets.orchestration.runs import LAKE_TAG
from backfill_assets.orchestration.sensors import lake_sensor
from backfill_assets.orchestration.ticks import Tick

CONTROLS = "controls"
INTERVAL_SECONDS = 3600


def control_checks(opened: Opened) -> list[dg.AssetChecksDefinition]:
    """The check `control_NAME` of each control, on the first table that its query names; judged by its button, too."""
    settings = opened.lake.settings.controls
    return [_check(opened, name, contract) for name, contract in control_tables(opened.pipeline, settings).items()]


def control_tables(pipeline: Pipeline, settings: dict[str, ControlSettings]) -> dict[str, Contract]:
    """The table of each control: the first of the pipeline that its query names; controls of ledgers are left out."""
    named = {name: named_tables(control.query) or frozenset() for name, control in settings.items()}
    found = {name: next((c for c in pipeline.contracts if c.name in tables), None) for name, tables in named.items()}
    return {name: contract for name, contract in found.items() if contract is not None}


def _check(opened: Opened, name: str, contract: Contract) -> dg.AssetChecksDefinition:
    words = f"The known total `{name}` of [controls] in lake.toml: {opened.lake.settings.controls[name].query}"

    @dg.asset_check(asset=contract.name, name=f"control_{name}", description=words)
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        """Judge the control now."""
        with as_failures():
            lake, pipeline = opened.require()
            context.instance.add_run_tags(context.run.run_id, {LAKE_TAG: str(lake.root)})
            [outcome] = judge_controls(lake, pipeline, [name])
        return dg.AssetCheckResult(passed=outcome.holds, metadata={"outcome": str(outcome)})

    return check


def controls_sensor(lake_context: LakeContext) -> dg.SensorDefinition:
    """The sensor `controls`: once an hour all controls are judged; a broken one is an alarm and a red check."""
    return lake_sensor(
        lake_context, CONTROLS, (), lambda _: controls_tick(lake_context),
        "Judges the known totals of [controls] in lake.toml.", INTERVAL_SECONDS,
    )  # fmt: skip


def controls_tick(lake_context: LakeContext) -> Tick:
    """Judge all controls: an alarm per broken one, an evaluation of each control's check."""
    lake, pipeline = lake_context.open()
    tick = Tick(is_kept=True)
    outcomes = judge_controls(lake, pipeline)
    for outcome in outcomes:
        if not outcome.holds:
            tick.alarm(f"control {outcome.name}", str(outcome))
    tick.verdicts.extend(_evaluations(outcomes, control_tables(pipeline, lake.settings.controls)))
    return tick


def _evaluations(outcomes: list[ControlOutcome], tables: dict[str, Contract]) -> Iterator[dg.AssetCheckEvaluation]:
    for outcome in outcomes:
        if (contract := tables.get(outcome.name)) is not None:
            yield dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey(contract.name), check_name=f"control_{outcome.name}", passed=outcome.holds,
                metadata={"outcome": str(outcome)},
            )  # fmt: skip
