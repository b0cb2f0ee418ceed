"""A look at the log of a table that others write opens what came since, and sees by itself that a
log is another one. Not here: when a position is kept (`intake.test_table_changes`) and rewritten
logs from the scan to the table (`end_to_end.test_table_history`)."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.intake.log_reading import list_log
from backfill_assets.intake.source_log import TableListing, list_source
from backfill_assets.intake.source_position import Position, parsed_position
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets_tests.tables import append, long_table, settings_text

pytestmark = pytest.mark.usefixtures("storages")
ROW = ("a", "2024-03-01 10:00", "A", 1)


def listed(lake: Path, known: Position | None = None) -> TableListing:
    found = list_source(load_settings(lake).source, lake, known)
    assert isinstance(found, TableListing)
    return found


def kept(found: TableListing) -> Position:
    """The end of the log as it comes back from JSON."""
    assert found.position is not None
    position = parsed_position(json.loads(json.dumps(json_of(found.position))))
    assert position == found.position
    return position


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two hundred commits, of which only the first and the last brought rows."""
    (tmp_path / "lake.toml").write_text(settings_text("orders"))
    long_table(tmp_path / "orders", 200)
    return tmp_path / "orders"


@pytest.fixture
def opened() -> Iterator[Counter[str]]:
    """Commits that this process opens, each with how often."""
    found, counts = Counter[str](), [True]  # an audit hook stays for good

    def count(event: str, args: tuple[Any, ...]) -> None:
        if counts[0] and event == "open" and "/_delta_log/" in str(args[0]):
            found[str(args[0])] += 1

    sys.addaudithook(count)
    yield found
    counts[0] = False


def test_a_look_at_a_log_without_news_opens_its_newest_commit_only(
    table: Path, opened: Counter[str]
) -> None:
    first = listed(table.parent)
    assert (len(first.files), len(opened)) == (2, 201), "else this test could not fail"
    opened.clear()
    again = listed(table.parent, kept(first))
    assert (again.files, again.position, opened) == (
        (),
        first.position,
        {str(table / commit_name(200)): 1},
    )
    append(table, "2024-03-02 20:00", ("c", *ROW[1:]))
    opened.clear()
    (news,) = listed(table.parent, kept(first)).files
    assert len(opened) == 2
    assert news == listed(table.parent).files[-1]
    assert news.mtime_ns == first.files[-1].mtime_ns + 1_000_000, (
        "no commit is earlier than the one before"
    )


@pytest.mark.parametrize("how", ["edited", "edited at the end", "cleaned", "shorter"])
def test_a_log_that_is_not_the_one_that_was_read_is_read_whole(table: Path, how: str) -> None:
    known = kept(listed(table.parent))
    log = table / commit_name({"edited": 100, "cleaned": 0}.get(how, 200))
    before = log.stat()
    if how.startswith("edited"):
        log.write_text(log.read_text().replace("2024", "2025").replace("operation", "Operation"))
        if "end" in how:
            os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        log.unlink()
    assert not known.holds(list_log(place_of_others(str(table))))
