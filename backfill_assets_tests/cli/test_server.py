"""`server` as a person meets it where none runs. No JVM.

Tested here: `cli.server`. Not tested here: a running one (`engine.test_server`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.synthetic import synthetic_lake


def test_the_server_of_another_engine_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic_lake(tmp_path, 1)
    assert read(run("server", "status", "--json", "--lake", tmp_path)) == {"running": False}
    assert "not running" in run("server", "stop", "--lake", tmp_path).stdout
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", "local[2]")
    assert run("server", "start", "--lake", tmp_path).exit_code == 2


def test_without_a_server_nothing_is_started_and_people_are_told_so(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 1)
    assert run("server", "status", "--lake", tmp_path).stdout == "not running; it starts at the first use\n"
    assert read(run("server", "stop", "--json", "--lake", tmp_path)) == {"stopped": False}
