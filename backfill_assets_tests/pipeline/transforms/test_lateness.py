"""Numbers about how late a day's rows were, on a handful of rows with answers by hand.

Tested here: `pipeline.transforms.lateness`. Not tested here: the report of the lake (`operations.test_lateness`).
"""

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from backfill_assets.pipeline.transforms.lateness import of_deliveries, of_versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = date(2024, 3, 3)


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2024, 3, day, hour, tzinfo=UTC)


def told(frame: "DataFrame") -> dict[Any, tuple[Any, ...]]:
    return {day: tuple(facts) for day, *facts in frame.collect()}


def test_late_is_another_day_deletes_do_not_count_and_lateness_is_in_days(spark: "SparkSession") -> None:
    rows = [
        ("upsert", DAY, at(3, 12), at(3, 0)),  # half a day, of the same day
        ("upsert", DAY, at(3, 12), at(1, 12)),  # two days
        ("delete", DAY, at(3, 12), None),
    ]
    raw = spark.createDataFrame(rows, "op string, arrival_date date, arrival_ts timestamp, event_ts timestamp")
    assert told(of_deliveries(raw)) == {DAY: (0.5, 1.25, 1.85, 2.0)}


def test_a_version_is_as_late_as_the_moment_from_which_it_was_known(spark: "SparkSession") -> None:
    schema = "event_date date, known_from timestamp, event_ts timestamp"
    staging = spark.createDataFrame([(DAY, at(4, 0), at(3, 0))], schema)
    assert told(of_versions(staging)) == {DAY: (1.0, 1.0, 1.0, 1.0)}
