"""Transforms whose Python reads the clock or the environment are refused, and those that look alike are not.

Tested here: `load.steadiness.refuse_reads`, which `load.making` calls. Not tested here: functions of a frame
(`engine.test_frames`), and a day computed again (`test_computing`). A clock whose value reaches no row cannot be told
from one that does: it is refused, unless it only measures how long something takes.
"""

import inspect
import os
import random
import textwrap
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.core.contracts import Column, Contract, Input
from backfill_assets.core.errors import ContractBroken
from backfill_assets.lake.code import SourceFile
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.load.steadiness import refuse_reads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = Column("event_date", "DATE", "d")
OWN = Contract("own", "o", (DAY,), "event_date", ("event_date",), (Input("staging"),))
Frames = Mapping[str, "DataFrame"]


def the_clock(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].where(frames["staging"].event_date < date.today())  # noqa: DTZ011


def the_clock_in_seconds(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].selectExpr("*", f"{int(time.time()) // 3600} AS hour")


def the_hour(frames: Frames, chunk: Chunk) -> "DataFrame":
    return frames["staging"].selectExpr("*", f"{int(time.strftime('%H'))} AS hour")


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


UNSTEADY = {
    the_clock: r"own\.py, line 7: datetime\.date\.today reads the clock",
    the_clock_in_seconds: r"own\.py, line 7: time\.time reads the clock",
    the_hour: r"own\.py, line 7: time\.strftime reads the clock",
    the_environment: r"own\.py, line 7: os\.environ\.get reads FACTOR_OF_TESTS, which is no code input",
    the_environment_by_key: r"os\.environ reads HOME",
}
STEADY = (a_day_of_the_chunk, a_clock_that_reaches_no_row, chance_with_a_seed)


IMPORTS = "import os\nimport random\nimport time\nfrom datetime import UTC, date, datetime\n\n"


def judge(transform: Any, **declared: Any) -> None:
    """As `load.making` does before it calls the transform, whose function is the only one of its file."""
    text = IMPORTS + textwrap.dedent(inspect.getsource(transform))
    source = SourceFile(Path("own.py"), text.encode())
    refuse_reads(Table(OWN, transform, sources=(source,), **declared))


@pytest.mark.parametrize("transform", UNSTEADY, ids=lambda found: str(found.__name__))
def test_what_gives_other_rows_another_time_is_refused_whenever_it_is_built(transform: Any) -> None:
    for _ in range(2):
        with pytest.raises(ContractBroken, match=UNSTEADY[transform]):
            judge(transform)


@pytest.mark.parametrize("transform", STEADY, ids=lambda found: str(found.__name__))
def test_what_only_looks_like_it_is_not(transform: Any) -> None:
    judge(transform)


def test_code_that_has_passed_with_a_declared_variable_is_searched_again_without() -> None:
    judge(the_environment, code_inputs=("env:FACTOR_OF_TESTS",))
    with pytest.raises(ContractBroken, match="reads FACTOR_OF_TESTS"):
        judge(the_environment)
