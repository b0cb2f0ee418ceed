"""Two versions side by side: rows and columns per day are exact, samples repeat, what was to be
left alone is named. Not here: the statistic (`kernel.core.test_profiles`)."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.compare.compare import CompareRequest, compare_days
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.reading.moments import Moment
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("storages")

COLUMNS = (
    Column("day", "DATE", "d"),
    Column("key", "STRING", "k"),
    Column("n", "BIGINT", "n", nullable=True),
    Column("text", "STRING", "t", nullable=True),
)
TABLE = Contract("t", "t", COLUMNS, "day", ("key",), ())
PIPELINE = Pipeline((Table(TABLE),), {})
SPAN = DayRange(day(0), day(9))
Cells = dict[tuple[int, str], tuple[int | None, str | None]]


def rows(cells: Cells) -> list[dict[str, Any]]:
    return [{"day": day(n), "key": k, "n": v, "text": t} for (n, k), (v, t) in cells.items()]


def asked(**more: Any) -> CompareRequest:
    return CompareRequest("t", SPAN, **more)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Version 1 holds two days; version 2 changed the second: one row each added, removed, changed
    in `n`."""
    made = bare_lake(tmp_path / "it's a lake")
    publish_by_hand(
        made,
        TABLE,
        rows({(0, "a"): (1, "x"), (1, "a"): (1, "x"), (1, "b"): (2, "y"), (1, "c"): (3, None)}),
    )
    publish_by_hand(
        made,
        TABLE,
        rows({(1, "a"): (1, "x"), (1, "b"): (20, "y"), (1, "d"): (4, "z")}),
        digest="two",
    )
    return made


def test_rows_added_removed_and_changed_are_counted_per_day_and_column(lake: Lake) -> None:
    report = compare_days(PIPELINE, asked(), Moment(lake, 1), Moment(lake))
    [only] = report.differing
    assert (only.day, only.rows_before, only.rows_after) == (day(1), 3, 3)
    assert (only.added, only.removed, only.changed, dict(only.columns)) == (1, 1, 1, {"n": 1})
    assert (report.before, report.after) == (1, 2)
    told = {s.kind: s for s in report.samples}
    assert told["changed"].before == {"n": "2"}
    assert told["changed"].after == {"n": "20"}
    assert '"b"' in told["changed"].key
    assert told["added"].before == told["removed"].after == {}
    assert {c.column: c.changed for c in report.columns} == {"n": 1, "text": 0}


def test_a_column_that_was_to_be_left_alone_and_changed_is_named(lake: Lake) -> None:
    assert compare_days(PIPELINE, asked(meant=["n"]), Moment(lake, 1), Moment(lake)).unmeant == []
    assert compare_days(PIPELINE, asked(meant=["text"]), Moment(lake, 1), Moment(lake)).unmeant == [
        "n"
    ]
    with pytest.raises(BackfillError, match="no column nix"):
        compare_days(PIPELINE, asked(meant=["nix"]), Moment(lake, 1), Moment(lake))


def test_days_that_neither_side_wrote_are_an_error_and_no_equality(lake: Lake) -> None:
    with pytest.raises(BackfillError, match="neither side ever wrote"):
        compare_days(
            PIPELINE, CompareRequest("t", DayRange(day(40), day(42))), Moment(lake, 1), Moment(lake)
        )


def test_a_renamed_column_is_named_on_each_side_and_no_row_counts_as_changed_by_it(
    lake: Lake,
) -> None:
    renamed = replace(
        TABLE, columns=(*COLUMNS[:2], Column("m", "BIGINT", "m", nullable=True), COLUMNS[3])
    )
    same = [
        {"day": day(1), "key": k, "m": m, "text": t}
        for k, m, t in (("a", None, "x"), ("b", 20, "y"), ("d", 4, "Z"))
    ]
    publish_by_hand(lake, renamed, same, digest="three")
    for pipeline in (PIPELINE, Pipeline((Table(renamed),), {})):
        report = compare_days(pipeline, asked(meant=["text"]), Moment(lake, 2), Moment(lake))
        assert [(d.added, d.removed, d.changed, dict(d.columns)) for d in report.differing] == [
            (0, 0, 1, {"text": 1})
        ]
        told = {c.column: (c.changed, c.nulls_before, c.nulls_after) for c in report.columns}
        assert told == {"text": (1, 0.0, 0.0), "n": (0, 0.0, None), "m": (0, None, 1 / 3)}
        assert report.unmeant == ["n", "m"], (
            "a column that comes or goes was meant only if it was named"
        )
        assert report.headline.endswith("1 changed; columns only before: n; columns only after: m")
        meant = asked(meant=["n", "m", "text"])
        assert compare_days(pipeline, meant, Moment(lake, 2), Moment(lake)).unmeant == []
    other_key = Pipeline((Table(replace(renamed, key=("m",))),), {})
    with pytest.raises(BackfillError, match="one side has no column m, of the key"):
        compare_days(other_key, asked(), Moment(lake, 2), Moment(lake))


def test_a_version_and_itself_have_no_difference_and_no_file_is_read(lake: Lake) -> None:
    for file in lake.table_place("t").local().rglob("*.parquet"):
        file.write_bytes(bytes(file.stat().st_size))
    report = compare_days(
        PIPELINE, asked(), Moment(lake, 2), Moment(lake, at=datetime.now(UTC) + ONE_DAY)
    )
    assert not report.differing
    assert not report.samples
    with pytest.raises(BackfillError, match="cannot be read"):
        compare_days(PIPELINE, asked(), Moment(lake, 1), Moment(lake, 2))


tables = st.dictionaries(
    st.tuples(st.integers(0, 2), st.sampled_from("abc")),
    st.tuples(
        st.one_of(st.none(), st.integers(0, 2)), st.one_of(st.none(), st.sampled_from(["", "x"]))
    ),
    min_size=1,
)


@settings(max_examples=examples(15), deadline=None)
@given(tables, tables)
def test_the_differences_of_any_two_contents_are_those_that_counting_by_hand_gives(
    tmp_path_factory: pytest.TempPathFactory, one: Cells, two: Cells
) -> None:
    root = tmp_path_factory.mktemp("lakes")
    lakes = bare_lake(root / "one"), bare_lake(root / "two")
    for lake, cells in zip(lakes, (one, two), strict=True):
        publish_by_hand(lake, TABLE, rows(cells))
    report = compare_days(PIPELINE, asked(), *(Moment(lake) for lake in lakes))

    def by_day(keys: set[tuple[int, str]]) -> dict[date, int]:
        found: dict[date, int] = {}
        for n, _ in keys:
            found[day(n)] = found.get(day(n), 0) + 1
        return found

    differing = {d.day: d for d in report.differing}
    expected = {
        "added": by_day(set(two) - set(one)),
        "removed": by_day(set(one) - set(two)),
        "changed": by_day({k for k in set(one) & set(two) if one[k] != two[k]}),
    }
    for kind, days in expected.items():
        assert {d: getattr(f, kind) for d, f in differing.items() if getattr(f, kind)} == days
