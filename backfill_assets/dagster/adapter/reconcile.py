"""Reconcile: Dagster's records follow the tables, never the other way round.

Here: recording commits whose run died before its event, and repairing days that Dagster shows wrong
after runs that planned them and died, from their receipts; naming days that Dagster shows and that
have no receipt. Not here: ending runs whose process is gone (`runs`), repairing tables (a commit is
whole or absent).

Left as they are: days without a receipt; stale days (a failed attempt is news); days that a check
refused; days of runs that go on, until they end.
"""

from collections.abc import Callable, Sequence, Set
from datetime import UTC, date
from functools import cache, partial
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.checks import report_day_checks
from backfill_assets.dagster.adapter.context import PLAIN, Naming
from backfill_assets.dagster.adapter.dagster_private import (
    instance_id,
    newest_materializations,
    planned_partitions,
)
from backfill_assets.dagster.adapter.metadata import (
    RECORDED_FROM,
    WRITE_ID,
    WrittenDay,
    day_materialization,
    receipt_metadata,
)
from backfill_assets.dagster.adapter.runs import end_dead_runs, markers_of, reconcile_lock
from backfill_assets.dagster.adapter.verdicts import Verdicts
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import days_text
from backfill_assets.kernel.core.plans import PUBLISH, RELEASE, ROLLBACK
from backfill_assets.kernel.core.readings import PARAMETERS
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import DayReceipt
from backfill_assets.kernel.log.adopted import JUDGE
from backfill_assets.kernel.log.log import Commit
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.attention import keep_alarms

RecordedBy = Callable[[str], Set[tuple[dg.AssetKey, str]]]
DAYS_PER_CALL = 100  # of all tables: a second; the next call goes on
GREEN_DAYS = "green_days"  # the name under which the lake keeps its look for them, for `status`
NEWEST_FAILURE = "ended runs"  # key beside the versions of tables: no table has a blank in its name
LOST_SOURCE = "the receipt: the run ended before it could say so"
UNSUCCESSFUL = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
UNDOING = (ROLLBACK, RELEASE, PUBLISH)
UNDONE_SOURCE = "a rollback, release or publish: no run made it"
ELSEWHERE_SOURCE = "the receipt: the run is one of another Dagster instance"


def reconcile(
    instance: dg.DagsterInstance, lake: Lake, states: States, naming: Naming = PLAIN
) -> list[str]:
    """Fail runs whose process is gone, and record what Dagster missed; a line per change."""
    return end_dead_runs(instance, lake) + record_missed_commits(instance, lake, states, naming)


def record_missed_commits(
    instance: dg.DagsterInstance, lake: Lake, states: States, naming: Naming = PLAIN
) -> list[str]:
    """Record commits without an event, up to the versions in `states`, and repair days that Dagster
    shows wrong.

    Returns a line per change. Where nothing happened since the last call, it reads one log per
    table and the newest runs.
    """
    markers = markers_of(instance, lake, naming)
    with reconcile_lock(lake):
        seen = markers.recorded()
        before, done = dict(seen), list[str]()
        recorded_by = cache(partial(_recorded_days, instance))
        for table, contract in states.contracts.items():
            if contract.made_by:
                continue
            # Later commits are for the next call: `states` lacks their days.
            newest = states.view.table(table).version
            for commit in lake.store.commits(table, seen.get(table, -1)):
                if commit.version > newest:
                    break
                is_settled, lines = _record_commit(
                    instance, states, table, commit, recorded_by, naming
                )
                done += lines
                if not is_settled:
                    break
                seen[table] = commit.version
        done += repair_events(instance, lake, states, seen, naming)
        if seen != before:
            report_day_checks(instance, lake, states, naming)
            lake.place.write_json(markers.reported, seen)
    return done


