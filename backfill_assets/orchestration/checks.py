"""Asset checks: four per day (`rules` as a fifth where the contract has any), and `no_stale_days` per table.

Here: their specs and evaluations, the buttons that start them without a partition, and recording `no_stale_days` when
its result changes. Not here: the rules (`lake.gates`) and requests for stale days (`ticks`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import ranges
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.states import State, States
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.gates import ALL_CHECKS, Finding, checks_of, gates_of
from backfill_assets.load.judging import judged_by_receipts
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.backfill_requests import GivenUp, given_up_now
from backfill_assets.orchestration.context import Opened
from backfill_assets.orchestration.dagster_private import check_target, newest_materializations
from backfill_assets.orchestration.io_manager import as_failures
from backfill_assets.orchestration.metadata import show_command
from backfill_assets.orchestration.naming import PLAIN, Naming
from backfill_assets.orchestration.runs import LAKE_TAG

STANDING = "no_stale_days"
SAMPLE_RANGES = 10
WHICH, GIVEN_UP, NEXT = "which", "given up", "next"
WHERE = "The tab *Partitions* names the days that fail; `next` in an evaluation says what to do."


def check_specs(
    contract: Contract, partitions: dg.DailyPartitionsDefinition, naming: Naming = PLAIN
) -> list[dg.AssetCheckSpec]:
    """One check per day and gate of a table."""
    return [
        dg.AssetCheckSpec(
            gate.name, asset=naming.key(contract.name), blocking=gate.blocks,
            description=f"{gate.description(contract)} {WHERE}", partitions_def=partitions,
        )
        for gate in gates_of(contract)
    ]  # fmt: skip


def check_outputs(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
    """The outputs that Dagster expects of checks whose evaluations are yielded as events, one per chosen check."""
    for key in sorted(context.selected_asset_check_keys):
        spec = dg.AssetCheckSpec(key.name, asset=key.asset_key)
        yield dg.Output(None, output_name=spec.get_python_identifier())


def evaluations(
    context: dg.AssetExecutionContext, rebuild: Rebuild, findings: Sequence[Finding], naming: Naming = PLAIN
) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per finding of a chosen check; the first refusal carries sample keys."""
    name = rebuild.table.name
    newest = newest_materializations(context.instance, naming.key(name), map(str, rebuild.request.days))
    chosen = {k.name for k in context.selected_asset_check_keys}
    wanted = [f for f in findings if f.check in chosen]
    refused = next((f for f in wanted if f.refuses), None)
    for finding in wanted:
        more = {"sample_keys": dg.MetadataValue.json(rebuild.sample_keys(finding))} if finding is refused else {}
        yield day_evaluation(name, finding, newest.get(str(finding.day)), more, naming)


def day_evaluation(
    table: str, finding: Finding, newest: dg.EventLogRecord | None, more: Mapping[str, Any], naming: Naming = PLAIN
) -> dg.AssetCheckEvaluation:
    """The evaluation of a finding; `newest` is the newest materialization of its day, if there is one."""
    return dg.AssetCheckEvaluation(
        asset_key=naming.key(table), check_name=finding.check, passed=finding.passed,
        metadata={"what": finding.message, **what_next(table, finding), **finding.facts, **more},
        severity=dg.AssetCheckSeverity.ERROR if finding.refuses else dg.AssetCheckSeverity.WARN,
        blocking=ALL_CHECKS[finding.check], partition=str(finding.day),
        target_materialization_data=check_target(newest) if newest else None,
    )  # fmt: skip


def what_next(table: str, finding: Finding) -> dict[str, str]:
    """What a person does about a finding, with the commands, as metadata; empty where it passed."""
    if finding.passed:
        return {}
    day, look = finding.day, f"Look with `{show_command(table, finding.day)}`"
    if not finding.refuses:
        return {NEXT: f"{look}. If the day is right, do nothing, or move its bound in [gates.tables.{table}]"}
    mend = f"backfill-assets backfill --from {day} --to {day} --tables {table}"
    return {NEXT: f"{look}, correct the input or the rule, then `{mend}`"}


def newest_day_results(opened: Opened, contract: Contract) -> Iterator[dg.AssetCheckResult]:
    """Results for buttons that start checks without a partition: the newest written day, read and judged again, as by
    the load against `[gates]` and the receipts of earlier days."""
    lake, states, key = opened.lake, opened.states(), opened.naming.key(contract.name)
    table = states.view.table(contract.name)
    newest = max((d for d, s in table.stamps.items() if s.entry.rows), default=None)
    if newest is None:
        for name in checks_of(contract):
            yield dg.AssetCheckResult(
                passed=True, check_name=name, asset_key=key, metadata={"what": "no day has rows yet"}
            )
        return
    profile = audit_table(lake, contract, table.version, [newest]).get(newest, DayProfile())
    as_written = table.stamps[newest].entry.agrees_with(profile)
    for finding in judged_by_receipts(lake.settings, states, contract, [newest], {newest: profile})[newest]:
        facts: dict[str, Any] = {
            "day": str(newest), "what": finding.message, **what_next(contract.name, finding), **finding.facts,
        }  # fmt: skip
        if not as_written:
            verify = f"backfill-assets verify --tables {contract.name} --from {newest}"
            facts[NEXT] = f"These are not the rows of its receipt: `{verify}` says what differs"
        yield dg.AssetCheckResult(
            passed=finding.passed and as_written, check_name=finding.check, asset_key=key,
            metadata={**facts, "equals its receipt": as_written},
            severity=dg.AssetCheckSeverity.WARN if as_written and not finding.refuses else dg.AssetCheckSeverity.ERROR,
        )  # fmt: skip


