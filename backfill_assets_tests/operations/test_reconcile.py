"""Two sides held against each other: each planted difference is found in both directions, equal sides give none.

Tested here: `operations.reconcile` on files, without an engine.
Not tested here: what a side may be (`test_reconcile_sides`), the command (`cli.test_reconcile`).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.reconcile import reconcile
from backfill_assets.operations.reconcile_report import (
    DIFFERS,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    MISSING_LEFT,
    MISSING_RIGHT,
    WITHIN,
    ReconcileReport,
    ReconcileRequest,
)
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake

pytestmark = pytest.mark.quick

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    {
        "id": pa.string(), "day": pa.date32(), "total": pa.decimal128(18, 2), "score": pa.float64(),
        "name": pa.string(), "at": pa.timestamp("us", "UTC"),
    }
)  # fmt: skip
Row = dict[str, Any]
PIPELINE = Pipeline((), {})


def row(number: int, **changed: Any) -> Row:
    return {
        "id": f"k{number}", "day": day(number % 3), "total": Decimal(f"{number}.25"), "score": number / 8,
        "name": f"Name {number}", "at": NOON + timedelta(minutes=number),
    } | changed  # fmt: skip


ROWS = [row(n) for n in range(12)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path / "lake")


@pytest.fixture
def compare(lake: Lake, tmp_path: Path) -> Callable[..., ReconcileReport]:
    """Compare two lists of rows by `id`, each written to a Parquet file."""

    def run(left: list[Row], right: list[Row], **more: Any) -> ReconcileReport:
        for name, rows in (("left", left), ("right", right)):
            pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / f"{name}.parquet")
        asked = ReconcileRequest(str(tmp_path / "left.parquet"), str(tmp_path / "right.parquet"), ("id",), **more)
        return reconcile(lake, PIPELINE, asked)

    return run


def changed(**cells: Any) -> list[Row]:
    """The rows with other cells in the fourth."""
    return [*ROWS[:3], ROWS[3] | cells, *ROWS[4:]]


def kinds(report: ReconcileReport) -> dict[str, int]:
    return {k: report.total(k) for d in report.days for k in d.kinds}


def test_equal_sides_have_no_difference_and_one_digest_in_any_order(compare: Callable[..., ReconcileReport]) -> None:
    report = compare(ROWS, ROWS[::-1], sha256=True, sample=5)
    assert report.mismatches == 0
    assert kinds(report) == {}
    assert report.rows == (12, 12)
    assert report.digests is not None
    assert report.digests[0] == report.digests[1]
    assert [r.kind for r in report.spot_check] == ["equal"] * 5
    assert report.spot_check[0].left == report.spot_check[0].right


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (ROWS[1:], ROWS, {MISSING_LEFT: 1}),
        ([*ROWS, ROWS[2]], ROWS, {DOUBLED_LEFT: 1}),
        ([*ROWS, row(0, id=None)], ROWS, {MISSING_RIGHT: 1}),
        (changed(name="other"), ROWS, {DIFFERS: 1}),
        (changed(name=None), ROWS, {DIFFERS: 1}),
        (changed(day=day(1)), ROWS, {DIFFERS: 1}),
        (changed(total=Decimal("3.26")), ROWS, {DIFFERS: 1}),
    ],
    ids=["missing", "doubled", "NULL key", "changed value", "NULL value", "shifted day", "beyond tolerance"],
)
def test_a_planted_difference_is_found_in_both_directions(
    compare: Callable[..., ReconcileReport], left: list[Row], right: list[Row], expected: dict[str, int]
) -> None:
    other = {MISSING_LEFT: MISSING_RIGHT, MISSING_RIGHT: MISSING_LEFT, DOUBLED_LEFT: DOUBLED_RIGHT, DIFFERS: DIFFERS}
    assert kinds(compare(left, right)) == expected
    turned = compare(right, left, sha256=True)
    assert kinds(turned) == {other[k]: n for k, n in expected.items()}
    assert turned.mismatches == 1
    assert turned.digests is not None
    assert turned.digests[0] != turned.digests[1]


@pytest.mark.parametrize(
    ("cells", "column", "look"),
    [
        ({"name": "NAME 3"}, "name", "case"),
        ({"name": "Name 3 "}, "name", "blanks"),
        ({"day": day(1)}, "day", "a day apart"),
        ({"at": ROWS[3]["at"] + timedelta(hours=2)}, "at", "time zone"),
        ({"score": 0.3751}, "score", "rounding"),
        ({"name": None}, "name", "NULL on one side"),
    ],
)
def test_a_report_says_what_a_difference_looks_like(
    compare: Callable[..., ReconcileReport], cells: Row, column: str, look: str
) -> None:
    [found] = [c for c in compare(ROWS, changed(**cells)).columns if c.differing]
    assert found.column == column
    assert look in found.how
    assert found.how[look] == 1


def test_values_within_tolerance_are_counted_and_are_no_mismatch(compare: Callable[..., ReconcileReport]) -> None:
    other = changed(total=Decimal("3.26"), score=0.3753, at=ROWS[3]["at"] + timedelta(seconds=2))
    report = compare(ROWS, other, tolerance={"total": "0.01", "score": "1%", "at": "2s"})
    assert report.mismatches == 0
    assert kinds(report) == {WITHIN: 1}
    assert {c.column: c.within for c in report.columns if c.within} == {"total": 1, "score": 1, "at": 1}
    beyond = compare(ROWS, other, tolerance={"total": "0.001", "score": "0.01%", "at": "1s"})
    assert {c.column: c.differing for c in beyond.columns if c.differing} == {"total": 1, "score": 1, "at": 1}


def test_a_negative_zero_is_counted_as_equal_in_value(compare: Callable[..., ReconcileReport]) -> None:
    report = compare([row(0, score=0.0)], [row(0, score=-0.0)], sha256=True)
    assert (report.mismatches, kinds(report)) == (0, {WITHIN: 1})
    assert report.digests is not None
    assert report.digests[0] == report.digests[1]


def test_a_column_of_another_kind_is_a_mismatch_though_its_texts_are_equal(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "left.csv").write_text("id,n\na,1\nb,2\n")
    asked = ReconcileRequest(str(tmp_path / "left.csv"), "duckdb:SELECT * FROM (VALUES ('a','1'),('b','2')) t(id, n)")
    report = reconcile(lake, PIPELINE, replace(asked, key=("id",)))
    assert [(c.column, c.left_type, c.right_type) for c in report.columns if not c.same_kind] == [
        ("n", "BIGINT", "VARCHAR")
    ]
    assert (report.mismatches, report.total(DIFFERS)) == (1, 0)


def test_ignored_columns_and_columns_of_one_side_are_not_compared(compare: Callable[..., ReconcileReport]) -> None:
    assert compare(ROWS, changed(name="x"), ignore=("name",)).mismatches == 0
    assert compare(ROWS, changed(name="x"), columns=("total", "day")).mismatches == 0


def test_rows_are_counted_by_day_and_other_days_are_left_out(compare: Callable[..., ReconcileReport]) -> None:
    report = compare(ROWS, changed(name="x"), day_column="day", days=DayRange(day(0), day(2)))
    assert [(d.day, d.left, d.right, dict(d.kinds)) for d in report.days] == [
        (day(0), 4, 4, {DIFFERS: 1}),
        (day(1), 4, 4, {}),
    ]


def test_the_kept_sql_gives_the_same_counts_when_run_by_hand(compare: Callable[..., ReconcileReport]) -> None:
    report = compare(ROWS, [*ROWS[1:], row(30), row(30)], sha256=True, sample=3)
    with duckdb.connect() as by_hand:
        by_hand.execute(report.sql)
        found = dict(by_hand.execute('SELECT "@kind", count(*) FROM off GROUP BY 1').fetchall())
    assert found == {MISSING_RIGHT: 1, MISSING_LEFT: 1, DOUBLED_RIGHT: 1}
    assert found == kinds(report)


def test_a_tolerance_that_does_not_fit_its_column_is_named(compare: Callable[..., ReconcileReport]) -> None:
    with pytest.raises(BackfillError, match="does not fit a column of type VARCHAR"):
        compare(ROWS, ROWS, tolerance={"name": "0.1"})
    with pytest.raises(BackfillError, match="no column nix"):
        compare(ROWS, ROWS, tolerance={"nix": "0.1"})


def test_days_have_a_date_column(compare: Callable[..., ReconcileReport]) -> None:
    with pytest.raises(BackfillError, match="--day-column"):
        compare(ROWS, ROWS, days=DayRange(day(0), day(2)))
