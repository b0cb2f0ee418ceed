"""Transforms that give other rows from the same inputs are refused, and those that look alike are not, on every path.

Tested here: `load.steadiness` as `load.making` calls it. Not tested here: more expressions (`test_steadiness.py`), and
a day computed again (`test_computing.py`). A clock whose value reaches no row cannot be told from one that does: it
is refused, unless it only measures how long something takes.
"""

import inspect
import os
import random
import textwrap
import time
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.core.contracts import Column, Contract, Input
from backfill_assets.core.days import asked_days
from backfill_assets.core.errors import ContractBroken
from backfill_assets.lake.code import SourceFile
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.load.steadiness import refuse_reads, refuse_unsteady

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.on_spark("the plans that it judges are Spark's; Sail refuses such expressions by a list")

DAY = Column("event_date", "DATE", "d")
COLUMNS = (Column("event_key", "STRING", "k"), Column("value", "DOUBLE", "v"), DAY)
INPUT = Contract("staging", "s", COLUMNS, "event_date", ("event_key",), ())
OWN = Contract("own", "o", (DAY,), "event_date", ("event_date",), (Input("staging"),))
CHUNK = Chunk(asked_days("2024-03-01", "2024-03-02"), datetime(2024, 4, 1, tzinfo=UTC))
Frames = Mapping[str, "DataFrame"]


@pytest.fixture(scope="module")
def staging(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([], "event_key string, entity string, value double, event_date date")


def the_clock(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].where(frames["staging"].event_date < date.today())  # noqa: DTZ011


def the_clock_in_seconds(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].selectExpr("*", f"{int(time.time()) // 3600} AS hour")


def the_hour(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].selectExpr("*", f"{int(time.strftime('%H'))} AS hour")


def any_row(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].groupBy("entity").agg({"value": "first"})


def a_sum_of_doubles(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].groupBy("entity").agg({"value": "sum"})


def a_list_as_it_comes(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].groupBy("entity").agg({"event_key": "collect_list"})


def the_environment(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].selectExpr("*", f"value * {int(os.environ.get('FACTOR_OF_TESTS', '3'))} AS scaled")


def the_environment_by_key(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].selectExpr("*", f"'{os.environ['HOME']}' AS home")


def a_day_of_the_chunk(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].where(frames["staging"].event_date < date.fromisoformat(str(chunk.days.last)))


def a_clock_that_reaches_no_row(frames: Frames, chunk: Chunk) -> "DataFrame":
    assert time.monotonic() > 0
    assert time.strftime("%Y", chunk.days.start.timetuple()) == "2024"
    return frames["staging"].select("event_date")


def chance_with_a_seed(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].selectExpr("*", f"value * {random.Random(7).random()} AS jittered")


def the_first_by_key(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].groupBy("entity", "event_date").agg({"event_key": "min"})


def a_sum_of_decimals(frames: Frames, chunk: Chunk) -> "DataFrame":
    rows = frames["staging"].selectExpr("entity", "CAST(value AS DECIMAL(18, 6)) AS value")
    return rows.groupBy("entity").agg({"value": "sum"})


def a_sorted_list_by_a_query(frames: Frames, chunk: Chunk) -> "DataFrame":
    query = "SELECT entity, sort_array(collect_list(event_key)) AS keys FROM {rows} GROUP BY entity"
    return frames["staging"].sparkSession.sql(query, rows=frames["staging"])


UNSTEADY = {
    the_clock: r"own\.py, line 7: datetime\.date\.today reads the clock",
    the_clock_in_seconds: r"own\.py, line 7: time\.time reads the clock",
    the_hour: r"own\.py, line 7: time\.strftime reads the clock",
    any_row: "takes any row of its group",
    a_sum_of_doubles: "adds DOUBLEs in any order",
    a_list_as_it_comes: "lists rows as they come",
    the_environment: r"own\.py, line 7: os\.environ\.get reads FACTOR_OF_TESTS, which is no code input",
    the_environment_by_key: r"os\.environ reads HOME",
}
STEADY = (
    a_day_of_the_chunk, a_clock_that_reaches_no_row, chance_with_a_seed, the_first_by_key, a_sum_of_decimals,
    a_sorted_list_by_a_query,
)  # fmt: skip


IMPORTS = "import os\nimport random\nimport time\nfrom datetime import UTC, date, datetime\n\n"


def judge(transform: Any, staging: "DataFrame", **declared: Any) -> None:
    """As `load.making` does, with the transform's function as the only one of its file."""
    text = IMPORTS + textwrap.dedent(inspect.getsource(transform))
    source = SourceFile(Path("own.py"), text.encode())
    table, frames = Table(OWN, transform, sources=(source,), **declared), {"staging": staging}
    refuse_reads(table)
    frame = transform(frames, CHUNK)
    refuse_unsteady(staging.sparkSession, table, frame, frames, {"staging": INPUT})


@pytest.mark.parametrize("transform", UNSTEADY, ids=lambda found: str(found.__name__))
def test_what_gives_other_rows_another_time_is_refused_whenever_it_is_built(
    staging: "DataFrame", transform: Any
) -> None:
    for _ in range(2):
        with pytest.raises(ContractBroken, match=UNSTEADY[transform]):
            judge(transform, staging)


@pytest.mark.parametrize("transform", STEADY, ids=lambda found: str(found.__name__))
def test_what_only_looks_like_it_is_not(staging: "DataFrame", transform: Any) -> None:
    judge(transform, staging)


def test_a_declared_variable_is_an_input_of_the_code(staging: "DataFrame") -> None:
    judge(the_environment, staging, code_inputs=("env:FACTOR_OF_TESTS",))


def test_code_that_has_passed_with_a_declared_variable_is_searched_again_without(staging: "DataFrame") -> None:
    judge(the_environment, staging, code_inputs=("env:FACTOR_OF_TESTS",))
    with pytest.raises(ContractBroken, match="reads FACTOR_OF_TESTS"):
        judge(the_environment, staging)
