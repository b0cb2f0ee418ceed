"""Asset checks: four per day (`rules` as a fifth where the contract has any), and `no_stale_days` per table.

Lives here: their specs and evaluations, the buttons that start them without a partition, and recording `no_stale_days`
in Dagster when its result changes. Does not live here: the rules (`lake.gates`) and requests for stale days (`ticks`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.states import State, States
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.gates import ALL_CHECKS, Finding, checks_of, gates_of
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.load.judging import bench, may_be_empty
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.operations.why import ranges
from backfill_assets.orchestration.backfill_requests import given_up_now
from backfill_assets.orchestration.context import Opened
from backfill_assets.orchestration.dagster_private import check_target, newest_materializations
from backfill_assets.orchestration.io_manager import as_failure
from backfill_assets.orchestration.runs import LAKE_TAG

STANDING = "no_stale_days"
SAMPLE_RANGES = 10
WHICH, GIVEN_UP = "which", "given up"


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
    """Results for buttons that start checks without a partition: the newest written day, read and judged again.

    It is judged as by the load: by `[gates]`, against the receipts of earlier days, required days included.
    """
    lake, states = opened.lake, opened.states()
    table = states.view.table(contract.name)
    newest = max((d for d, s in table.stamps.items() if s.entry.rows), default=None)
    if newest is None:
        for name in checks_of(contract):
            yield dg.AssetCheckResult(
                passed=True, check_name=name, asset_key=contract.name, metadata={"what": "no day has rows yet"}
            )
        return
    found = audit_table(lake, contract, table.version, [newest]).get(newest, DayProfile())
    for finding in judge_written_day(lake.settings, states, contract, newest, found):
        yield _result(finding, contract, table.stamps[newest].entry.agrees_with(found))


def judge_written_day(
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


def no_stale_days(opened: Opened, contract: Contract) -> dg.AssetChecksDefinition:
    """The check `no_stale_days` of one table."""

    @dg.asset_check(asset=contract.name, name=STANDING, description=f"No written day of {contract.name} is stale.")
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        """Judge the table now."""
        try:
            lake, _ = opened.require()
        except BackfillError as error:
            raise as_failure(error) from None
        context.instance.add_run_tags(context.run.run_id, {LAKE_TAG: str(lake.root)})
        states = opened.states()
        passed, told = judged(
            states, contract.name, given_up_now(context.instance, lake, states).get(contract.name, "")
        )
        return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, metadata=told)

    return check


def judged(states: States, table: str, given_up: str = "") -> tuple[bool, dict[str, Any]]:
    """Whether no written day of the table is stale or given up, with the metadata of the check.

    `given_up` is a text about days that no sensor requests any more; empty without any.
    """
    counted = {d: states.of(table, d) for d in states.view.table(table).stamps}
    stale = sorted(d for d, s in counted.items() if s is State.STALE)
    told: dict[str, Any] = {"stale days": len(stale)}
    if stale:
        rebuild = f"backfill-assets backfill --from {stale[0]} --to {stale[-1]}"
        told[WHICH] = f"{ranges(stale, SAMPLE_RANGES)}. Rebuild: {rebuild}"
    if given_up:
        told[GIVEN_UP] = given_up
    others = Counter(s for s in counted.values() if s is not State.STALE)
    told |= {f"{s.value} days": n for s, n in sorted(others.items())}
    return not stale and not given_up, told


def changed_standing_checks(
    instance: dg.DagsterInstance, states: States, tables: list[str], given_up: Mapping[str, str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluations of `no_stale_days` that differ from those in Dagster, so that its pages need no button.

    One for an older materialization differs too: Dagster counts it as not evaluated. Tables without a written or given
    up day are left out.
    """
    keys = {
        t: dg.AssetCheckKey(dg.AssetKey(t), STANDING) for t in tables if states.view.table(t).stamps or given_up.get(t)
    }
    for table, key in keys.items():
        passed, told = judged(states, table, given_up.get(table, ""))
        before, target = _known(instance, key), _newest(instance, table)
        if before is None or (before.passed, *_words(before), before.target_materialization_data) != (
            passed, told.get(WHICH), told.get(GIVEN_UP), target,
        ):  # fmt: skip
            yield dg.AssetCheckEvaluation(
                asset_key=key.asset_key, check_name=STANDING, passed=passed, metadata=told,
                severity=dg.AssetCheckSeverity.WARN, target_materialization_data=target,
            )  # fmt: skip


def report_standing_checks(instance: dg.DagsterInstance, opened: Opened, tables: list[str]) -> None:
    """Record results of `no_stale_days` in Dagster that have changed for these tables."""
    states = opened.states()
    given_up = given_up_now(instance, opened.lake, states)
    for verdict in changed_standing_checks(instance, states, tables, given_up):
        instance.report_runless_asset_event(verdict)


def _newest(instance: dg.DagsterInstance, table: str) -> Any:
    """The table's newest materialization as a target, if there is one."""
    records = instance.fetch_materializations(dg.AssetKey(table), limit=1).records
    return next(map(check_target, records), None)


def _known(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> dg.AssetCheckEvaluation | None:
    """The check's newest evaluation in Dagster; None also where a run has planned it since and not evaluated it."""
    record = instance.get_latest_asset_check_evaluation_record(key)
    found: object = record.evaluation if record is not None else None
    return found if isinstance(found, dg.AssetCheckEvaluation) else None


def _words(evaluation: dg.AssetCheckEvaluation) -> tuple[Any, Any]:
    said = {name: value.value for name, value in evaluation.metadata.items()}
    return said.get(WHICH), said.get(GIVEN_UP)
