"""What is done to each source in turn: scanned under its own lock, followed, told with its name.
Not here: a scan that reads files (`test_scan`) and loads of two sources
(`end_to_end.test_sources`)."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.ledger import FILES, LANDED, ledger_of_source, read_files
from backfill_assets.intake.scan import accept_all, scan_all
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets_tests.builders import receipt, write_rows

NOW = datetime(2024, 3, 10, tzinfo=UTC)
DAY = date(2024, 3, 5)
SOURCE = 'files = "landing/{name}/*.csv"\nformat = "csv"\nselect = "seq"\n'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two sources, each of which lost a file of the same name."""
    named = "".join(f"[sources.{n}]\n{SOURCE.format(name=n)}" for n in ("events", "truth"))
    (tmp_path / "lake.toml").write_text(f"start_date = 2024-03-01\n{named}")
    found = open_lake(tmp_path)
    for name in ("events", "truth"):
        (tmp_path / "landing" / name).mkdir(parents=True)
        ledger = ledger_of_source(FILES, name)
        row = {
            "event": LANDED,
            "path": "a.csv",
            "sha256": name,
            "arrival_date": DAY,
            "rows": 1,
            "bad_rows": 0,
            "usable_rows": 1,
            "size": 1,
            "mtime_ns": 1,
            "first_scan": NOW,
            "home_day": DAY,
            "recorded_at": NOW,
            "counted_by": "",
            "note": None,
        }
        write_rows(found.table_place(ledger.name).local(), ledger, [row], receipt(ledger.name, {}))
    return found


def withdrawn(lake: Lake) -> dict[str, list[bool]]:
    return {
        name: [r.withdrawn for r in read_files(lake.store, name)] for name in ("events", "truth")
    }


def test_each_source_is_scanned_and_its_paths_are_told_with_its_name(lake: Lake) -> None:
    found = scan_all(LakeSession(lake))
    assert found.missing == ("events:a.csv", "truth:a.csv")
    assert (found.blocked, found.known) == (frozenset({DAY}), 2)


def test_a_lake_whose_pipeline_is_refused_is_scanned_all_the_same(lake: Lake) -> None:
    scanned = CliRunner().invoke(app, ["scan", "--lake", str(lake.root)])
    assert scanned.exit_code == 1  # for files that are missing
    assert "Tables that others write were not looked at. [features] in" in " ".join(
        scanned.stderr.split()
    )
    assert "2 known before" in scanned.stdout


def test_each_source_that_cannot_be_read_is_one_error(lake: Lake) -> None:
    path = lake.root / "lake.toml"
    path.write_text(path.read_text().replace("/*.csv", "/{}.csv"))
    told = CliRunner().invoke(app, ["scan", "--lake", str(lake.root)])
    assert told.exit_code == 2
    objects = [line.partition(" files")[0] for line in told.stderr.splitlines()]
    assert objects == ["Error: [sources.events]", "Error: [sources.truth]"]


def test_what_changed_is_followed_in_the_source_that_a_path_names_or_in_all(lake: Lake) -> None:
    assert accept_all(LakeSession(lake), "gone", ["truth:a.csv"]) == ["truth:a.csv"]
    assert withdrawn(lake) == {"events": [False], "truth": [True]}
    assert accept_all(LakeSession(lake), "gone") == ["events:a.csv"]
    assert withdrawn(lake) == {"events": [True], "truth": [True]}
