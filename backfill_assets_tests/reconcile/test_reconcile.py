"""Two sides held against each other: each planted difference is found in both directions, equal
sides give none. Not here: what a side may be (`test_reconcile_sides`), the command
(`reconcile.test_reconcile_command`)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.matching import (
    DIFFERS,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    MISSING_LEFT,
    MISSING_RIGHT,
    WITHIN,
    ColumnCount,
    DayCount,
)
from backfill_assets.reading.outcomes import recorded_mismatches
from backfill_assets.reconcile.reconcile import (
    ReconcileReport,
    ReconcileRequest,
    keep_report,
    reconcile,
)
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake

pytestmark = pytest.mark.usefixtures("storages")  # an engine of DuckDB's, or a lake, for each test
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "day": pa.date32(),
        "total": pa.decimal128(18, 2),
        "score": pa.float64(),
        "name": pa.string(),
        "at": pa.timestamp("us", "UTC"),
    }
)
Row = dict[str, Any]
PIPELINE = Pipeline((), {})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of settings only, below the test's folder."""
    return bare_lake(tmp_path / "lake")


def row(number: int, **changed: Any) -> Row:
    return {
        "id": f"k{number}",
        "day": day(number % 3),
        "total": Decimal(f"{number}.25"),
        "score": number / 8,
        "name": f"Name {number}",
        "at": NOON + timedelta(minutes=number),
    } | changed


ROWS = [row(n) for n in range(12)]


@pytest.fixture
def compare(lake: Lake, tmp_path: Path) -> Callable[..., ReconcileReport]:
    """Compare two lists of rows by `id`, each written to a Parquet file."""

    def run(left: list[Row], right: list[Row], **more: Any) -> ReconcileReport:
        for name, rows in (("left", left), ("right", right)):
            pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / f"{name}.parquet")
        asked = ReconcileRequest(
            str(tmp_path / "left.parquet"), str(tmp_path / "right.parquet"), ("id",)
        )
        asked = replace(asked, **more)
        return reconcile(lake, PIPELINE, asked)

    return run


def changed(**cells: Any) -> list[Row]:
    """The rows with other cells in the fourth."""
    return [*ROWS[:3], ROWS[3] | cells, *ROWS[4:]]


def kinds(report: ReconcileReport) -> dict[str, int]:
    return {k: report.total(k) for d in report.days for k in d.kinds}


def test_equal_sides_have_no_difference_and_one_digest_in_any_order(
    compare: Callable[..., ReconcileReport],
) -> None:
    report = compare(ROWS, ROWS[::-1], sha256=True, sample=5)
    assert report.mismatches == 0
    assert kinds(report) == {}
    assert report.rows == (12, 12)
    assert report.digests is not None
    assert report.digests[0] == report.digests[1]
    assert [r.kind for r in report.spot_check] == ["equal"] * 5
    assert report.spot_check[0].left == report.spot_check[0].right


def test_each_day_has_a_digest_that_only_its_own_rows_change(
    compare: Callable[..., ReconcileReport],
) -> None:
    by_day = compare(changed(score=9.5), ROWS[::-1], sha256=True, day_column="day").digests_by_day
    assert [day for day, (left, right) in by_day.items() if left != right] == [ROWS[3]["day"]]
    assert len(by_day) == 3
    fewer = compare(
        [r for r in ROWS if r["day"] != day(1)], ROWS, sha256=True, day_column="day"
    ).digests_by_day
    assert (fewer[day(1)][0], len(fewer[day(1)][1])) == ("", 64)
    assert {d: pair for d, pair in fewer.items() if d not in (day(1), day(0))} == {
        day(2): (by_day[day(2)][1],) * 2
    }


