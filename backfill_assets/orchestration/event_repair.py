"""Healing: what Dagster shows of each day follows its receipt again, after runs that planned it and never came to it.

Lives here: which days are shown wrong, and recording them from their receipts: a materialization and the four
checks; of days that were put back or let go the checks alone. Does not live here: when it is looked at, and commits
that Dagster never heard of (`reconcile`). Nothing is read
but receipts, nothing is written but Dagster's events, and what was healed needs no healing.

Left as they are: days that no receipt names; stale days (the attempt that failed is news); days that a check refused;
days of runs that go on, until they end.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, date
from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.core.states import State, States
from backfill_assets.lake.gates import ALL_CHECKS, Finding, checks_of
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.load.judging import judged_by_receipts
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.dagster_private import (
    CheckRow,
    check_rows,
    check_target,
    newest_materializations,
    planned_partitions,
    report_evaluation,
)
from backfill_assets.orchestration.metadata import retold

DAYS_AT_ONCE = 100  # of tables, in one look: five hundred events, two or three seconds; the next look goes on
LOOKED = "ended runs"  # what was looked at, beside the versions of tables: no table has a blank in its name
UNDONE = "days undone"  # 1 while checks of days that were put back or let go are to be told anew
TOLD_FROM = "the receipt: the run ended before it could say so"
JUDGED_FROM = "the receipt of the rows that stand there now"
UNHAPPY = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@dataclass(frozen=True)
class Sick:
    """The days of one table that are shown wrong, in the order of their newest plans: `unmade` are materialized anew,
    `rows` are the verdicts given anew, by day and check. `postponed`: other days are, that a run still works on."""

    contract: Contract
    days: list[date] = field(default_factory=list)
    unmade: Set[date] = frozenset()
    rows: Mapping[tuple[date, str], CheckRow] = field(default_factory=dict)
    postponed: bool = False


def heal(
    instance: dg.DagsterInstance, lake: Lake, pipeline: Pipeline, seen: dict[str, int], at_once: int = DAYS_AT_ONCE
) -> list[str]:
    """Look at all days, if a run failed or was cancelled since the last look or days were put back or let go (`UNDONE`
    in `seen`), and heal up to `at_once` of them.

    `seen` holds what was looked at, and gets it where nothing was left. Returns what was done, a line per table.
    """
    unhappy = _unhappy(instance)
    if unhappy == seen.get(LOOKED, 0) and not seen.get(UNDONE):
        return []
    states = pipeline.states(read_view(lake, pipeline.contracts))
    busy = runs.busy_days(instance, str(lake.root), [t.name for t in pipeline.tables])
    left, lines, whole = at_once, [], True
    for contract in pipeline.contracts:
        sick = sick_days(instance, states, contract, busy.get(contract.name, frozenset()))
        now = Sick(contract, sick.days[:left], sick.unmade, sick.rows)
        left -= len(now.days)
        whole = whole and not sick.postponed and len(now.days) == len(sick.days)
        if now.days:
            _tell(instance, lake, states, now)
            lines.append(f"{contract.name}: {len(now.days)} day(s) shown again from their receipts")
    if whole:
        seen |= {UNDONE: 0, LOOKED: unhappy}
    return lines


def _unhappy(instance: dg.DagsterInstance) -> int:
    """A number that is another one after each run that failed or was cancelled, and 0 where none did. Times alone are
    none: the clock may be set back."""
    wanted = dg.RunsFilter(statuses=UNHAPPY)
    newest = instance.get_run_records(wanted, limit=1, order_by="update_timestamp", ascending=False)
    # Storage keeps UTC without saying so.
    at = sum(round(r.update_timestamp.replace(tzinfo=UTC).timestamp() * 1e6) for r in newest)
    return at + instance.get_runs_count(wanted)


def sick_days(instance: dg.DagsterInstance, states: States, contract: Contract, busy: Set[date]) -> Sick:
    """The written days of a table of which Dagster shows a plan that came to nothing, or checks of something older."""
    blocks = checks_of(contract)
    rows = [(day, r) for r in check_rows(instance, contract.name, blocks) if (day := _day(r.partition)) is not None]
    plans = {d: run_id for p, run_id in planned_partitions(instance, contract.name).items() if (d := _day(p))}
    alive = _alive(instance, {*plans.values(), *(r.run_id for _, r in rows if not r.evaluated)})
    stamps = states.view.table(contract.name).stamps
    refused = {d for d, r in rows if r.evaluated and not r.passed and blocks[r.check] and plans.get(d) == r.run_id}
    unmade = {
        d
        for d, run_id in plans.items()
        if run_id not in alive and d in stamps and d not in refused and states.of(contract.name, d) is not State.STALE
    }
    unjudged = {
        (d, r.check): r
        for d, r in rows
        if d in unmade or (d in stamps and r.is_made and not (r.is_current if r.evaluated else r.run_id in alive))
    }
    orders = {d: r.order for d, r in rows}
    found = sorted(unmade | {d for d, _ in unjudged}, key=lambda d: (orders.get(d, 0), d))
    days = [d for d in found if d not in busy]
    return Sick(contract, days, unmade, unjudged, len(days) < len(found))


def _day(partition: str | None) -> date | None:
    try:
        return date.fromisoformat(partition or "")
    except ValueError:
        return None  # of the whole table, or of definitions that had other partitions


def _alive(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> set[str]:
    """Those that still go on; a run that was deleted does not."""
    wanted = [r for r in run_ids if r]
    if not wanted:
        return set()
    return {r.run_id for r in instance.get_runs(dg.RunsFilter(run_ids=wanted, statuses=runs.ACTIVE))}


def _tell(instance: dg.DagsterInstance, lake: Lake, states: States, sick: Sick) -> None:
    """One materialization per unmade day, then the verdicts of all, aimed at what is newest now."""
    name, stamps = sick.contract.name, states.view.table(sick.contract.name).stamps
    keys = [str(d) for d in sick.days]
    before = newest_materializations(instance, name, keys)
    for day in (d for d in sick.days if d in sick.unmade):
        said = retold(before.get(str(day)), stamps[day].entry, stamps[day].version, TOLD_FROM)
        instance.report_runless_asset_event(dg.AssetMaterialization(name, partition=str(day), metadata=said))
    targets = newest_materializations(instance, name, keys)
    judged = judged_by_receipts(lake.settings, states, sick.contract, sick.days)
    wanted = list({r.run_id for r in sick.rows.values() if r.run_id})
    jobs = {r.run_id: r.job_name for r in instance.get_runs(dg.RunsFilter(run_ids=wanted))} if wanted else {}
    for day in sick.days:
        for finding in judged[day]:
            row = sick.rows.get((day, finding.check))
            if row is not None and row.run_id:  # else no run ever planned it
                source = TOLD_FROM if day in sick.unmade else JUDGED_FROM
                told = _evaluation(name, finding, targets[str(day)], source)
                report_evaluation(instance, row.run_id, jobs.get(row.run_id, ""), told)


def _evaluation(table: str, finding: Finding, target: dg.EventLogRecord, source: str) -> dg.AssetCheckEvaluation:
    facts: dict[str, Any] = {"what": finding.message, **finding.facts, "source": source}
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(table), check_name=finding.check, passed=finding.passed, metadata=facts,
        severity=dg.AssetCheckSeverity.ERROR if finding.refuses else dg.AssetCheckSeverity.WARN,
        blocking=ALL_CHECKS[finding.check], partition=str(finding.day),
        target_materialization_data=check_target(target),
    )  # fmt: skip
