"""A table against its ledger: what vacuum took, commits that are gone, and the days of rows without a time.
Not here: scans and loads (`end_to_end.test_table_sources`)."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.core.errors import LandingError
from backfill_assets.lake.ledger import FileRecord
from backfill_assets.lake.settings import load_settings
from backfill_assets.lake.source_log import TableFile, TableListing, known_content
from backfill_assets.lake.source_position import Position, TableState
from backfill_assets.load.table_changes import (
    first_day,
    note_read,
    position_in,
    with_known,
)
from backfill_assets.places.folder import Folder
from backfill_assets_tests.tables import settings_text

NOON = datetime(2024, 3, 2, 12, tzinfo=UTC)
DAY = NOON.date()


def record(name: str = "3/part") -> FileRecord:
    nanoseconds = int(NOON.timestamp()) * 10**9
    return FileRecord(name, name * 8, 9, nanoseconds, NOON, DAY, {DAY: (1, 0, 1)})


def listing(commits: range, *files: TableFile) -> TableListing:
    return TableListing(files, commits=commits, read=commits, position=Position(commits[-1], "", 0, TableState("t")))


def test_a_version_that_was_recorded_stays_listed_when_its_commit_is_cleaned_away(tmp_path: Path) -> None:
    found = with_known(listing(range(4, 6)), Folder(str(tmp_path)), [record()], Folder(str(tmp_path)))
    assert [(f.name, f.sha256) for f in found.files] == [("3/part", record().sha256)]
    with pytest.raises(LandingError, match="lacks version 4, which was not read yet"):
        with_known(listing(range(5, 6)), Folder(str(tmp_path)), [record()], Folder(str(tmp_path)))


def test_versions_that_brought_nothing_were_read_as_well(tmp_path: Path) -> None:
    note_read(listing(range(5)), [record()], Folder(str(tmp_path)), is_scanned=True)
    found = with_known(listing(range(5, 6)), Folder(str(tmp_path)), [record()], Folder(str(tmp_path)))
    assert found.commits == range(5, 6)
    assert position_in(Folder(str(tmp_path)), [record()]) is None, "the ledger has what the table has not"


def test_a_position_is_believed_while_the_ledger_is_as_it_was(tmp_path: Path) -> None:
    known, stock = record(), Folder(str(tmp_path))
    file = known_content(stock, known.path, known.size, known.mtime_ns, known.sha256)
    note_read(listing(range(5), file), [known], stock)
    assert position_in(stock, [known, record("9/later")]) == listing(range(5)).position
    assert position_in(stock, [replace(known, withdrawn=True)]) is None
    changes = record("4/changes")
    note_read(listing(range(5), *(replace(file, name=r.path, sha256=r.sha256) for r in (known, changes))),
              [known, changes], stock)  # fmt: skip
    assert position_in(stock, [known, changes]) is None, "the store lost a copy, which is made from the table again"


def test_rows_without_a_time_belong_to_the_day_of_their_commit_and_of_a_file_to_the_first(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(settings_text("orders"))
    settings = load_settings(tmp_path)
    assert first_day(record(), settings) == DAY
    early = replace(record(), mtime_ns=0)
    assert first_day(early, settings) == settings.start_date
    files = settings.source.model_copy(update={"table": None})
    assert first_day(record(), settings.model_copy(update={"single": files})) == settings.start_date
