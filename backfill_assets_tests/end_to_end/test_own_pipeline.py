"""A user's own pipeline: ten lines of contract and transform on the same rooms, with our tables or without them.

Lives here: proof that nothing below `pipeline` knows a table of ours. Does not live here: our own tables' content.
It goes through Dagster's door, `assemble`, as a user's definitions do.
"""

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from backfill_assets import Basis, Chunk, Column, Contract, Input, LakeSettings, Table, assemble, tables
from backfill_assets.orchestration.context import TablesOf
from backfill_assets.orchestration.runs import REBUILD
from backfill_assets_tests.end_to_end.worlds import World, land, make_world, span
from backfill_assets_tests.oracle import Rules, delivery
from backfill_assets_tests.pipeline.built_in import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.users_do

RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-05"), date(2024, 3, 4))
ROWS = [
    delivery(1, "2024-03-02 10:00", key="a", value=3),
    delivery(2, "2024-03-03 10:00", key="b", value=4),
    delivery(3, "2024-03-03 11:00", "2024-03-02 09:00", key="c", entity="B", value=5),
]


def busiest(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    """The number of current events and the greatest value per day."""
    from pyspark.sql import functions as F

    rows = frames["staging"].where("known_until is null")
    days = rows.where(rows.event_date.between(chunk.days.start, chunk.days.last))
    return days.groupBy("event_date").agg(F.count(F.lit(1)).alias("events"), F.max("value").alias("most"))


DAY, COUNT = Column("event_date", "DATE", "the day"), Column("events", "BIGINT", "how many")
BUSIEST = Contract(
    "busiest",
    "The busiest",
    (DAY, COUNT, Column("most", "BIGINT", "the greatest value")),
    "event_date",
    ("event_date",),
    (Input("staging"),),
)


def appended(settings: LakeSettings) -> tuple[Table, ...]:
    return (*tables(settings), Table(BUSIEST, busiest))


def sizes(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    """Upserts per event day, straight from raw."""
    raw = frames["raw"].where("op = 'upsert'").selectExpr("to_date(event_ts) as event_date")
    return (
        raw.where(raw.event_date.between(chunk.days.start, chunk.days.last))
        .groupBy("event_date")
        .count()
        .toDF("event_date", "events")
    )


def alone(settings: LakeSettings) -> tuple[Table, ...]:
    own = Contract("sizes", "Sizes", (DAY, COUNT), "event_date", ("event_date",), (Input("raw", basis=Basis.ARRIVALS),))
    return (Table(contract("raw")), Table(own, sizes))


def through_dagster(world: World, tables_of: TablesOf, folder: Path) -> list[str]:
    """Run the job `rebuild` over the days; returns the assets it materialized."""
    days = span(RULES)
    tags = {"dagster/asset_partition_range_start": str(days.start), "dagster/asset_partition_range_end": str(days.last)}
    job = assemble(world.root, tables_of).resolve_job_def(REBUILD)
    with dg.DagsterInstance.local_temp(str(folder)) as instance:
        result = job.execute_in_process(instance=instance, tags=tags)
    assert result.success
    return sorted({str(e.asset_key.path[-1]) for e in result.get_asset_materialization_events() if e.asset_key})


def test_a_table_appended_to_ours_is_built_from_staging(spark: "SparkSession", tmp_path: Path) -> None:
    world = make_world(tmp_path / "lake", RULES)
    land(world, "rows.jsonl", ROWS)
    assert "busiest" in through_dagster(world, appended, tmp_path)
    assert [(r["event_date"].day, r["events"], r["most"]) for r in world.content("busiest")] == [(2, 2, 5), (3, 1, 4)]
    assert World(world.root, appended).states()["busiest"] == {"fresh"}


def test_a_pipeline_that_replaces_ours_needs_none_of_our_tables(spark: "SparkSession", tmp_path: Path) -> None:
    world = make_world(tmp_path / "lake", RULES)
    land(world, "rows.jsonl", ROWS)
    assert through_dagster(world, alone, tmp_path) == ["raw", "sizes"]
    assert [(r["event_date"].day, r["events"]) for r in world.content("sizes")] == [(2, 2), (3, 1)]
    assert not (world.root / "tables" / "staging").exists()
