"""The ledger tables as plain values: which files count, for which days, and what arrivals say.
Not here: who writes them (`intake.test_scan`, `intake.test_arrivals`)."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.ledger import (
    ARRIVALS,
    FILES,
    LANDED,
    WITHDRAWN,
    FileRecord,
    RowCounts,
    landed_days,
    read_arrivals,
    read_files,
)
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets_tests.builders import day, landed_day, receipt, write_rows
from backfill_assets_tests.files import bare_lake

SEEN = datetime(2024, 3, 1, 9, tzinfo=UTC)
OURS = receipt("files", {})


def _event(
    path: str, sha: str, arrival: date | None, rows: int = 3, bad: int = 0, **facts: Any
) -> dict[str, Any]:
    return {
        "event": LANDED,
        "path": path,
        "sha256": sha,
        "arrival_date": arrival,
        "rows": rows,
        "bad_rows": bad,
        "usable_rows": rows - bad,
        "size": 10,
        "mtime_ns": 7,
        "first_scan": SEEN,
        "home_day": day(0),
        "recorded_at": SEEN,
        "counted_by": "s",
        "note": None,
        **facts,
    }


def _withdrawn(path: str, sha: str, hours: int) -> dict[str, Any]:
    return _event(
        path,
        sha,
        None,
        0,
        event=WITHDRAWN,
        recorded_at=SEEN + timedelta(hours=hours),
        note="by hand",
    )


def _record(path: str, sha: str, **days: tuple[int, int, int]) -> FileRecord:
    return FileRecord(
        path,
        sha,
        10,
        7,
        SEEN,
        day(0),
        {day(int(n.removeprefix("day"))): RowCounts(*c) for n, c in days.items()},
        False,
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "files"


def store_of(table: Path) -> TableStore:
    """The store that keeps a table in this folder."""
    return bare_lake(table.parents[1]).store


def test_the_newest_event_of_a_content_wins(files: Path) -> None:
    write_rows(
        files, FILES, [_event("a.csv", "sha", day(0), 5), _withdrawn("a.csv", "sha", hours=1)], OURS
    )
    assert [(r.withdrawn, r.days) for r in read_files(store_of(files))] == [
        (True, {day(0): (5, 0, 5)})
    ]
    back = _event("a.csv", "sha", day(0), recorded_at=SEEN + timedelta(hours=2))
    write_rows(files, FILES, [back], OURS)
    assert [r.withdrawn for r in read_files(store_of(files))] == [False]


def test_a_content_whose_first_scan_was_taken_again_is_another_input_and_every_other_is_its_hash(
    files: Path,
) -> None:
    later = _event(
        "a.csv",
        "sha",
        day(1),
        first_scan=SEEN + timedelta(days=9),
        recorded_at=SEEN + timedelta(days=9),
    )
    write_rows(
        files,
        FILES,
        [_event("a.csv", "sha", day(0)), later, _event("b.csv", "other", day(0))],
        OURS,
    )
    records = read_files(store_of(files))
    again = records[0]
    assert (again.rescanned, set(again.days), again.recorded_at) == (
        True,
        {day(1)},
        SEEN + timedelta(days=9),
    )
    assert landed_days(records) == {
        day(0): landed_day({"other"}, 3),
        day(1): landed_day({"sha first scanned 2024-03-10T09:00:00+00:00"}, 3),
    }


def test_a_content_that_select_names_otherwise_is_the_same_input_unless_it_has_copies(
    files: Path,
) -> None:
    def moved(path: str, old: str, new: str, hours: int) -> list[dict[str, Any]]:
        at = SEEN + timedelta(hours=hours + 1)
        return [
            _withdrawn(path, old, hours),
            _event(path, new, day(1), recorded_at=at, first_scan=SEEN),
        ]

    by_path = {path: content_name_by_path("sha", path) for path in ("a.csv", "b.csv")}
    write_rows(
        files,
        FILES,
        [_event("a.csv", "sha", day(0)), *moved("a.csv", "sha", by_path["a.csv"], 1)],
        OURS,
    )
    _, now = sorted(read_files(store_of(files)), key=lambda r: r.recorded_at)
    assert (now.names, now.as_input, now.used_days) == (
        ("sha", now.sha256),
        "sha",
        frozenset({day(0), day(1)}),
    )
    write_rows(files, FILES, moved("a.csv", by_path["a.csv"], "sha", 3), OURS)
    assert {r.as_input for r in read_files(store_of(files))} == {"sha"}, "and back"
    copy = _event("b.csv", "sha", day(1), recorded_at=SEEN + timedelta(hours=5))
    write_rows(files, FILES, [copy, *moved("b.csv", "sha", by_path["b.csv"], 6)], OURS)
    write_rows(files, FILES, moved("a.csv", "sha", by_path["a.csv"], 6), OURS)
    live = [r for r in read_files(store_of(files)) if not r.withdrawn]
    assert [r.as_input for r in live] == [by_path["a.csv"], by_path["b.csv"]], (
        "what both were called is neither"
    )
    assert landed_days(live)[day(1)].usable_rows == 6


def test_when_a_content_lands_again_on_other_days_only_those_count(files: Path) -> None:
    """It was withdrawn because `select` read its times wrongly; with the right one it names another
    day."""
    again = _event("a.csv", "sha", day(2), recorded_at=SEEN + timedelta(hours=2))
    write_rows(
        files,
        FILES,
        [_event("a.csv", "sha", day(0)), _withdrawn("a.csv", "sha", hours=1), again],
        OURS,
    )
    assert [set(r.days) for r in read_files(store_of(files))] == [{day(2)}]


def test_a_table_that_another_program_changed_and_emptied_for_good_is_refused_by_name(
    files: Path,
) -> None:
    write_rows(files, FILES, [_event("a.csv", "a", day(0))], OURS)
    DeltaTable(str(files)).delete()
    for file in files.glob("*.parquet"):
        file.unlink()
    with pytest.raises(
        BackfillError, match=r"the table files: .* 1 data file\(s\) of ours are gone"
    ):
        read_files(store_of(files))


def test_a_landed_day_is_the_contents_that_name_it_unless_all_its_files_are_withdrawn() -> None:
    one, other = (
        _record("a", "1", day0=(5, 2, 3), day1=(1, 0, 1)),
        _record("b", "2", day0=(4, 0, 4)),
    )
    found = landed_days(
        [one, other, replace(one, path="a copy"), replace(one, path="gone", withdrawn=True)]
    )
    assert found == {
        day(0): landed_day({"1", "2"}, 7),
        day(1): landed_day({"1"}, 1),
    }
    assert landed_days([replace(one, withdrawn=True)]) == {}


def _arrival(arrival: int, event: int, fingerprint: str) -> dict[str, Any]:
    counts = {"deliveries": 1, "keys": 1, "moved_keys": 0, "greatest_lateness_s": None}
    at = {
        "arrival_date": day(arrival),
        "event_date": day(event),
        "arrival_month": f"{day(arrival):%Y-%m}",
    }
    return {**at, **counts, "fingerprint": fingerprint}


def test_arrivals_are_listed_per_event_day_ascending_by_arrival_at_the_version_asked_for(
    tmp_path: Path,
) -> None:
    rows = [_arrival(9, 0, "C"), _arrival(0, 0, "A"), _arrival(3, 3, "D"), _arrival(2, 0, "B")]
    for some in (rows, [_arrival(9, 9, "E")]):
        write_rows(tmp_path / "tables" / "arrivals", ARRIVALS, some)
    found = read_arrivals(bare_lake(tmp_path).store, 0)
    assert found == {
        day(0): ((day(0), "A"), (day(2), "B"), (day(9), "C")),
        day(3): ((day(3), "D"),),
    }
    assert set(read_arrivals(bare_lake(tmp_path).store, 1)) == {day(0), day(3), day(9)}
