"""Reconcile: Dagster's records follow the tables, never the other way round.

Here: recording commits whose run died before its event, at the start of every run and at ticks of `late_data`. Not
here: days that Dagster shows wrong (`event_repair`), ending runs whose process is gone (`run_liveness`), repairing
tables (a commit is whole or absent).
"""

from collections.abc import Callable, Set
from datetime import date
from functools import cache, partial

import dagster as dg
from filelock import FileLock

from backfill_assets.core.plans import RELEASE, ROLLBACK
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.states import States
from backfill_assets.core.view import Stamp
from backfill_assets.lake.files import write_json
from backfill_assets.lake.home import Lake
from backfill_assets.lake.log import Commit
from backfill_assets.orchestration.event_repair import TOLD_FROM, UNDONE, repair_events
from backfill_assets.orchestration.metadata import WRITE_ID, receipt_metadata
from backfill_assets.orchestration.run_liveness import end_dead_runs, markers_of
from backfill_assets.orchestration.runs import ENDED, records_of

RecordedBy = Callable[[str], Set[tuple[str, str]]]
UNDOING = (ROLLBACK, RELEASE)
UNDONE_FROM = "a rollback or release: no run made it"
ELSEWHERE_FROM = "the receipt: the run is one of another Dagster instance"


def reconcile(instance: dg.DagsterInstance, lake: Lake, states: States, run_id: str) -> list[str]:
    """Mark the run as alive, fail runs whose process is gone, and record what Dagster missed.

    Returns a line per change.
    """
    markers_of(instance, lake).mark(run_id)
    return end_dead_runs(instance, lake) + follow_receipts(instance, lake, states)


def follow_receipts(instance: dg.DagsterInstance, lake: Lake, states: States) -> list[str]:
    """Record commits without an event, up to the versions in `states`, and repair days that Dagster shows wrong.

    Returns a line per change. Where nothing happened since the last call, it reads one log per table and the newest
    runs.
    """
    markers = markers_of(instance, lake)
    with FileLock(lake.locks / "reconcile.lock"):
        seen = markers.recorded()
        before, done = dict(seen), list[str]()
        recorded_by = cache(partial(_recorded, instance))
        for table in states.contracts:
            newest = states.view.table(table).version  # later commits are for the next call: `states` lacks their days
            for commit in lake.store.commits(table, seen.get(table, -1)):
                if commit.version > newest:
                    break
                if commit.receipt is not None:
                    settled, lines = _record(instance, states, table, commit, recorded_by)
                    done += lines
                    if not settled:
                        break
                    if commit.receipt.reason in UNDOING:
                        seen[UNDONE] = 1
                seen[table] = commit.version
        done += repair_events(instance, lake, states, seen)
        if seen != before:
            write_json(markers.reported, seen)
    return done


def _record(
    instance: dg.DagsterInstance, states: States, table: str, commit: Commit, recorded_by: RecordedBy
) -> tuple[bool, list[str]]:
    """Record the days of a commit that Dagster does not know, and say so in a line; False while its run goes on.

    A rollback or release mostly has no run, and another Dagster instance may own the run of a commit: then only days
    whose newest receipt is the commit's are recorded, since this instance may know newer writes already. A commit
    without a run id is left out.
    """
    receipt, version = commit.receipt, commit.version
    undoing = receipt is not None and receipt.reason in UNDOING
    if receipt is None or not (receipt.run_id or undoing):
        return True, []
    run = instance.get_run_by_id(receipt.run_id) if receipt.run_id else None
    if run is not None and run.status not in ENDED:
        return False, []
    days = list(receipt.days)
    if undoing or run is None:
        days = sorted(d for d, s in states.view.table(table).stamps.items() if s.version == version)
    known = recorded_by(run.run_id) if run is not None else frozenset()
    lost = [d for d in days if (table, str(d)) not in known]
    source = UNDONE_FROM if undoing else TOLD_FROM if run is not None else ELSEWHERE_FROM
    for day in lost:
        instance.report_runless_asset_event(_event(table, day, receipt.days[day], version, receipt.write_id, source))
    how = ", put back or released," if undoing else ""
    return True, [f"{table}: {len(lost)} day(s) of version {version}{how} recorded from the receipt"] if lost else []


def _recorded(instance: dg.DagsterInstance, run_id: str) -> frozenset[tuple[str, str]]:
    """The tables and partitions that the run materialized in Dagster."""
    events = records_of(instance, run_id, dg.DagsterEventType.ASSET_MATERIALIZATION)
    return frozenset((e.asset_key.to_user_string(), e.partition) for e in events if e.asset_key and e.partition)


def undoing_event(table: str, day: date, stamp: Stamp) -> dg.AssetMaterialization:
    """The materialization that records a day after a rollback or release."""
    return _event(table, day, stamp.entry, stamp.version, stamp.write_id, UNDONE_FROM)


def _event(table: str, day: date, entry: DayEntry, version: int, write_id: str, source: str) -> dg.AssetMaterialization:
    metadata = receipt_metadata(None, entry, version, source) | {WRITE_ID: write_id}
    return dg.AssetMaterialization(table, partition=str(day), metadata=metadata)
