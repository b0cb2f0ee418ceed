"""Lab `skew`: NULLs in one place, one customer with 60 % of the rows, a remedy for each, shares by Spark's own metrics.

Not here: the choices of a contract against skew (`pipeline.transforms.spread`) and the shares of a lake of one's own
(`operations.skew`). The lab starts a local Spark server whatever the lakes run on: Sail has no metrics of tasks.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_assets.core.contracts import Input
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.engine.confs import EngineSettings, size_confs
from backfill_assets.engine.server import stop_server
from backfill_assets.engine.session import drop_session, open_session, say
from backfill_assets.labs.model import LabStep
from backfill_assets.pipeline.transforms.aggregation import built_in_columns
from backfill_assets.pipeline.transforms.declared import now
from backfill_assets.pipeline.transforms.spread import spread_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, TASKS, EVENT_DAYS, FIRST = 20_000, 8, 14, date(2024, 1, 1)
DAYS = DayRange(FIRST + ONE_DAY * 7, FIRST + ONE_DAY * EVENT_DAYS)
OTHERS = "concat('e', abs(hash(id)) % 5000)"
HOT, NULLS = f"if(id % 10 < 6, 'hot', {OTHERS})", f"if(id % 10 < 6, NULL, {OTHERS})"
MOST = 0.3  # of the rows, that one of eight tasks may read: an even share is 12.5 %
FAIR = f"no task reads more than {MOST:.0%} of the rows"
PLAIN = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.coalescePartitions.enabled": "false"}


@dataclass(frozen=True)
class SkewedWork:
    """A piece of work on skewed rows by some `choice` (the plain one is "plain"): `make` gives its rows."""

    name: str
    choice: str
    make: "Callable[[], DataFrame]"


def versions(spark: "SparkSession", rows: int, entity: str, days: int = EVENT_DAYS) -> "DataFrame":
    """Return so many versions of events over some days, whose entity is this expression over `id`."""
    day = f"date_add(DATE '{FIRST}', CAST(abs(hash(id, 2)) % {days} AS INT))"
    return spark.range(rows).selectExpr(
        "CAST(id AS STRING) AS event_key", f"{entity} AS entity", f"{day} AS event_date",
        f"CAST({day} AS TIMESTAMP) AS event_ts", "abs(hash(id, 3)) % 1000L AS value", "CAST(id % 2 AS INT) AS flag",
        f"CAST({day} AS TIMESTAMP) AS known_from", "CAST(NULL AS TIMESTAMP) AS known_until",
    )  # fmt: skip


def _works(spark: "SparkSession") -> Iterator[SkewedWork]:
    hot, nulls = (versions(spark, ROWS, entity) for entity in (HOT, NULLS))
    names = (
        spark.range(5000).selectExpr("concat('e', id) AS entity", "id AS number").union(spark.sql("SELECT 'hot', -1"))
    )
    for title, rows, remedy in (
        ("join, 60 % of the keys are NULL", nulls, Input("x", by=("entity",), isolate_nulls=True)),
        ("join, one customer has 60 %", hot, Input("x", by=("entity",), salt=16)),
    ):
        for choice in (Input("x", by=("entity",)), remedy):
            yield SkewedWork(title, choice.spread or "plain", partial(spread_join, rows, names, choice))
    for finer in (False, True):
        make = partial(now, hot, DAYS, ["entity"], built_in_columns((3, 7)), by_day_first=finer)
        yield SkewedWork("features, one customer has 60 %", "by customer and day first" if finer else "plain", make)


def tasks_by_tag(logs: Path) -> Mapping[str, list[list[Mapping[str, float]]]]:
    """Return Spark's own figures by tag of the jobs, from its event logs: of each stage, of each task."""
    stages, tasks = dict[int, str](), defaultdict[int, list[Mapping[str, float]]](list)
    for line in (line for file in sorted(logs.rglob("events_*")) if file.is_file() for line in file.open("rb")):
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            stages |= dict.fromkeys(event["Stage IDs"], event["Properties"].get("spark.job.tags", ""))
        elif event["Event"] == "SparkListenerTaskEnd" and (found := event.get("Task Metrics")):
            seconds = {"run": found["Executor Run Time"] / 1e3, "cpu": found["Executor CPU Time"] / 1e9}
            tasks[event["Stage ID"]].append({**seconds, "rows": found["Shuffle Read Metrics"]["Total Records Read"]})
    by_tag = defaultdict[str, list[list[Mapping[str, float]]]](list)
    for stage, figures in tasks.items():
        for tag in stages.get(stage, "").split(","):
            by_tag[tag.rpartition("_Tag_")[2]].append(figures)
    return by_tag


def steps(folder: Path) -> Iterator[LabStep]:
    """Do each work by each choice, compare all rows, then read from the logs what the busiest task had."""
    logs = folder / "events"
    logs.mkdir(parents=True)
    logging = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.eventLog.compress": "false",
    }
    settings = EngineSettings("local[2]", "1g", confs={**logging, "spark.sql.shuffle.partitions": str(TASKS)})
    spark, results = open_session(folder, settings), list[tuple[SkewedWork, str, str]]()
    say(spark, {**size_confs(settings, ROWS), **PLAIN})
    for number, work in enumerate(_works(spark)):
        tag, made = f"lab-skew-{number}", work.make()
        spark.addTag(tag)
        every = F.sum(F.xxhash64(*made.columns).cast("decimal(38, 0)"))
        results.append((work, tag, str(made.agg(F.count("*"), every).first())))
        spark.removeTag(tag)
    drop_session(folder)
    stop_server(folder, force=True)
    figures, rows, found = tasks_by_tag(logs), [], dict[str, str]()
    for work, tag, _ in results:
        busiest = max((sorted(t["rows"] for t in stage) for stage in figures[tag]), key=lambda stage: stage[-1])
        share = busiest[-1] / sum(busiest)
        rows.append((work.name, work.choice, f"{share:.0%}", int(busiest[-1]), len(busiest)))
        found[tag] = FAIR if share <= MOST else f"one task reads {share:.0%} of the rows"
    yield LabStep("The busiest task of each work", "Rows that Spark's tasks read after a shuffle; an even share of "
                  f"{TASKS} tasks is {1 / TASKS:.1%}.", ("work", "choice", "share", "rows", "tasks"), rows)  # fmt: skip
    for work, tag, content in results:
        first = next(c for w, _, c in results if w.name == work.name)
        same = "The same rows as the plain way, by a hash of all." if content == first else f"OTHER ROWS: {content}"
        yield LabStep(work.name, same, form=work.choice, expected=FAIR, found=found[tag])
