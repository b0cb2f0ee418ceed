"""A lab of skew: one key with 60 % of the rows, 30 % without a key, and what each choice against it
costs per task.

Lives here: made-up versions, the same work by several choices, each held against the plain one by
all its rows, and figures of Spark's own tasks. Does not live here: any assertion, but that every
choice gives the same rows.

Rows are spread over eight tasks that are never put together, as eight workers of a cluster would
share them: an even share is 12.5 %. The share shown is that of the task that read most rows of any
stage after a shuffle.

usage: python -m backfill_assets_tests.benchmarks.skew [ROWS]
"""

import io
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from backfill_assets.engines.confs import EngineSettings, size_confs
from backfill_assets.engines.server import stop_server
from backfill_assets.engines.session import drop_session, open_session, set_confs
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.pipeline.transforms.aggregation import (
    Aggregation,
    Value,
    built_in_columns,
    trailing_reach,
)
from backfill_assets.pipeline.transforms.declared import features_now
from backfill_assets.pipeline.transforms.spread import spread_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Make = Callable[[], "DataFrame"]
TASKS, SALT, EVENT_DAYS, FIRST = 8, 16, 28, date(2024, 1, 1)
DAYS = DayRange(FIRST + ONE_DAY * 14, FIRST + ONE_DAY * EVENT_DAYS)
ENTITIES = 100_000
SKEWED = (
    f"CASE WHEN id % 10 < 6 THEN 'hot' WHEN id % 10 = 9 THEN concat('e', hash(id) % {ENTITIES}) END"
)
COLUMNS = (
    *built_in_columns((7, 14)),
    Aggregation("values", "distinct", Value("value", "BIGINT"), trailing_reach(14)),
)
PLAIN = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
ADAPTIVE = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1m",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.5",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1m",
}
UNTOUCHED = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "256m",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "5.0",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64m",
}


def content(frame: "DataFrame") -> tuple[int, int]:
    """How many rows there are, and the sum of a hash of each, whatever their order."""
    cells = ", ".join(f"CAST({name} AS STRING)" for name in sorted(frame.columns))
    hashed = frame.selectExpr(f"CAST(xxhash64({cells}) AS DECIMAL(20,0)) AS hashed")
    (row,) = hashed.selectExpr("count(*) AS rows", "sum(hashed) AS hashes").collect()
    return row["rows"], int(row["hashes"] or 0)


@dataclass
class Tried:
    """One way to do a piece of work, and its time; `tag` marks its jobs."""

    work: str
    choice: str
    tag: str
    same: bool
    wall: float


def versions(spark: "SparkSession", rows: int, entity: str, folder: Path) -> "DataFrame":
    """So many versions over EVENT_DAYS days, whose entity is this expression over `id`; kept as a
    file."""
    day = f"date_add(DATE '{FIRST}', CAST(abs(hash(id, 2)) % {EVENT_DAYS} AS INT))"
    made = spark.range(rows).selectExpr(
        "CAST(id AS STRING) AS event_key",
        f"{entity} AS entity",
        f"{day} AS event_date",
        f"CAST({day} AS TIMESTAMP) AS event_ts",
        "abs(hash(id, 3)) % 1000L AS value",
        "CAST(id % 2 AS INT) AS flag",
        f"CAST({day} AS TIMESTAMP) AS known_from",
        "CAST(NULL AS TIMESTAMP) AS known_until",
    )
    made.write.parquet(str(folder))
    return spark.read.parquet(str(folder))


def ways(
    spark: "SparkSession", rows: int, root: Path
) -> Iterator[tuple[str, str, Make, Mapping[str, str]]]:
    """Each work, plain first and then by choice: names, how to make it, and settings of Spark."""
    skewed = versions(spark, rows, SKEWED, root / "skewed.parquet")
    even = versions(spark, rows, f"concat('e', hash(id) % {ENTITIES})", root / "even.parquet")
    yield from _ways_to_sum(skewed)
    for what, frame in (("features, skewed", skewed), ("features, even keys", even)):
        plain = partial(features_now, frame, DAYS, ["entity"], COLUMNS)
        yield what, "plain", plain, {}
        yield "", "by day first", partial(plain, by_day_first=True), {}
    yield from _ways_to_join(spark, skewed)
    yield "number per entity", "plain", lambda: _numbered(skewed, "entity"), {}
    yield (
        "number per entity and day",
        "another key",
        lambda: _numbered(skewed, "entity", "event_date"),
        {},
    )


def _ways_to_sum(skewed: "DataFrame") -> Iterator[tuple[str, str, Make, Mapping[str, str]]]:
    salt = F.pmod(F.xxhash64("event_key"), F.lit(SALT)).alias("salt")
    parts = skewed.groupBy("entity", salt).agg(
        F.sum("value").alias("total"), F.count("*").alias("events")
    )
    yield (
        "sums per entity",
        "plain",
        lambda: skewed.groupBy("entity").agg(_total("value"), F.count("*")),
        {},
    )
    yield (
        "",
        f"salt {SALT}",
        lambda: parts.groupBy("entity").agg(_total("total"), F.sum("events")),
        {},
    )


