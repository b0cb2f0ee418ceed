"""Lab `skew`: NULLs in one place, one customer with 60 % of the rows, a remedy for each, shares by
Spark's own metrics.

Not here: the choices of a contract against skew (`pipeline.transforms.spread`) and the shares of a
lake of one's own (`plans.skew`). The lab starts a local Spark server whatever the lakes run on:
other engines have no metrics of tasks.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.engines.confs import EngineSettings, size_confs
from backfill_assets.engines.server import stop_server
from backfill_assets.engines.session import drop_session, open_session, set_confs
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.learn.lab import LabStep
from backfill_assets.pipeline.transforms.aggregation import built_in_columns
from backfill_assets.pipeline.transforms.declared import features_now
from backfill_assets.pipeline.transforms.spread import spread_join

ROWS, TASKS, EVENT_DAYS, FIRST = 20_000, 8, 14, date(2024, 1, 1)
DAYS = DayRange(FIRST + ONE_DAY * 7, FIRST + ONE_DAY * EVENT_DAYS)
OTHERS = "concat('e', abs(hash(id)) % 5000)"
HOT, NULLS = f"if(id % 10 < 6, 'hot', {OTHERS})", f"if(id % 10 < 6, NULL, {OTHERS})"
MOST = 0.3  # of the rows, that one of eight tasks may read: an even share is 12.5 %
FAIR, PLAINLY = f"no task reads more than {MOST:.0%} of the rows", "plain"
PLAIN = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}


def event_versions(spark: "SparkSession", entity: str) -> "DataFrame":
    """Return versions of events over some days, whose entity is this expression over `id`."""
    day = f"date_add(DATE '{FIRST}', CAST(abs(hash(id, 2)) % {EVENT_DAYS} AS INT))"
    return spark.range(ROWS).selectExpr(
        "CAST(id AS STRING) AS event_key",
        f"{entity} AS entity",
        f"{day} AS event_date",
        f"CAST({day} AS TIMESTAMP) AS event_ts",
        "abs(hash(id, 3)) % 1000L AS value",
        "CAST(id % 2 AS INT) AS flag",
        f"CAST({day} AS TIMESTAMP) AS known_from",
        "CAST(NULL AS TIMESTAMP) AS known_until",
    )


def _compared_works(spark: "SparkSession") -> Iterator[tuple[str, str, "Callable[[], DataFrame]"]]:
    """Yield each work, plainly and with its remedy: its name, the choice, and a function that makes
    its rows."""
    hot, nulls = (event_versions(spark, entity) for entity in (HOT, NULLS))
    names = (
        spark.range(5000)
        .selectExpr("concat('e', id) AS entity", "id")
        .union(spark.sql("SELECT 'hot', -1"))
    )
    plain, apart, salt = (
        Input("x", by=("entity",), **way) for way in ({}, {"isolate_nulls": True}, {"salt": 16})
    )
    for work, rows, remedy in (
        ("join, 60 % NULL", nulls, apart),
        ("join, one customer has 60 %", hot, salt),
    ):
        for choice in (plain, remedy):
            yield work, choice.spread or PLAINLY, partial(spread_join, rows, names, choice)
    for finer, way in ((False, PLAINLY), (True, "by customer and day first")):
        make = partial(
            features_now, hot, DAYS, ["entity"], built_in_columns((3, 7)), by_day_first=finer
        )
        yield "features, one customer has 60 %", way, make


def rows_by_tag(logs: Path) -> Mapping[str, list[list[int]]]:
    """Return by tag of a job the rows that each task of each of its stages read after a shuffle, by
    the event logs."""
    tags, tasks = dict[int, str](), defaultdict[int, list[int]](list)
    for event in _logged_events(logs):
        if event["Event"] == "SparkListenerJobStart":
            tags |= dict.fromkeys(event["Stage IDs"], event["Properties"].get("spark.job.tags", ""))
        elif event["Event"] == "SparkListenerTaskEnd" and (found := event.get("Task Metrics")):
            tasks[event["Stage ID"]].append(found["Shuffle Read Metrics"]["Total Records Read"])
    by_tag = defaultdict[str, list[list[int]]](list)
    for stage, rows in tasks.items():
        for tag in tags.get(stage, "").split(","):
            by_tag[tag.rpartition("_Tag_")[2]].append(rows)
    return by_tag


def _logged_events(logs: Path) -> Iterator[Any]:
    """The events of Spark in logs at any depth below a folder."""
    for file in logs.rglob("events_*"):
        if file.is_file():
            with file.open("rb") as lines:
                yield from map(json.loads, lines)


def skew_steps(folder: Path) -> Iterator[LabStep]:
    """Do each work by each choice, compare all rows, then read from the logs what the busiest task
    had."""
    contents = _run_works(folder)
    read = rows_by_tag(folder / "events")
    busiest = [max(read[f"lab-{number}"], key=max) for number in range(len(contents))]
    rows = [
        (*at, f"{max(b) / sum(b):.0%}", max(b), len(b))
        for at, b in zip(contents, busiest, strict=True)
    ]
    text = (
        f"Rows that Spark's tasks read after a shuffle; an even share of {TASKS} tasks is "
        f"{1 / TASKS:.1%}."
    )
    columns = ("work", "choice", "share", "rows", "tasks")
    yield LabStep("The busiest task of each work", text, columns, rows)
    for (work, choice, share, *_), stage in zip(rows, busiest, strict=True):
        text = "OTHER ROWS than the plain way."
        if contents[work, choice] == contents[work, PLAINLY]:
            text = "The same rows as the plain way, by a hash of all."
        is_fair = max(stage) / sum(stage) <= MOST
        found = FAIR if is_fair else f"one task reads {share}"
        yield LabStep(work, text, form=choice, expected=FAIR, found=found)


def _run_works(folder: Path) -> dict[tuple[str, str], str]:
    """Run each work by each choice on a Spark whose event logs lie in `events` below the folder,
    each under the tag `lab-NUMBER`; gives by work and choice the count and a hash of its rows."""
    logs = folder / "events"
    logs.mkdir(parents=True)
    confs = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": str(TASKS),
    }
    settings = EngineSettings("local[2]", "1g", confs=confs)
    spark, contents = open_session(folder, settings), dict[tuple[str, str], str]()
    set_confs(spark, {**size_confs(settings, ROWS), **PLAIN})
    for number, (work, choice, make) in enumerate(_compared_works(spark)):
        frame = make()
        spark.addTag(f"lab-{number}")
        every = F.sum(F.xxhash64(*frame.columns).cast("decimal(38, 0)"))
        contents[work, choice] = str(frame.agg(F.count("*"), every).first())
        spark.removeTag(f"lab-{number}")
    drop_session(folder)
    stop_server(folder, force=True)
    return contents


STEPS = {"skew": skew_steps}
