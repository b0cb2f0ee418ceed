"""What `doctor` says of a `dagster.yaml` of one's own. No instance is opened, no JVM starts.

Tested here: `cli.doctor_dagster`. Not tested here: what the launcher does (`orchestration.test_run_launcher`).
"""

from pathlib import Path

import pytest

from backfill_assets.cli.dagster_home import OF_A_LAKE
from backfill_assets.cli.doctor_dagster import examine_dagster
from backfill_assets.operations.diagnosis import Level
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.operations.synthetic import synthetic_lake


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Dagster that a user has named, for the lake beside it."""
    synthetic_lake(tmp_path / "lake", 1)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (None, "has no run_launcher and no run_coordinator of ours"),
        (
            "run_launcher: # class: WarmRunLauncher\n  class: Other\nx: {class: WarmQueue}\n",
            "has no run_launcher of ours",
        ),
    ],
)
def test_settings_without_our_launcher_or_queue_are_told_and_are_no_failure(
    home: Path, written: str | None, told: str
) -> None:
    if written is not None:
        (home / "dagster.yaml").write_text(written)
    (found,) = examine_dagster(home.parent / "lake")
    assert (found.level, told in found.what, str(OF_A_LAKE) in found.what) == (Level.OK, True, True)
    assert told in " ".join(run("doctor", "--lake", home.parent / "lake").stdout.split())


def test_settings_with_both_are_named_and_nothing_is_missed(home: Path) -> None:
    (home / "dagster.yaml").write_text(OF_A_LAKE.read_text())
    (found,) = examine_dagster(home.parent / "lake")
    assert found.what == str(home / "dagster.yaml")


def test_where_there_is_no_home_yet_nothing_is_said_and_none_is_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME")
    assert examine_dagster(home.parent / "lake") == []
    assert not (home.parent / "lake" / ".dagster").exists()


def test_who_can_open_the_pages_is_told_plainly(home: Path) -> None:
    told = " ".join(run("doctor", "--lake", home.parent / "lake").stdout.split())
    assert "`dagster dev` answers every user of this machine" in told
    assert "`backfill-assets ui` answers only who has its address" in told