def _ways_to_join(
    spark: "SparkSession", skewed: "DataFrame"
) -> Iterator[tuple[str, str, Make, Mapping[str, str]]]:
    names = spark.range(ENTITIES).selectExpr(
        "concat('e', id) AS entity", "concat('name ', id) AS name"
    )
    names = names.union(spark.sql("SELECT 'hot', 'name of hot'"))
    plain = Input("staging", by=("entity",))
    yield "join to names", "plain", lambda: spread_join(skewed, names, plain), {}
    yield "", "Spark's adaptive join", lambda: spread_join(skewed, names, plain), ADAPTIVE
    yield "", "broadcast", lambda: spread_join(skewed, F.broadcast(names), plain), {}
    for nulls, salted in ((True, 1), (False, SALT), (True, SALT)):
        chosen = Input("staging", by=("entity",), isolate_nulls=nulls, salt=salted)
        yield "", chosen.spread, partial(spread_join, skewed, names, chosen), {}


def _total(column: str) -> Column:
    return F.sum(column).alias("total")


def _numbered(frame: "DataFrame", *by: str) -> "DataFrame":
    return frame.withColumn(
        "number", F.row_number().over(Window.partitionBy(*by).orderBy("event_ts", "event_key"))
    )


def tried(
    spark: "SparkSession", rows: int, root: Path, settings: EngineSettings
) -> Iterator[Tried]:
    """Every way once to compare its rows, which warms it, and once more to measure it."""
    before: tuple[int, int] | None = None
    for number, (work, choice, make, confs) in enumerate(ways(spark, rows, root)):
        set_confs(spark, {**size_confs(settings, rows), **PLAIN, **UNTOUCHED, **confs})
        found = content(make().toDF(*(f"c{n}" for n, _ in enumerate(make().columns))))
        before, tag = found if work else before, f"way-{number}-"
        spark.addTag(tag)
        began = time.perf_counter()
        make().write.format("noop").mode("overwrite").save()
        wall = time.perf_counter() - began
        spark.removeTag(tag)
        yield Tried(work, choice, tag, found == before, wall)


def events(folder: Path) -> list[dict[str, Any]]:
    """All events of the logs below a folder, running applications included."""
    import pyarrow as pa

    found = []
    for path in sorted(p for p in folder.rglob("events_*") if p.is_file()):
        with pa.input_stream(
            str(path), compression="zstd" if ".zstd" in path.name else None
        ) as stream:
            text = io.BytesIO()
            try:
                while block := stream.read(1 << 20):
                    text.write(block)
            except OSError:
                pass  # the end of a log that is still written
        for line in text.getvalue().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def main(rows: int) -> None:
    """A line per way: seconds, processor seconds, rows moved, the share of the busiest task, its
    time by the median."""
    root = Path(tempfile.mkdtemp())
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (root / "events").as_uri()}
    (root / "events").mkdir()
    settings = EngineSettings(
        "local[2]", "2g", confs={**logged, "spark.sql.shuffle.partitions": str(TASKS)}
    )
    spark = open_session(root, settings)
    found = list(tried(spark, rows, root, settings))
    drop_session(root)
    stop_server(root, force=True)
    stages, tasks = dict[int, str](), defaultdict[int, list[Mapping[str, float]]](list)
    for event in events(root / "events"):
        if event["Event"] == "SparkListenerJobStart":
            stages |= dict.fromkeys(
                event["Stage IDs"], event["Properties"].get("spark.job.tags", "")
            )
        elif event["Event"] == "SparkListenerTaskEnd" and (told := event.get("Task Metrics")):
            read = told["Shuffle Read Metrics"]["Total Records Read"]
            seconds = {
                "run": told["Executor Run Time"] / 1e3,
                "cpu": told["Executor CPU Time"] / 1e9,
            }
            tasks[event["Stage ID"]].append({**seconds, "rows": read})
    for one in found:
        mine = [tasks[s] for s, tags in stages.items() if one.tag in tags and s in tasks]
        _tell(one, mine)


def _tell(one: Tried, stages: list[list[Mapping[str, float]]]) -> None:
    moved = [stage for stage in stages if sum(t["rows"] for t in stage)]
    cpu = sum(t["cpu"] for stage in stages for t in stage)
    line = f"{one.work:26s} {one.choice:22s} {one.wall:6.2f} s {cpu:6.2f} s CPU"
    if moved:
        busiest = max(moved, key=lambda stage: max(t["rows"] for t in stage))
        read, run = [t["rows"] for t in busiest], [t["run"] for t in busiest]
        total = sum(t["rows"] for stage in moved for t in stage)
        line += (
            f" {total:11,.0f} rows moved, busiest task {max(read) / sum(read):5.1%} "
            f"({max(read):9,.0f} rows)"
        )
        line += f", {max(run):.2f} s, median {median(run):.2f} s of {len(run)}"
    print(f"{line}, {'the same rows' if one.same else 'OTHER ROWS'}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
