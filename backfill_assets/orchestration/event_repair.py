"""Event repair: what Dagster shows of each day follows its receipt again, after runs that planned it and died.

Here: finding such days, and recording them from their receipts: a materialization and its checks; for days after a
rollback or release the checks alone. Not here: commits that Dagster never heard of (`reconcile`).

Left as they are: days without a receipt; stale days (a failed attempt is news); days that a check refused; days of runs
that go on, until they end.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, date

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.core.states import State, States
from backfill_assets.lake.gates import checks_of
from backfill_assets.lake.home import Lake
from backfill_assets.load.judging import judged_by_receipts
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.checks import day_evaluation
from backfill_assets.orchestration.dagster_private import (
    CheckRow,
    check_rows,
    newest_materializations,
    planned_partitions,
    report_evaluation,
)
from backfill_assets.orchestration.metadata import receipt_metadata

DAYS_PER_CALL = 100  # of all tables: five hundred events, two or three seconds; the next call goes on
LOOKED = "ended runs"  # key beside the versions of tables: no table has a blank in its name
UNDONE = "days undone"  # 1 while checks of days after a rollback or release are to be recorded again
TOLD_FROM = "the receipt: the run ended before it could say so"
JUDGED_FROM = "the receipt of the rows that stand there now"
UNHAPPY = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@dataclass(frozen=True)
class WrongDays:
    """The days of one table that Dagster shows wrong, in the order of their newest plans.

    `unmade` need a materialization, `rows` (by day and check) an evaluation. `postponed`: a run still works on others.
    """

    days: list[date]
    unmade: Set[date]
    rows: Mapping[tuple[date, str], CheckRow]
    postponed: bool


def repair_events(
    instance: dg.DagsterInstance, lake: Lake, states: States, seen: dict[str, int], limit: int = DAYS_PER_CALL
) -> list[str]:
    """Repair up to `limit` days, if a run failed since the last call or days were put back (`UNDONE` in `seen`).

    `seen` says what earlier calls finished, and is updated once no day is left. Returns a line per table.
    """
    unhappy = _unhappy(instance)
    if unhappy == seen.get(LOOKED, 0) and not seen.get(UNDONE):
        return []
    busy = runs.busy_days(instance, str(lake.root), list(states.contracts))
    left, lines, whole = limit, [], True
    for contract in states.contracts.values():
        wrong = wrong_days(instance, states, contract, busy.get(contract.name, frozenset()))
        now = replace(wrong, days=wrong.days[:left])
        left -= len(now.days)
        whole = whole and not wrong.postponed and len(now.days) == len(wrong.days)
        if now.days:
            _record(instance, lake, states, contract, now)
            lines.append(f"{contract.name}: {len(now.days)} day(s) shown again from their receipts")
    if whole:
        seen |= {UNDONE: 0, LOOKED: unhappy}
    return lines


def _unhappy(instance: dg.DagsterInstance) -> int:
    """A number that changes with each run that failed or was cancelled; 0 without any.

    Times alone would not do: the clock may be set back.
    """
    wanted = dg.RunsFilter(statuses=UNHAPPY)
    newest = instance.get_run_records(wanted, limit=1, order_by="update_timestamp", ascending=False)
    # Storage keeps UTC without saying so.
    at = sum(round(r.update_timestamp.replace(tzinfo=UTC).timestamp() * 1e6) for r in newest)
    return at + instance.get_runs_count(wanted)


def wrong_days(instance: dg.DagsterInstance, states: States, contract: Contract, busy: Set[date]) -> WrongDays:
    """The written days of a table whose newest plan came to nothing, or whose checks belong to an older write."""
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
    return WrongDays(days, unmade, unjudged, len(days) < len(found))


def _day(partition: str | None) -> date | None:
    try:
        return date.fromisoformat(partition or "")
    except ValueError:
        return None  # of the whole table, or of definitions that had other partitions


def _alive(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> set[str]:
    """The runs that still go on; a deleted one does not."""
    wanted = [r for r in run_ids if r]
    if not wanted:
        return set()
    return {r.run_id for r in instance.get_runs(dg.RunsFilter(run_ids=wanted, statuses=runs.ACTIVE))}


def _record(instance: dg.DagsterInstance, lake: Lake, states: States, contract: Contract, wrong: WrongDays) -> None:
    """One materialization per unmade day, then the evaluations of all days for their newest materializations."""
    name, stamps = contract.name, states.view.table(contract.name).stamps
    keys = [str(d) for d in wrong.days]
    before = newest_materializations(instance, name, keys)
    for day in (d for d in wrong.days if d in wrong.unmade):
        metadata = receipt_metadata(before.get(str(day)), stamps[day].entry, stamps[day].version, TOLD_FROM)
        instance.report_runless_asset_event(dg.AssetMaterialization(name, partition=str(day), metadata=metadata))
    newest = newest_materializations(instance, name, keys)
    wanted = list({r.run_id for r in wrong.rows.values() if r.run_id})
    jobs = {r.run_id: r.job_name for r in instance.get_runs(dg.RunsFilter(run_ids=wanted))} if wanted else {}
    for day, findings in judged_by_receipts(lake.settings, states, contract, wrong.days).items():
        source = TOLD_FROM if day in wrong.unmade else JUDGED_FROM
        for finding in findings:
            row = wrong.rows.get((day, finding.check))
            if row is not None and row.run_id:  # else no run ever planned it
                evaluation = day_evaluation(name, finding, newest.get(str(day)), {"source": source})
                report_evaluation(instance, row.run_id, jobs.get(row.run_id, ""), evaluation)
