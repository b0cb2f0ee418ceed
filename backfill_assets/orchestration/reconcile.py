"""The start-up reconcile: Dagster's records follow the tables, never the other way round.

Lives here: recording commits whose run died before its event, and when days are healed. Does not live here: which
days need that (`healing`), ending runs whose process is gone and remembering what was looked at (`markers`), repairing
tables (nothing to repair: a commit is whole or absent). Runs at the start of every step, and at ticks of `late_data`.
"""

from collections.abc import Iterable
from datetime import date

import dagster as dg
from filelock import FileLock

from backfill_assets.core.contracts import Contract
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.rollbacks import RELEASE, ROLLBACK
from backfill_assets.core.view import Stamp
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.orchestration.healing import TOLD_FROM, heal
from backfill_assets.orchestration.markers import end_dead_runs, markers_of
from backfill_assets.orchestration.metadata import WRITE_ID, retold
from backfill_assets.orchestration.runs import ENDED, records_of


def reconcile(instance: dg.DagsterInstance, lake: Lake, pipeline: Pipeline, run_id: str) -> list[str]:
    """End runs without a process, then let Dagster's records follow the tables. Returns what was done, a line each."""
    markers_of(instance, lake).mark(run_id)
    return end_dead_runs(instance, lake) + follow_receipts(instance, lake, pipeline)


def follow_receipts(instance: dg.DagsterInstance, lake: Lake, pipeline: Pipeline) -> list[str]:
    """Record commits without an event, and days that are shown wrong. Returns what was done, a line each.

    Where nothing happened since the last time, that is one look per table's log and one at the newest runs.
    """
    markers = markers_of(instance, lake)
    with FileLock(lake.locks / "reconcile.lock"):
        seen = markers.reported()
        before, done = dict(seen), list[str]()
        for table in (t.name for t in pipeline.tables):
            for commit in lake.store.commits(table, seen.get(table, -1)):
                if commit.receipt is not None:
                    if commit.receipt.reason in (ROLLBACK, RELEASE):
                        settled, lines = _record_undoing(instance, lake, pipeline.table(table).contract, commit.version)
                    else:
                        settled, lines = _record(instance, table, commit.version, commit.receipt)
                    done += lines
                    if not settled:
                        break
                seen[table] = commit.version
        done += heal(instance, lake, pipeline, seen)
        if seen != before:
            markers.keep_reported(seen)
    return done


def _record(instance: dg.DagsterInstance, table: str, version: int, receipt: Receipt) -> tuple[bool, list[str]]:
    """Whether Dagster knows all days of the commit now; False while its run still goes on."""
    run = instance.get_run_by_id(receipt.run_id) if receipt.run_id else None
    if run is None:
        return True, []
    if run.status not in ENDED:
        return False, []
    known = set(_recorded_days(instance, receipt.run_id, table))
    lost = [d for d in receipt.days if str(d) not in known]
    for day in lost:
        metadata = retold(None, receipt.days[day], version, TOLD_FROM) | {WRITE_ID: receipt.write_id}
        instance.report_runless_asset_event(dg.AssetMaterialization(table, partition=str(day), metadata=metadata))
    return True, [f"{table}: {len(lost)} day(s) of version {version} recorded from the receipt"] if lost else []


def _record_undoing(
    instance: dg.DagsterInstance, lake: Lake, contract: Contract, version: int
) -> tuple[bool, list[str]]:
    """`_record` of a rollback or release, which mostly has no run: of the days whose newest receipt it is. Dagster
    hears of them late, and may know of newer writes already."""
    stamps = lake.store.view(contract.name, contract.day_column).stamps
    newest = {d: s for d, s in stamps.items() if s.version == version}
    if not newest:
        return True, []
    run_id = next(iter(newest.values())).run_id
    run = instance.get_run_by_id(run_id) if run_id else None
    if run is not None and run.status not in ENDED:
        return False, []
    known = set(_recorded_days(instance, run_id, contract.name)) if run is not None else set()
    lost = sorted(d for d in newest if str(d) not in known)
    for day in lost:
        told = undoing_event(contract.name, day, newest[day])
        instance.report_runless_asset_event(told)
    done = f"{contract.name}: {len(lost)} day(s) of version {version}, put back or released, recorded from the receipt"
    return True, [done] if lost else []


def undoing_event(table: str, day: date, stamp: Stamp) -> dg.AssetMaterialization:
    """What Dagster is told of a day that was put back or let go."""
    metadata = retold(None, stamp.entry, stamp.version, "a rollback or release: no run made it") | {
        WRITE_ID: stamp.write_id
    }
    return dg.AssetMaterialization(table, partition=str(day), metadata=metadata)


def _recorded_days(instance: dg.DagsterInstance, run_id: str, table: str) -> Iterable[str]:
    for event in records_of(instance, run_id, dg.DagsterEventType.ASSET_MATERIALIZATION):
        if event.asset_key == dg.AssetKey(table) and event.partition:
            yield event.partition
