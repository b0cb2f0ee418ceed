"""A range backfill against a hand-written PySpark script that writes the same tables to Delta, in one run, one server.

Lives here: the comparison and its figures: wall seconds, CPU seconds of Python and of the JVM, for the script, for the
load path without Dagster, through Dagster, and for a rerun that changes nothing. Does not live here: any assertion.

usage: python -m backfill_assets_tests.benchmarks.against_handwritten SET FIRST LAST   (SET: in ../shared/data)
"""

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import psutil

from backfill_assets.core.days import DayRange, from_inclusive, parse_day
from backfill_assets.engine.server import server_status
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.lock import load_lock
from backfill_assets.lake.model import Chunk, Pipeline, make_pipeline
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.session import LakeSession
from backfill_assets.landing.select import expressions
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.quick_events import quick_events
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.processes import CHECKOUT


def main(name: str, first: str, last: str) -> None:
    """Load one data set once to warm the server, then print a line per part; every part writes all days again."""
    days = from_inclusive(parse_day(first), parse_day(last))
    with tempfile.TemporaryDirectory() as folder:
        lake, pipeline = _lake(name, Path(folder) / "lake")
        lake_session = LakeSession(lake)
        _measure("first load (cold server)", lake_session, lambda: _by_load_path(lake_session, pipeline, days))
        for _ in range(2):
            _measure("hand-written script", lake_session, lambda: _by_hand(lake_session, pipeline, days))
            _measure("load path, forced", lake_session, lambda: _by_load_path(lake_session, pipeline, days, force=True))
        _measure("load path, nothing changed", lake_session, lambda: _by_load_path(lake_session, pipeline, days))
        _measure("Dagster, nothing changed", lake_session, lambda: _through_dagster(lake, days, Path(folder)))


def _lake(name: str, root: Path) -> tuple[Lake, Pipeline]:
    tool = CHECKOUT.parent / "shared" / "tools" / "make_lake.py"
    subprocess.run([sys.executable, str(tool), name, str(root)], check=True, capture_output=True)
    lake = open_lake(root)
    return lake, make_pipeline(tables(lake.settings))


def _measure(what: str, lake_session: LakeSession, work: Callable[[], Any]) -> None:
    lake_session.spark()
    status = server_status(lake_session.lake.root)
    pid = status.pid if status else None
    processes = [psutil.Process()] + ([psutil.Process(pid)] if pid else [])
    before, began = [sum(p.cpu_times()[:2]) for p in processes], time.perf_counter()
    work()
    wall = time.perf_counter() - began
    spent = [sum(p.cpu_times()[:2]) - b for p, b in zip(processes, before, strict=True)]
    memory = [round(p.memory_info().rss / 2**20) for p in processes]
    print(
        f"{what:38s} wall {wall:7.1f} s   CPU python, JVM {[round(s, 1) for s in spent]} s   RSS {memory} MiB",
        flush=True,
    )


def _by_load_path(lake_session: LakeSession, pipeline: Pipeline, days: DayRange, force: bool = False) -> None:
    for table in pipeline.tables:
        rebuild = Rebuild(RebuildRequest(lake_session, pipeline, table, days, Provenance("manual"), force))
        with load_lock(lake_session.lake.locks):
            rebuild.prepare()
            rebuild.publish()
            rebuild.release()


def _by_hand(lake_session: LakeSession, pipeline: Pipeline, days: DayRange) -> None:
    """What a good engineer writes without us: read, the same transforms, overwrite the partitions, no checks."""
    from pyspark.sql import functions as F

    session, root = lake_session.spark(), lake_session.lake.root / "by_hand"
    source = lake_session.lake.settings.source
    raw = session.read.parquet(source.files).selectExpr(*expressions(source.select))
    raw = raw.withColumn("arrival_date", F.to_date("arrival_ts")).where(F.col("arrival_date") < F.lit(days.last))
    raw = raw.withColumns({c: F.col(c).cast("timestamp") for c in ("arrival_ts", "event_ts", "version_ts")})
    _overwrite(raw, root / "raw", "arrival_date")
    chunk = Chunk(days, lake_session.lake.settings.as_of)
    for table in pipeline.tables[1:]:
        frames = {i.table: session.read.format("delta").load(str(root / i.table)) for i in table.contract.inputs}
        if table.transform is not None:
            _overwrite(table.transform(frames, chunk), root / table.name, table.contract.day_column)


def _overwrite(frame: Any, path: Path, day: str) -> None:
    writer = frame.hint("rebalance", day).write.format("delta").mode("overwrite").partitionBy(day)
    writer.option("partitionOverwriteMode", "dynamic").save(str(path))


def _through_dagster(lake: Lake, days: DayRange, folder: Path) -> None:
    logging.disable(logging.CRITICAL)
    rebuild = assemble(lake.root, tables).resolve_job_def("rebuild")
    span = {"dagster/asset_partition_range_start": str(days.start), "dagster/asset_partition_range_end": str(days.last)}
    with dg.DagsterInstance.local_temp(str(folder)) as instance, quick_events(instance):
        rebuild.execute_in_process(instance=instance, tags=span)


if __name__ == "__main__":
    main(*sys.argv[1:4])