def _record_commit(
    instance: dg.DagsterInstance,
    states: States,
    table: str,
    commit: Commit,
    recorded_by: RecordedBy,
    naming: Naming,
) -> tuple[bool, list[str]]:
    """Record the days of a commit that Dagster does not know. Returns whether the commit is dealt
    with (not while its run goes on), and a line if days were recorded.

    Of a rollback or release, and of a run of another Dagster instance, only days whose newest
    receipt is the commit's are recorded: newer writes may be known already.
    """
    receipt, version = commit.receipt, commit.version
    if receipt is None:
        return True, []
    if _is_observed(states, table, receipt):
        return True, _record_observed(instance, states, table, commit, receipt, naming)
    is_undoing = receipt.reason in UNDOING
    if not receipt.run_id and not is_undoing:  # no run of any instance made it
        return True, []
    run = instance.get_run_by_id(receipt.run_id) if receipt.run_id else None
    if run is not None and run.status not in runs.ENDED:
        return False, []
    known = recorded_by(run.run_id) if run is not None else frozenset()
    is_of_run = run is not None and not is_undoing
    days = [*receipt.days] if is_of_run else _days_still_of(states, table, version)
    lost = [day for day in days if (naming.key(table), str(day)) not in known]
    if not lost:
        return True, []
    source = ELSEWHERE_SOURCE if run is None else LOST_SOURCE
    how = ""
    if is_undoing:
        source, how = UNDONE_SOURCE, ", put back or released,"
    for day in lost:
        made = WrittenDay(receipt.days[day], version, receipt.write_id)
        instance.report_runless_asset_event(receipt_event(naming, states, table, day, made, source))
    counted = states.contracts[table].calendar.count_text(len(lost))
    line = f"{table}: {counted} of version {version}{how} recorded from the receipt"
    return True, [line]


def _days_still_of(states: States, table: str, version: int) -> list[date]:
    """The days of a table whose newest receipt is that of a version, ascending."""
    latest = states.view.table(table).latest
    return sorted(day for day, newest in latest.items() if newest.version == version)


def record_observations(instance: dg.DagsterInstance, lake: Lake, states: States) -> None:
    """Record what was observed of tables that others write, or wrote and that were judged, and that
    assets of a project stand for, up to the versions in `states`."""
    given = [contract for contract in states.contracts.values() if contract.made_by]
    tables = [c.name for c in given if c.external or lake.is_adopted(c.name)]
    if not tables:
        return
    markers = markers_of(instance, lake)
    with reconcile_lock(lake):
        before = markers.recorded()
        seen = dict(before)
        for table in tables:
            newest = states.view.table(table).version
            for commit in lake.store.commits(table, seen.get(table, -1)):
                receipt = commit.receipt
                if receipt is None or commit.version > newest:
                    continue
                if _is_observed(states, table, receipt):
                    _record_observed(instance, states, table, commit, receipt, PLAIN)
            seen[table] = newest
        if seen != before:
            lake.place.write_json(markers.reported, seen)


def _is_observed(states: States, table: str, receipt: Receipt) -> bool:
    """Whether others wrote the days of a receipt."""
    return bool(states.contracts[table].external) or receipt.reason == JUDGE


def _record_observed(
    instance: dg.DagsterInstance,
    states: States,
    table: str,
    commit: Commit,
    receipt: Receipt,
    naming: Naming,
) -> list[str]:
    """One observation per day of a table of others that the commit found to hold other rows; a line
    that says so."""
    key = naming.of(states.contracts[table])
    tags = {name: value for name, value in receipt.tags.items() if name != PARAMETERS}
    for day, entry in receipt.days.items():
        metadata: dict[str, Any] = {
            "dagster/row_count": entry.rows,
            "fingerprint": entry.fingerprint,
            "version": str(commit.version),
            **tags,
        }
        event = dg.AssetObservation(key, partition=str(day), metadata=metadata)
        instance.report_runless_asset_event(event)
    if not receipt.days:
        return []
    unit = states.contracts[table].calendar.unit
    return [f"{table}: {len(receipt.days)} changed {unit}(s) observed"]


def _recorded_days(instance: dg.DagsterInstance, run_id: str) -> frozenset[tuple[dg.AssetKey, str]]:
    """The assets and partitions that the run materialized in Dagster."""
    events = runs.run_events(instance, run_id, dg.DagsterEventType.ASSET_MATERIALIZATION)
    return frozenset((e.asset_key, e.partition) for e in events if e.asset_key and e.partition)


def receipt_event(
    naming: Naming,
    states: States,
    table: str,
    day: date,
    made: WrittenDay | DayReceipt,
    source: str = UNDONE_SOURCE,
) -> dg.AssetMaterialization:
    """The materialization that records a day from its receipt; by default after a rollback or
    release."""
    told = {RECORDED_FROM: source, WRITE_ID: made.write_id}
    metadata = receipt_metadata(states, table, day, None, made, told)
    return day_materialization(naming.key(table), day, made.entry, metadata)


