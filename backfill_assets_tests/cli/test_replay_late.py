"""`replay-late` before anything is released. No engine.

Tested here: what it refuses, and what it shows (`cli.catch_up`). Not tested here: rows that count again
(`end_to_end.test_late_data`).
"""

from pathlib import Path

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.operations.synthetic import START, synthetic_lake

DAYS = ("--from", str(START), "--to", str(START))


def test_a_release_wants_a_reason(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 1)
    done = run("replay-late", *DAYS, "--note", "  ", "--lake", tmp_path)
    assert done.exit_code == 2
    assert "say why, in a few words" in done.stderr


def test_where_nothing_came_too_late_that_is_said(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 1)
    done = run("replay-late", *DAYS, "--note", "outage", "--dry-run", "--lake", tmp_path)
    assert (done.exit_code, done.stdout) == (0, "Nothing is kept in too_late for these days.\n")