def standing_check(
    opened: Opened, table: str, name: str, description: str,
    judge: Callable[[dg.DagsterInstance], dg.AssetCheckResult],
) -> dg.AssetChecksDefinition:  # fmt: skip
    """A check of a table as it stands, without days: its button calls `judge`."""

    @dg.asset_check(asset=opened.naming.key(table), name=name, description=description)
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        """Judge now."""
        with as_failures():
            lake, _ = opened.require()
            context.instance.add_run_tags(context.run.run_id, {LAKE_TAG: str(lake.root)})
            return judge(context.instance)

    return check


def no_stale_days(opened: Opened, contract: Contract) -> dg.AssetChecksDefinition:
    """The check `no_stale_days` of one table."""
    description = (
        f"No written day of {contract.name} is stale: made from inputs that have changed since. The sensor `late_data` "
        f"rebuilds such days; until then `{WHICH}` names them, with the command that does it at once."
    )

    def judge(instance: dg.DagsterInstance) -> dg.AssetCheckResult:
        """Judge by the states of now."""
        states = opened.states()
        given_up = given_up_now(instance, opened.lake, states, opened.naming).get(contract.name, "")
        passed, facts = judge_standing(states, contract.name, given_up)
        return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, metadata=facts)

    return standing_check(opened, contract.name, STANDING, description, judge)


def judge_standing(states: States, table: str, given_up: str = "") -> tuple[bool, dict[str, Any]]:
    """Whether no written day of the table is stale or given up, with the metadata of the check. `given_up` is a text
    about days that no sensor requests any more."""
    counted = {d: states.of(table, d) for d in states.view.table(table).stamps}
    stale = sorted(d for d, s in counted.items() if s is State.STALE)
    facts: dict[str, Any] = {"stale days": len(stale)}
    if stale:
        rebuild = f"backfill-assets backfill --from {stale[0]} --to {stale[-1]}"
        facts[WHICH] = f"{ranges(stale, SAMPLE_RANGES)}. Rebuild: {rebuild}"
    if given_up:
        facts[GIVEN_UP] = given_up
    counts = Counter(s for s in counted.values() if s is not State.STALE)
    facts |= {f"{s.value} days": n for s, n in sorted(counts.items())}
    return not stale and not given_up, facts


def changed_standing_checks(
    instance: dg.DagsterInstance, states: States, tables: Sequence[str], given_up: GivenUp, naming: Naming = PLAIN
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluations of `no_stale_days` that differ from those in Dagster, so that its pages need no button.

    One for an older materialization differs too: Dagster counts it as not evaluated. Tables without a written or given
    up day are left out.
    """
    for table in tables:
        if not states.view.table(table).stamps and not given_up.get(table):
            continue
        passed, facts = judge_standing(states, table, given_up.get(table, ""))
        newest = instance.fetch_materializations(naming.key(table), limit=1).records
        evaluation = dg.AssetCheckEvaluation(
            asset_key=naming.key(table), check_name=STANDING, passed=passed, metadata=facts,
            severity=dg.AssetCheckSeverity.WARN, target_materialization_data=next(map(check_target, newest), None),
        )  # fmt: skip
        record = instance.get_latest_asset_check_evaluation_record(evaluation.asset_check_key)
        # None also where a run has planned the check since and not evaluated it.
        before: object = record.evaluation if record is not None else None
        if not isinstance(before, dg.AssetCheckEvaluation) or _result(before) != _result(evaluation):
            yield evaluation


def _result(evaluation: dg.AssetCheckEvaluation) -> tuple[object, ...]:
    facts = {name: value.value for name, value in evaluation.metadata.items()}
    return evaluation.passed, facts.get(WHICH), facts.get(GIVEN_UP), evaluation.target_materialization_data


def report_standing_checks(instance: dg.DagsterInstance, opened: Opened, tables: Sequence[str]) -> None:
    """Record results of `no_stale_days` in Dagster that have changed for these tables."""
    states, naming = opened.states(), opened.naming
    given_up = given_up_now(instance, opened.lake, states, naming)
    for verdict in changed_standing_checks(instance, states, tables, given_up, naming):
        instance.report_runless_asset_event(verdict)
