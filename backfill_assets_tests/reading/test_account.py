"""The account of landed rows: counted where rows are found, checked, and told with its difference.
No JVM. Not here: that a load writes its counts (`end_to_end`), and who prints it."""

from datetime import UTC, date, datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.intake.ledger import FILES, read_files
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.account import Account, account_of_source
from backfill_assets_tests.builders import make_commit, write_rows
from backfill_assets_tests.logs import versions
from backfill_assets_tests.synthetic import START, build, landed, synthetic_lake

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DAYS = 3


def accounted(lake: Lake, pipeline: Pipeline) -> Account:
    return account_of_source(
        lake, read_view(lake, pipeline.contracts).source("raw"), read_files(lake.store)
    )


def counted(lake: Lake, pipeline: Pipeline, day: date, rows: int, **counts: int) -> None:
    """Load a day again, its receipt with what the load counted."""
    states = pipeline.states(read_view(lake, pipeline.contracts))
    entry = DayEntry(rows, "F", states.digests.of("raw", day), counts={"duplicates": 0, **counts})
    path = lake.table_place("raw").local()
    make_commit(path, len(versions(path)), Receipt("w", "raw", "manual", {day: entry}))
    said = Receipt("a", "arrivals", "manual", {}, inputs={"raw": len(versions(path)) - 1})
    make_commit(
        lake.table_place("arrivals").local(), len(versions(lake.table_place("arrivals"))), said
    )


def test_a_load_that_counted_everything_adds_up(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    counted(lake, pipeline, START, 1, duplicates=1)
    build(lake, pipeline, "quarantine", {START: 1})
    found = accounted(lake, pipeline)
    assert (found.wrong, found.uncounted, found.duplicates) == ({}, {}, 1)
    assert found.parts() == [(7, "in raw"), (1, "in quarantine"), (1, "duplicates")]


def test_rows_that_are_nowhere_are_no_duplicates(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    counted(lake, pipeline, START, 1)
    found = accounted(lake, pipeline)
    assert (found.wrong, found.duplicates) == ({START: 2}, 0)
    assert (2, "that do not add up, on 1 day(s)") in found.parts()
    assert found.to_dict()["wrong_days"] == {str(START): 2}


def test_where_an_older_load_did_not_count_nothing_is_subtracted(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    build(lake, pipeline, "raw", {START: 1})
    make_commit(
        lake.table_place("arrivals").local(),
        1,
        Receipt("a", "arrivals", "manual", {}, inputs={"raw": 2}),
    )
    found = accounted(lake, pipeline)
    assert (found.wrong, found.uncounted) == ({}, {START: 2})
    assert (found.duplicates_per_1000, found.to_dict()["duplicates"]) == (None, None)


def test_of_a_stale_day_only_what_is_new_is_not_loaded(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    more = {**landed(START, NOW), "path": "more.jsonl", "sha256": "more", "rows": 2}
    write_rows(
        lake.table_place(FILES.name).local(), FILES, [more], Receipt("f", FILES.name, "scan", {})
    )
    found = accounted(lake, pipeline)
    assert (found.rows, found.raw, found.waiting, found.wrong) == (11, 9, {START: 2}, {})


def test_rows_of_a_withdrawn_file_are_told_until_the_day_is_loaded_again(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    gone = {**landed(START, NOW.replace(year=2027)), "event": "withdrawn"}
    write_rows(
        lake.table_place(FILES.name).local(), FILES, [gone], Receipt("f", FILES.name, "accept", {})
    )
    found = accounted(lake, pipeline)
    assert (found.rows, found.raw, found.surplus, found.waiting) == (6, 9, {START: 3}, {})
    assert sum(rows for rows, _ in found.parts()) == found.rows


days = st.dictionaries(
    st.dates(START, START + ONE_DAY * 9), st.integers(-5, 5).filter(bool), max_size=3
)


@settings(deadline=None)
@given(st.integers(0, 99), st.integers(0, 9), st.integers(0, 9), days, days)
def test_the_parts_add_up_whatever_they_are(
    raw: int, bad: int, twice: int, waiting: object, wrong: object
) -> None:
    told = Account(1, 0, raw, bad, 0, twice, {}, dict(waiting), {}, dict(wrong))  # type: ignore[call-overload]
    rows = raw + bad + twice + sum(told.waiting.values()) + sum(told.wrong.values())
    assert sum(n for n, _ in told.parts()) == rows
