"""Asset checks per day, from the contract: four, and `rules` where it has any.

Lives here: their specs, their evaluations per partition, and what a button without a partition does (it judges the
newest written day again). Does not live here: the rules (`lake.gates`), and the standing fact of a table (`standing`).
"""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.states import States
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.gates import ALL_CHECKS, Finding, checks_of, gates_of
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.view import read_view
from backfill_assets.load.judging import bench, may_be_empty
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.context import Opened
from backfill_assets.orchestration.dagster_private import check_target, newest_materializations


def check_specs(contract: Contract, partitions: dg.DailyPartitionsDefinition) -> list[dg.AssetCheckSpec]:
    """One check per day and gate of a table."""
    return [
        dg.AssetCheckSpec(
            gate.name,
            asset=contract.name,
            blocking=gate.blocks,
            description=gate.description(contract),
            partitions_def=partitions,
        )
        for gate in gates_of(contract)
    ]


def check_outputs(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
    """The outputs that Dagster expects of checks whose evaluations are yielded as events, one per chosen check."""
    for key in sorted(context.selected_asset_check_keys):
        spec = dg.AssetCheckSpec(key.name, asset=key.asset_key)
        yield dg.Output(None, output_name=spec.get_python_identifier())


def evaluations(
    context: dg.AssetExecutionContext, rebuild: Rebuild, findings: Sequence[Finding]
) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per finding, with the day's newest materialization as its target."""
    name = rebuild.table.name
    newest = newest_materializations(context.instance, name, map(str, rebuild.days))
    targets = {day: check_target(record) for day, record in newest.items()}
    chosen = {k.name for k in context.selected_asset_check_keys}
    sampled = False
    for finding in findings:
        if finding.check not in chosen:
            continue
        facts: dict[str, Any] = {"what": finding.message, **finding.facts}
        if finding.refuses and not sampled:
            facts["sample_keys"] = dg.MetadataValue.json(rebuild.samples(finding))
            sampled = True
        yield dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(name), check_name=finding.check, passed=finding.passed, metadata=facts,
            severity=dg.AssetCheckSeverity.ERROR if finding.refuses else dg.AssetCheckSeverity.WARN,
            blocking=ALL_CHECKS[finding.check], partition=str(finding.day),
            target_materialization_data=targets.get(str(finding.day)),
        )  # fmt: skip


def newest_day_results(opened: Opened, contract: Contract) -> Iterator[dg.AssetCheckResult]:
    """For buttons that start checks without a partition: the newest written day, read and judged again as the load
    judged it: by `[gates]`, against the receipts of earlier days, required days included."""
    lake, pipeline = opened.lake, opened.pipeline
    states = pipeline.states(read_view(lake, pipeline.contracts))
    table = states.view.table(contract.name)
    newest = max((d for d, s in table.stamps.items() if s.entry.rows), default=None)
    if newest is None:
        for name in checks_of(contract):
            yield dg.AssetCheckResult(
                passed=True, check_name=name, asset_key=contract.name, metadata={"what": "no day has rows yet"}
            )
        return
    found = audit_table(lake, contract, table.version, [newest]).get(newest, DayProfile())
    for finding in judged_again(lake.settings, states, contract, newest, found):
        yield _result(finding, contract, table.stamps[newest].entry.agrees_with(found))


def judged_again(
    settings: LakeSettings, states: States, contract: Contract, day: date, found: DayProfile
) -> list[Finding]:
    """The findings of a written day by what was found in it now."""
    entries = {d: s.entry for d, s in states.view.table(contract.name).stamps.items()}
    expected = may_be_empty(states.frontier(contract.name), contract, day, entries[day].built)
    return bench(settings, contract, entries).judge(day, found, expected, states.absent(contract.name, day))


def _result(finding: Finding, contract: Contract, is_as_written: bool) -> dg.AssetCheckResult:
    facts: dict[str, Any] = {
        "day": str(finding.day), "what": finding.message, **finding.facts, "equals its receipt": is_as_written,
    }  # fmt: skip
    warns = is_as_written and not finding.refuses
    return dg.AssetCheckResult(
        passed=finding.passed and is_as_written, check_name=finding.check, asset_key=contract.name, metadata=facts,
        severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
    )  # fmt: skip
