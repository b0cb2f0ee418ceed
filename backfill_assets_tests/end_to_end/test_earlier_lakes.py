"""Lakes that earlier versions of this package wrote: fresh everywhere, and they take a late delivery and a rollback.

Tested here: the archives in `earlier`, each named by the commit that made it (six deliveries on three days, by Sail).
Not tested here: single receipts of before (`pipeline.test_receipts_of_before`).
"""

import json
import os
import tarfile
from pathlib import Path

import pytest

from backfill_assets.core.states import State
from backfill_assets.lake.home import open_lake
from backfill_assets.lake.log import versions
from backfill_assets.lake.log_history import commit_file
from backfill_assets.lake.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.cli.typed import run

ARCHIVES = sorted((Path(__file__).parent / "earlier").glob("*.tar.xz"))
LATE = {
    "seq": 1, "arrival_ts": "2024-03-04T10:00:00Z", "event_ts": "2024-03-02T05:00:00Z", "event_key": "late",
    "entity": "A1", "value": 9,
}  # fmt: skip


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The lake as it was left."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def states(root: Path) -> set[State]:
    lake = open_lake(root)
    pipeline = chosen_pipeline(lake)
    found = pipeline.states(read_view(lake, pipeline.contracts))
    return {found.of(c.name, day) for c in pipeline.contracts for day in found.view.table(c.name).stamps}


def test_an_earlier_lake_is_fresh_everywhere_and_takes_a_late_delivery_and_a_rollback(
    root: Path, processes: None
) -> None:
    assert states(root) == {State.FRESH}
    assert run("verify", "--deep", "--lake", root).exit_code == 0
    late = root / "landing" / "2024-03-04.jsonl"
    late.write_text(json.dumps(LATE) + "\n", encoding="utf-8")
    os.utime(late, (0, 0))
    before = versions(root / "tables" / "staging")[-1]
    done = run("catch-up", "--lake", root)
    assert done.exit_code == 0, done.output
    query = "SELECT count(*) AS n FROM staging WHERE event_key = 'late'"
    assert '"n": 1' in run("sql", query, "--json", "--lake", root).stdout
    days = ("--days", "2024-03-02..2024-03-02")
    back = run("rollback", "--table", "staging", *days, "--to-version", before, "--yes", "--lake", root)
    assert back.exit_code == 0, back.output
    assert '"n": 0' in run("sql", query, "--json", "--lake", root).stdout
    assert run("verify", "--lake", root).exit_code == 0


def test_a_lake_of_a_newer_format_is_refused_and_nothing_is_written(root: Path) -> None:
    table = root / "tables" / "staging"
    commit = commit_file(table, versions(table)[-1])
    commit.write_text(commit.read_text().replace('backfill_assets\\":1,', 'backfill_assets\\":2,'), encoding="utf-8")
    for command in ("status", "catch-up"):
        refused = run(command, "--lake", root)
        assert refused.exit_code, refused.output
        assert "a newer version of backfill-assets wrote to it" in refused.output
        assert "Upgrade backfill-assets" in refused.output
    assert not list((root / "tables" / "staging").glob("_delta_log/*2.json"))
