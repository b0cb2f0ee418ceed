"""Transforms whose Python reads the clock or the environment are refused, and those that look alike
are not. Not here: functions of a frame (`engines.test_frames`), and a day computed again
(`test_computing`)."""

from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.contracts import Column, Contract, Input
from backfill_assets.kernel.core.errors import ContractBroken
from backfill_assets.kernel.write.code import SourceFile
from backfill_assets.kernel.write.model import Table
from backfill_assets.kernel.write.steadiness import refuse_reads

DAY = Column("event_date", "DATE", "d")
OWN = Contract("own", "o", (DAY,), "event_date", ("event_date",), (Input("staging"),))


TEXT = """import os
import random
import time
from datetime import UTC, date, datetime
def made(frames, chunk):
    rows = frames["staging"]
    return {}
"""


FACTOR = """rows.selectExpr(f"value * {int(os.environ.get('FACTOR_OF_TESTS', 3))} AS scaled")"""
UNSTEADY = {
    "rows.where(rows.event_date < "
    "date.today())": r"own\.py, line 7: datetime\.date\.today reads the clock",
    'rows.selectExpr(f"{int(time.time()) // 3600} AS '
    'hour")': r"own\.py, line 7: time\.time reads the clock",
    """rows.selectExpr(f"{time.strftime('%H')} AS hour")""": r"own\.py, line 7: time\.strftime "
    r"reads "
    r"the "
    r"clock",
    FACTOR: r"own\.py, line 7: os\.environ\.get reads FACTOR_OF_TESTS, which is no code input",
    """rows.selectExpr(f"'{os.environ['HOME']}' AS home")""": r"os\.environ reads HOME",
}
STEADY = (
    "rows.where(rows.event_date < date.fromisoformat(str(chunk.days.last)))",
    'rows if time.monotonic() > 0 and time.strftime("%Y", chunk.days.start.timetuple()) else None',
    'rows.selectExpr(f"value * {random.Random(7).random()} AS jittered")',
)


def judge(rows: str, **declared: Any) -> None:
    """As `kernel.write.computing` does before it calls the transform that gives these rows."""
    source = SourceFile(Path("own.py"), TEXT.replace("{}", rows).encode())
    refuse_reads(Table(OWN, lambda frames, chunk: frames["staging"], sources=(source,), **declared))


@pytest.mark.parametrize("rows", UNSTEADY)
def test_what_gives_other_rows_another_time_is_refused_whenever_it_is_built(rows: str) -> None:
    for _ in range(2):
        with pytest.raises(ContractBroken, match=UNSTEADY[rows]):
            judge(rows)


@pytest.mark.parametrize("rows", STEADY)
def test_what_only_looks_like_it_is_not(rows: str) -> None:
    judge(rows)


def test_code_that_has_passed_with_a_declared_variable_is_searched_again_without() -> None:
    judge(FACTOR, code_inputs=("env:FACTOR_OF_TESTS",))
    with pytest.raises(ContractBroken, match="reads FACTOR_OF_TESTS"):
        judge(FACTOR)
