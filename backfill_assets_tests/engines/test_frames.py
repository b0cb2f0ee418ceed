"""The clock, chance, the place of a computation and Python are named in a frame's plan; what only
looks so is not. Not here: the refusal (`engines.test_steadiness`), and orders of rows, which
show only in rows (`kernel.write.test_computing_ties`)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

from backfill_assets.engines.frames import undecided_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "event_key string, entity string, value bigint, flag int, event_ts timestamp, known_from "
    "timestamp, "
    "known_until timestamp, version_ts timestamp, seq bigint, event_date date"
)
Frame = Callable[["DataFrame"], "DataFrame"]


@pytest.fixture(scope="module")
def staging(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([], SCHEMA)


def query(text: str) -> Frame:
    return lambda staging: staging.sparkSession.sql(text, staging=staging)


def python(staging: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    return staging.withColumn("x", F.udf(lambda value: value)("entity"))


def by_column(staging: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    return staging.where(F.to_date(F.now()) > F.col("event_date"))


UNDECIDED: Mapping[str, tuple[Frame, str]] = {
    "the clock": (
        query("SELECT current_timestamp() AS at FROM {staging}"),
        "`current_timestamp()` reads the clock",
    ),
    "the clock without brackets": (
        query("SELECT current_date AS d FROM {staging}"),
        "`current_date()` reads",
    ),
    "the clock as a function": (by_column, "`now()` reads the clock"),
    "today": (
        query("SELECT * FROM {staging} WHERE event_date < current_date()"),
        "`current_date()` reads the clock",
    ),
    "seconds since 1970": (
        query("SELECT unix_timestamp() AS s FROM {staging}"),
        "`unix_timestamp()` reads the clock",
    ),
    "chance": (lambda s: s.selectExpr("rand() AS r"), "`rand()` is chance"),
    "chance with a seed": (
        query("SELECT rand(7) AS r FROM {staging}"),
        "`rand()` is chance, with a seed too",
    ),
    "a sample": (lambda s: s.sample(0.5, seed=1), "`sample()` is chance"),
    "a sample by a query": (
        query("SELECT * FROM {staging} TABLESAMPLE (10 PERCENT)"),
        "`sample()` is chance",
    ),
    "numbers of tasks": (
        query("SELECT monotonically_increasing_id() AS i FROM {staging}"),
        "depends on where",
    ),
    "a Python UDF": (python, "`common_inline_user_defined_function` runs Python on rows"),
    "Python on batches": (
        lambda s: s.mapInPandas(lambda rows: rows, SCHEMA),
        "`map_partitions` runs Python on rows",
    ),
    "an expression among very many": (
        lambda s: s.selectExpr(*(f"value + {n} AS c{n}" for n in range(90)), "rand(5) AS r"),
        "`rand()` is chance",
    ),
}
DECIDED: Mapping[str, Frame] = {
    "a text that looks like chance": query(
        "SELECT *, 'rand()' AS t FROM {staging} WHERE entity <> 'now()' -- now()"
    ),
    "columns named like functions": query(
        "SELECT `now`, `current_date` FROM (SELECT 1 AS `now`, 2 AS `current_date`)"
    ),
    "seconds of a column": query("SELECT unix_timestamp(event_ts) AS s FROM {staging}"),
    "seconds of a column as a function": lambda s: s.selectExpr("unix_timestamp(event_ts) AS s"),
    "chance by a seed and the key": query(
        "SELECT * FROM {staging} WHERE pmod(xxhash64(event_key, 7), 10) = 0"
    ),
    "a limit": lambda s: s.limit(2),
}


@pytest.mark.parametrize("case", UNDECIDED)
def test_what_no_input_decides_is_named(staging: "DataFrame", case: str) -> None:
    make, named = UNDECIDED[case]
    (found,) = undecided_names(make(staging), {"staging": staging})
    assert found.startswith(named) or named in found


@pytest.mark.parametrize("case", DECIDED)
def test_what_only_looks_so_is_not(staging: "DataFrame", case: str) -> None:
    assert undecided_names(DECIDED[case](staging), {"staging": staging}) == {}


def test_frames_of_inputs_are_not_looked_into(staging: "DataFrame") -> None:
    read = staging.selectExpr("*", "rand() AS r")
    assert undecided_names(read.select("r"), {"staging": read}) == {}
    assert undecided_names(read.select("r"), {"staging": staging})
    assert undecided_names(object(), {}) == {}, "a frame without such a plan"