def repair_events(
    instance: dg.DagsterInstance,
    lake: Lake,
    states: States,
    seen: dict[str, int],
    naming: Naming = PLAIN,
    limit: int = DAYS_PER_CALL,
) -> list[str]:
    """Repair up to `limit` days, if a run failed since the last call.

    `seen` says what earlier calls finished, and is updated once no day is left. Returns a line per
    table.
    """
    failure = _newest_failure(instance)
    if failure == seen.get(NEWEST_FAILURE, 0):
        return []
    busy = runs.busy_days(instance, lake.address, states.contracts.values(), naming)
    remaining, lines, is_complete = limit, [], True
    for name, contract in states.contracts.items():
        if contract.is_given:
            continue
        unmade = wrongly_red_days(instance, lake, states, contract, naming)
        due = [d for d in unmade if d not in busy.get(name, ())][:remaining]
        remaining -= len(due)
        is_complete = is_complete and len(due) == len(unmade)
        if due:
            _repair_days(instance, states, name, due, naming)
            counted = contract.calendar.count_text(len(due))
            lines.append(f"{name}: {counted} shown again from their receipts")
    if is_complete:
        seen[NEWEST_FAILURE] = failure
    return lines


def _newest_failure(instance: dg.DagsterInstance) -> int:
    """A number that changes with each failed or cancelled run, even if the clock was set back: the
    time of the newest one (microseconds since 1970) plus how many there are; 0 without any."""
    wanted = dg.RunsFilter(statuses=UNSUCCESSFUL)
    newest = instance.get_run_records(wanted, limit=1, order_by="update_timestamp", ascending=False)
    # Storage keeps UTC without saying so.
    at = sum(round(r.update_timestamp.replace(tzinfo=UTC).timestamp() * 1e6) for r in newest)
    return at + instance.get_runs_count(wanted)


def wrongly_red_days(
    instance: dg.DagsterInstance,
    lake: Lake,
    states: States,
    contract: Contract,
    naming: Naming = PLAIN,
) -> list[date]:
    """The written days of a table whose newest plan came to nothing although their rows are right,
    ascending."""
    planned = planned_partitions(instance, naming.key(contract.name))
    # After the plans: a run that began meanwhile has none among them.
    alive = {run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=runs.ACTIVE))}
    latest = states.view.table(contract.name).latest
    unmade = {_day_or_none(key) for key, run_id in planned.items() if run_id not in alive}
    lost = latest.keys() & unmade
    if not lost:
        return []
    right = lost - Verdicts(instance, lake, states, naming).refused(contract)
    return sorted(d for d in right if states.of(contract.name, d) is not State.STALE)


def report_green_days(instance: dg.DagsterInstance, lake: Lake, states: States) -> dict[str, str]:
    """A line per table with days that Dagster shows and that no receipt names: their asset returned
    nothing, and so never reached its IO manager. By table; the lake keeps the lines until the next
    look. Asset keys of a project's own assets are the same under every naming of the lake."""
    found: dict[str, str] = {}
    for contract in states.contracts.values():
        if contract.external or not contract.made_by:
            continue
        shown = map(_day_or_none, instance.get_materialized_partitions(PLAIN.of(contract)))
        written = states.view.table(contract.name).latest.keys()
        if days := {day for day in shown if day is not None} - written:
            found[contract.name] = (
                f"{contract.made_by} {days_text(sorted(days))}: green in Dagster, and no receipt "
                "names them: the asset "
                "returned nothing. Return a frame without rows where a day has none, and "
                "materialize these days again"
            )
    keep_alarms(lake.root, instance_id(instance), GREEN_DAYS, found)
    return found


def _day_or_none(partition: str | None) -> date | None:
    try:
        return date.fromisoformat(partition or "")
    except ValueError:
        return None  # of the whole table, or of definitions that had other partitions


def _repair_days(
    instance: dg.DagsterInstance, states: States, name: str, days: Sequence[date], naming: Naming
) -> None:
    """Report a materialization of each of these written days, from its receipt and what its newest
    one said."""
    latest, key = states.view.table(name).latest, naming.key(name)
    before = newest_materializations(instance, key, map(str, days))
    for day in days:
        receipt = latest[day]
        told = {RECORDED_FROM: LOST_SOURCE}
        metadata = receipt_metadata(states, name, day, before.get(str(day)), receipt, told)
        instance.report_runless_asset_event(day_materialization(key, day, receipt.entry, metadata))
