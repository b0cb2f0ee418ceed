"""The differences of two sets of files of a table: samples, histograms, and tables of keys alone.
Not here: sides, tolerances and digests (`reconcile.test_reconcile`)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.compare.differences import NULL_BUCKET, Differences, find_differences
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.matching import CELL_CHARS, SAMPLES
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, stage_by_hand

MON, TUE = "DATE '2024-03-04'", "DATE '2024-03-05'"
COLUMNS = (
    Column("day", "DATE", "d"),
    Column("key", "STRING", "k"),
    Column("n", "BIGINT", "n", nullable=True),
    Column("text", "STRING", "t", nullable=True),
)
TABLE = Contract("t", "t", COLUMNS, "day", ("key",), ())
Row = tuple[int, str, int | None, str | None]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path / "it's a lake")


def files(lake: Lake, contract: Contract, *rows: Row) -> list[str]:
    cells: list[dict[str, Any]] = [
        {"day": day(d), "key": k, "n": n, "text": t} for d, k, n, t in rows
    ]
    return list(map(str, stage_by_hand(lake, contract, cells).paths))


def found(
    lake: Lake, before: list[Row], after: list[Row], contract: Contract = TABLE
) -> Differences:
    sides = files(lake, contract, *before), files(lake, contract, *after)
    return find_differences(lake, contract, *sides, DayRange(day(0), day(5)))


def test_a_sample_repeats_and_shows_long_cells_cut(lake: Lake) -> None:
    before: list[Row] = [(0, f"k{n}", n, "x" * 500) for n in range(9)]
    after: list[Row] = [(0, f"k{n}", n + 1, "y") for n in range(9)]
    drawn = found(lake, before, after).samples
    assert drawn == found(lake, list(reversed(before)), after).samples
    assert len(drawn) == SAMPLES
    assert {s.kind for s in drawn} == {"changed"}
    assert all(len(s.before["text"] or "") <= CELL_CHARS for s in drawn)


def test_histograms_tell_numbers_by_their_bits_and_nulls_apart(lake: Lake) -> None:
    (before, after) = found(
        lake, [(0, "a", 1, "x"), (0, "b", 3, "x")], [(0, "a", None, "x")]
    ).histograms["n"]
    assert sorted((before or {}).values()) == [1, 1]
    assert after == {NULL_BUCKET: 1}


def test_a_table_that_is_nothing_but_its_key_has_rows_and_no_columns_to_tell(lake: Lake) -> None:
    bare = replace(TABLE, key=("key", "n", "text"))
    told = found(lake, [(0, "a", 1, "x")], [(0, "b", 1, "x")], bare)
    assert [(d.added, d.removed, d.changed) for d in told.days] == [(1, 1, 0)]
    assert told.histograms == {}
