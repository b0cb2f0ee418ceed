"""A project whose runs write two tables that belong together, as a module that processes of a
multiprocess executor import.
Here: its job by either executor, and what a reader saw while a run was between the tables. Not
here: tests (`test_runs_seen_whole.py`)."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pyarrow as pa

from backfill_assets import Input
from backfill_assets.dagster import LakeIOManager, daily_table
from backfill_assets.reading.opening import open_lake

LAKE = "BACKFILL_ASSETS_TESTS_LAKE"
DAY = "2024-03-01"
LOOKS, FAILS = "readers look", "weekly fails"  # tags of runs

RESOURCES = {
    "io_manager": LakeIOManager(lake=dg.EnvVar(LAKE))
}  # definitions are kept as long as a process lives


def folder() -> Path:
    """Where the lake lies, the number that orders return, and what readers saw."""
    return Path(os.environ[LAKE]).parent


def _rows(context: dg.AssetExecutionContext, cents: int) -> pa.Table:
    days = [*context.partition_keys]
    return pa.table({"day": pa.array(days).cast(pa.date32()), "cents": [cents] * len(days)})


@daily_table(start=DAY)
def orders(context: dg.AssetExecutionContext) -> pa.Table:
    """What `weekly` is made from."""
    return _rows(context, int((folder() / "cents").read_text()))


@daily_table(start=DAY)
def unrelated(context: dg.AssetExecutionContext) -> pa.Table:
    """Of another run."""
    return _rows(context, 7)


@daily_table(start=DAY, inputs=[Input("orders")])
def weekly(context: dg.AssetExecutionContext, orders: pa.Table) -> pa.Table:
    """Made from `orders`; where readers look, another run ends meanwhile, and they look before and
    after."""
    if LOOKS in context.run.tags:
        look()
        other = dg.materialize(
            [unrelated], partition_key=DAY, resources=RESOURCES, instance=context.instance
        )
        assert other.success
        look()
    if FAILS in context.run.tags:
        raise ValueError("as asked for")
    return _rows(context, sum(orders["cents"].to_pylist()))


def look() -> None:
    """Keep what a reader sees of both tables now."""
    lake = open_lake(folder() / "lake")
    both = [
        lake.table(name).days(DAY, unfit="take").arrow().to_pylist()
        for name in ("orders", "weekly")
    ]
    with (folder() / "seen").open("a") as seen:
        seen.write(json.dumps([rows[0]["cents"] if rows else 0 for rows in both]) + "\n")


def _job(executor: dg.ExecutorDefinition) -> dg.JobDefinition:
    job = dg.define_asset_job("both", selection=[orders, weekly])
    defs = dg.Definitions(
        [orders, weekly, unrelated], jobs=[job], resources=RESOURCES, executor=executor
    )
    return defs.resolve_job_def("both")


def in_process() -> dg.JobDefinition:
    """The job in one process."""
    return _job(dg.in_process_executor)


def multiprocess() -> dg.JobDefinition:
    """The job with a process per step."""
    return _job(dg.multiprocess_executor)


JOBS: tuple[Callable[[], dg.JobDefinition], ...] = (in_process, multiprocess)
