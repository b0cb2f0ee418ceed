"""A driver of our own: what it is configured with, what its start script sees, and what dead processes left.

Tested here: `engine.classic` without starting a driver. Not tested here: a session (`test_session`).
"""

import os
from pathlib import Path

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.engine.classic import _launch_environment, _scratch, open_classic
from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.server_state import ServerFolder

NO_PROCESS = 2**22 + 1  # beyond the greatest number that Linux gives


@pytest.fixture
def state(tmp_path: Path) -> ServerFolder:
    found = ServerFolder.of(tmp_path)
    found.make()
    return found


def test_folders_of_dead_processes_are_removed_and_those_of_living_ones_stay(state: ServerFolder) -> None:
    for name in (f"classic-{NO_PROCESS}", f"classic-{os.getppid()}", "classic-notes"):
        (state.folder / name).mkdir()
    mine = _scratch(state)
    assert mine.stat().st_mode & 0o777 == 0o700
    kept = {f"classic-{os.getpid()}", f"classic-{os.getppid()}", "classic-notes"}
    assert {p.name for p in state.folder.iterdir()} == kept


def test_the_environment_is_sparks_while_it_starts_and_the_callers_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    monkeypatch.setenv("JAVA_HOME", "mine")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with _launch_environment(tmp_path / "it's.properties", EngineSettings("local[1]")):
        assert "SPARK_REMOTE" not in os.environ, "a driver of our own is no client of another"
        assert os.environ["JAVA_HOME"] != "mine"
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
        assert os.environ["PYSPARK_SUBMIT_ARGS"].startswith("--properties-file '")
    assert (os.environ["SPARK_REMOTE"], os.environ["JAVA_HOME"]) == ("sc://elsewhere", "mine")
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_process_that_talks_to_a_server_is_refused_a_driver_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(SettingsError, match="already uses another one"):
        open_classic(tmp_path, EngineSettings("local[7]"))
    assert list(tmp_path.iterdir()) == []