OTHER = {MISSING_LEFT: MISSING_RIGHT, MISSING_RIGHT: MISSING_LEFT, DOUBLED_LEFT: DOUBLED_RIGHT}
PLANTED: dict[str, tuple[list[Row], dict[str, int]]] = {
    "missing": ([*ROWS[:3], *ROWS[4:]], {MISSING_LEFT: 1}),
    "extra": ([*ROWS, row(40)], {MISSING_RIGHT: 1}),
    "doubled": ([*ROWS, ROWS[2]], {DOUBLED_LEFT: 1}),
    "doubled with another value": ([*ROWS, ROWS[2] | {"name": "a"}], {DOUBLED_LEFT: 1}),
    "NULL key": (changed(id=None), {MISSING_RIGHT: 1, MISSING_LEFT: 1}),
    "changed value": (changed(name="other"), {DIFFERS: 1}),
    "NULL value": (changed(name=None), {DIFFERS: 1}),
    "rounding beyond tolerance": (changed(total=Decimal("3.30")), {DIFFERS: 1}),
    "rounding within tolerance": (changed(score=0.38), {WITHIN: 1}),
    "shifted day": (changed(day=day(1)), {DIFFERS: 1}),
    "shifted time": (changed(at=ROWS[3]["at"] + timedelta(days=1)), {DIFFERS: 1}),
    "time zone": (changed(at=ROWS[3]["at"] + timedelta(hours=2)), {DIFFERS: 1}),
    "case": (changed(name="NAME 3"), {DIFFERS: 1}),
    "trailing blank": (changed(name="Name 3 "), {DIFFERS: 1}),
    "negative zero": ([row(0, score=-0.0), *ROWS[1:]], {WITHIN: 1}),
}
LOOKS = {
    "NULL value": ("name", "NULL on one side"),
    "rounding beyond tolerance": ("total", "rounding"),
    "rounding within tolerance": ("score", "rounding"),
    "shifted day": ("day", "a day apart"),
    "shifted time": ("at", "a day apart"),
    "time zone": ("at", "time zone"),
    "case": ("name", "case"),
    "trailing blank": ("name", "blanks"),
    "negative zero": ("score", "sign of zero"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_found_and_named_in_both_directions(
    compare: Callable[..., ReconcileReport], name: str
) -> None:
    left, expected = PLANTED[name]
    tolerance = {"total": "0.04", "score": "2%"}
    found = compare(left, ROWS, tolerance=tolerance, sha256=True)
    turned = compare(ROWS, left, tolerance=tolerance)
    assert kinds(found) == expected
    assert kinds(turned) == {OTHER.get(k, k): n for k, n in expected.items()}
    assert (
        found.mismatches == turned.mismatches == sum(n for k, n in expected.items() if k != WITHIN)
    )
    assert found.null_keys == turned.null_keys[::-1] == (int(name == "NULL key"), 0)
    assert found.doubled_keys == turned.doubled_keys[::-1] == (int(name.startswith("doubled")), 0)
    assert found.digests is not None
    assert (found.digests[0] == found.digests[1]) == (name == "negative zero")
    for report in (found, turned):
        shown = [(c.column, look) for c in report.columns for look in c.how]
        assert shown == ([LOOKS[name]] if name in LOOKS else [])


def test_rows_that_repeat_a_key_meet_equal_rows_first(
    compare: Callable[..., ReconcileReport],
) -> None:
    a, b = ROWS[3], ROWS[3] | {"name": "Zoe"}
    assert kinds(compare([a, a, b], [a, b])) == {DOUBLED_LEFT: 1}
    assert kinds(compare([a, b], [b, a])) == {}
    assert kinds(compare([b, ROWS[3] | {"name": "Al"}], [b, a])) == {DIFFERS: 1}


@pytest.mark.parametrize(
    ("kind", "left", "right", "tolerance", "within"),
    [
        ("DOUBLE", "'nan'", "1", "1%", 0),
        ("DOUBLE", "'inf'", "1", "50%", 0),
        ("DOUBLE", "NULL", "1", "50%", 0),
        ("UINTEGER", "1", "2", "1", 1),
        ("BIGINT", "9223372036854775807", "-9223372036854775808", "1", 0),
        ("DECIMAL(38, 0)", f"{10**38 - 1}", f"{1 - 10**38}", "1", 0),
        ("TIMESTAMP", "'infinity'", "'2024-03-01'", "1s", 0),
    ],
)
def test_a_tolerance_never_covers_what_is_far_apart(
    lake: Lake, kind: str, left: str, right: str, tolerance: str, within: int
) -> None:
    one, two = (f"duckdb:SELECT 1 AS k, CAST({v} AS {kind}) AS v" for v in (left, right))
    for sides in ((one, two), (two, one)):
        report = reconcile(
            lake, PIPELINE, ReconcileRequest(*sides, ("k",), tolerance={"v": tolerance})
        )
        assert (report.total(WITHIN), report.total(DIFFERS)) == (within, 1 - within)


@pytest.mark.parametrize(
    "right", ["SELECT 1 AS k", "SELECT 1 AS k, 2 AS V", "SELECT 1 AS k, 2 AS v, 3 AS v"]
)
def test_a_column_that_one_side_lacks_or_has_twice_is_a_mismatch_until_it_is_left_out(
    lake: Lake, right: str
) -> None:
    asked = ReconcileRequest("duckdb:SELECT 1 AS k, 2 AS v", f"duckdb:{right}", ("k",))
    assert reconcile(lake, PIPELINE, asked).mismatches > 0
    assert reconcile(lake, PIPELINE, replace(asked, ignore=("v", "V", "v_1"))).mismatches == 0


def test_one_empty_side_lacks_every_row_and_two_are_no_comparison(
    compare: Callable[..., ReconcileReport],
) -> None:
    assert kinds(compare(ROWS, [])) == {MISSING_RIGHT: 12}
    assert kinds(compare([], ROWS)) == {MISSING_LEFT: 12}
    with pytest.raises(BackfillError, match="has rows"):
        compare([], [])
    with pytest.raises(BackfillError, match="has rows"):
        compare(ROWS, ROWS, day_column="day", days=DayRange(day(50), day(51)))


def test_a_column_of_another_kind_is_a_mismatch_though_its_texts_are_equal(
    lake: Lake, tmp_path: Path
) -> None:
    (tmp_path / "left.csv").write_text("id,n\na,1\nb,2\n")
    asked = ReconcileRequest(
        str(tmp_path / "left.csv"), "duckdb:SELECT * FROM (VALUES ('a','1'),('b','2')) t(id, n)"
    )
    report = reconcile(lake, PIPELINE, replace(asked, key=("id",)))
    assert [(c.column, c.left_type, c.right_type) for c in report.columns if not c.same_kind] == [
        ("n", "BIGINT", "VARCHAR")
    ]
    assert (report.mismatches, report.total(DIFFERS)) == (1, 0)


def test_rows_are_counted_by_day_and_other_days_are_left_out(
    compare: Callable[..., ReconcileReport],
) -> None:
    report = compare(ROWS, changed(name="x"), day_column="day", days=DayRange(day(0), day(2)))
    assert [(d.day, d.left, d.right, dict(d.kinds)) for d in report.days] == [
        (day(0), 4, 4, {DIFFERS: 1}),
        (day(1), 4, 4, {}),
    ]


def reconciled(*columns: ColumnCount) -> ReconcileReport:
    days = (
        DayCount(day(0), 5, 6, {DIFFERS: 2, WITHIN: 1}),
        DayCount(day(1), 0, 1, {MISSING_LEFT: 1}),
    )
    return ReconcileReport(
        "l", "r", ("k",), days, columns, (0, 0), (0, 0), ((), ()), (), (), None, "SELECT 1;\n"
    )


def test_the_newest_record_of_each_pair_of_sides_counts_and_other_files_do_not(
    tmp_path: Path,
) -> None:
    lake = bare_lake(tmp_path)
    assert recorded_mismatches(lake) == {}
    kept = Path(keep_report(lake, reconciled()))
    kept.with_name("20200101-000000-aaaaaa.json").write_text(
        kept.read_text().replace('"mismatches": 3', '"mismatches": 9')
    )
    kept.with_name("bd46a663-ecf1-43b3-8d40-b0ba51b09426.json").write_text("{}")
    assert list(recorded_mismatches(lake).values()) == [3]
