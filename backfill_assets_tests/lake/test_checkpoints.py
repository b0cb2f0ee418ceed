"""Commits leave a log for its history: every reader of the log finds them there, and no moment of a move loses one.

Tested here: `lake.checkpoints` on a table committed by hand. Not tested here: damaged files of the history
(`lake.test_log_history`), and which commits may leave (`operations.test_maintain`).
"""

import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill_assets.core.errors import BackfillError, Cleaned
from backfill_assets.lake.checkpoints import move_commits
from backfill_assets.lake.committer import CHECKPOINT_EVERY
from backfill_assets.lake.home import Lake
from backfill_assets.lake.housekeeping import first_needed, remove_unneeded
from backfill_assets.lake.inspection import inspect, mend
from backfill_assets.lake.log import checkpoint_file, commits, versions
from backfill_assets.lake.log_history import HISTORY, LOG, archives, commit_file, logged
from backfill_assets.lake.log_state import LogCache
from backfill_assets.lake.replace import Provenance
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.faults import raising_at
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")

FIRST, LAST = 3, 5
BEGINNING = datetime(1970, 1, 2, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging has versions 0 to 5: two days, written again and again."""
    made = bare_lake(tmp_path / "lake")
    for value in range(LAST):
        publish(made, value)
    return made


def publish(lake: Lake, value: int) -> None:
    rows = [{"entity": "A", "value": value, "event_date": day(value % 2)}]
    publish_by_hand(lake, STAGING, rows, digest=str(value))


def told(table: Path) -> Any:
    """All that the package reads of a table: its commits, its state and its rows by an independent reader."""
    rows = DeltaTable(str(table)).to_pyarrow_table().sort_by("event_date").to_pylist()
    return list(commits(table)), LogCache().state(table, "event_date"), rows


def findings(lake: Lake) -> dict[str, Any]:
    return asdict(inspect(lake, STAGING, read=True, deep=True))


def test_commits_that_left_the_log_are_read_as_before_and_nothing_is_found_wrong(lake: Lake) -> None:
    table = lake.table_path("staging")
    before, found = told(table), findings(lake)
    move_commits(table, FIRST)
    assert (logged(table), [*archives(table)]) == ([*range(FIRST, LAST + 1)], [range(FIRST)])
    assert versions(table) == [*range(LAST + 1)]
    assert told(table) == before
    assert findings(lake) == found, "the chain of digests crosses the border"


def test_versions_behind_the_border_open_as_before_and_those_before_it_nowhere(lake: Lake) -> None:
    table = lake.table_path("staging")
    kept = lake.store.rows("staging", FIRST)
    move_commits(table, FIRST)
    assert lake.store.rows("staging", FIRST) == kept
    with pytest.raises(Cleaned, match=rf"the table staging: version {FIRST - 1} left its log: only .* from {FIRST} on"):
        lake.store.rows("staging", FIRST - 1)
    assert lake.store.view("staging", "event_date", FIRST - 1).version == FIRST - 1, "receipts of it stay"


def test_writes_and_further_moves_go_on_and_add_one_file_each(lake: Lake) -> None:
    table = lake.table_path("staging")
    move_commits(table, FIRST)
    for value in range(100, 100 + 2 * CHECKPOINT_EVERY):
        publish(lake, value)
    before = told(table)
    move_commits(table, LAST + 3)
    assert ([*archives(table)], told(table)) == ([range(FIRST), range(FIRST, LAST + 3)], before)
    publish(lake, 1000)
    remove_unneeded(lake, STAGING, BEGINNING)
    assert checkpoint_file(table, LAST + 3).exists(), "upkeep keeps what stands for the commits that left"
    DeltaTable(str(table), version=LAST + 3)
    assert findings(lake)["edited"] == ()


def test_stopped_between_any_two_lines_nothing_is_lost_and_the_next_call_goes_on(lake: Lake, tmp_path: Path) -> None:
    table = lake.table_path("staging")
    made, before, line = tmp_path / "made", told(table), 1
    shutil.copytree(table, made)
    while True:
        shutil.rmtree(table)
        shutil.copytree(made, table)
        with raising_at(line, ("lake/checkpoints.py",), KeyboardInterrupt) as met:
            try:
                move_commits(table, FIRST)
            except KeyboardInterrupt:
                assert met.error
        assert told(table) == before, met.place
        move_commits(table, FIRST)
        assert (told(table), logged(table)[0], len(archives(table))) == (before, FIRST, 1), met.place
        if not met.error:
            break
        line += 1
    assert line > 40, "every line of the move was a moment to stop"


def test_a_history_that_holds_other_bytes_than_the_log_stops_the_move_before_anything_goes(lake: Lake) -> None:
    table = lake.table_path("staging")
    copies = {v: commit_file(table, v).read_bytes() for v in range(FIRST)}
    move_commits(table, FIRST)
    for version, content in copies.items():
        commit_file(table, version).write_bytes(content + (b"\n" if version == 2 else b""))
    with pytest.raises(BackfillError, match=r"another version 2 than its log. No commit left its log"):
        move_commits(table, FIRST)
    assert logged(table)[0] == 0


def test_a_torn_checkpoint_is_mended_by_the_commits_of_the_history(lake: Lake) -> None:
    table = lake.table_path("staging")
    before = told(table)
    move_commits(table, FIRST)
    file = checkpoint_file(table, FIRST)
    file.write_bytes(file.read_bytes()[:-8])
    assert findings(lake)["checkpoints_torn"]
    assert mend(lake, STAGING, Provenance("mend")).aside
    assert (logged(table)[0], (table / HISTORY).exists()) == (0, False)
    assert told(table)[0][: LAST + 1] == before[0]
    assert told(table)[2] == before[2]


def test_the_first_version_needed_is_the_one_of_that_time_or_one_that_is_pinned(lake: Lake) -> None:
    table = lake.table_path("staging")
    third = [*commits(table)][3]
    assert first_needed(lake, STAGING, third.at, ()) == 2
    assert first_needed(lake, STAGING, datetime.now(UTC), ()) == LAST
    assert first_needed(lake, STAGING, datetime.now(UTC), (2, 4)) == 2
    assert first_needed(lake, STAGING, BEGINNING, (4,)) == 0
    assert (table / LOG).is_dir()
