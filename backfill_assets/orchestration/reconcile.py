"""The start-up reconcile: Dagster's records follow the tables, never the other way round.

Lives here: recording commits whose run died before its event, and ending runs whose process is gone. Does not live
here: repairing tables (nothing to repair: a commit is whole or absent). Runs at the start of every step and CLI
backfill; what was looked at is remembered in `LAKE/.reconciled.json`, which may be deleted at any time.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
from filelock import FileLock

from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.home import Lake
from backfill_assets.lake.lock import CLOCK_SLACK_SECONDS
from backfill_assets.lake.log import commits
from backfill_assets.lake.model import Pipeline
from backfill_assets.orchestration.metadata import PREFIX, entry_metadata
from backfill_assets.orchestration.runs import ENDED, records_of


def reconcile(instance: dg.DagsterInstance, lake: Lake, pipeline: Pipeline, run_id: str) -> list[str]:
    """End runs without a process, then record commits without an event. Returns what was done, a line each."""
    runs = lake.root / ".runs"
    runs.mkdir(parents=True, exist_ok=True)
    (runs / run_id).write_text(json.dumps([os.getpid(), psutil.Process().create_time()]))
    mark = lake.root / ".reconciled.json"
    with FileLock(lake.locks / "reconcile.lock"):
        done = _end_dead_runs(instance, runs)
        seen: dict[str, int] = _read(mark)
        for table in (t.name for t in pipeline.tables):
            for commit in commits(lake.table_path(table), seen.get(table, -1)):
                if commit.receipt is not None:
                    settled, lines = _record(instance, table, commit.version, commit.receipt)
                    done += lines
                    if not settled:
                        break
                seen[table] = commit.version
        mark.write_text(json.dumps(seen))
    return done


def _read(path: Path) -> dict[str, int]:
    try:
        found: dict[str, int] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def end_dead_runs(instance: dg.DagsterInstance, lake: Lake) -> list[str]:
    """End runs that say they are running while their process is gone; Dagster alone would wait for ever. Returns what
    was done, a line each."""
    with FileLock(lake.locks / "reconcile.lock"):
        return _end_dead_runs(instance, lake.root / ".runs")


def _end_dead_runs(instance: dg.DagsterInstance, runs: Path) -> list[str]:
    done: list[str] = []
    if not runs.is_dir():
        return done
    for path in runs.iterdir():
        run = instance.get_run_by_id(path.name)
        if run is None or run.status in ENDED:
            path.unlink(missing_ok=True)
        elif not _is_alive(path):
            instance.report_run_failed(run, "The run's process is gone: it was killed. What it committed is recorded.")
            path.unlink(missing_ok=True)
            done.append(f"run {path.name} ended: its process is gone")
    return done


def _is_alive(path: Path) -> bool:
    try:
        pid, started = json.loads(path.read_text())
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < CLOCK_SLACK_SECONDS and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError):
        return False


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
        entry = receipt.days[day]
        metadata: dict[str, Any] = {
            **entry_metadata(entry, version), PREFIX + "write_id": receipt.write_id,
            PREFIX + "recorded_from": "the receipt: the run ended before it could say so",
        }  # fmt: skip
        instance.report_runless_asset_event(dg.AssetMaterialization(table, partition=str(day), metadata=metadata))
    return True, [f"{table}: {len(lost)} day(s) of version {version} recorded from the receipt"] if lost else []


def _recorded_days(instance: dg.DagsterInstance, run_id: str, table: str) -> Iterable[str]:
    for event in records_of(instance, run_id, dg.DagsterEventType.ASSET_MATERIALIZATION):
        if event.asset_key == dg.AssetKey(table) and event.partition:
            yield event.partition
