"""`server` as a person uses it, and what it refuses: other users' lakes, forged records. No JVM."""

import socket
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.engine.processes import Process, working_in
from backfill_assets.engine.server import SERVER_PROGRAMS
from backfill_assets.engine.supervisor import RECORD, Record, ServerFolder
from backfill_assets.orchestration.event_storage import BatchedEventLogStorage
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.synthetic import synthetic_lake
from backfill_assets_tests.processes import start, until
from backfill_assets_tests.strangers import give_away

# What stands for a server has one of its words in the command line.
A_SERVER = ("-c", "import time; time.sleep(30)", "backfill_assets.engine.sail")
PATIENCE_SECONDS = 20.0


def test_the_server_of_another_engine_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic_lake(tmp_path, 1)
    assert read(run("server", "status", "--json", "--lake", tmp_path)) == {"running": False}
    assert "not running" in run("server", "stop", "--lake", tmp_path).stdout
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", "sc://host")
    assert run("server", "start", "--lake", tmp_path).exit_code == 2


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("settings", ["nonsense = ", '[spark]\nengine = "sc://host"'])
def test_one_that_runs_is_found_and_stopped_whatever_the_settings_say_by_now(tmp_path: Path, settings: str) -> None:
    (tmp_path / "lake.toml").write_text(settings)
    folder = ServerFolder.of(tmp_path)
    folder.make()
    with socket.create_server(("127.0.0.1", 0)) as door, start(*A_SERVER, cwd=folder.folder, fresh=True) as running:
        process = Process.of(running.pid)
        assert process is not None
        folder.write_record(Record(process, process, door.getsockname()[1], "", {"spark": "4.2"}))
        # The kernel shows the words of a program a moment after `Popen` returns.
        until(lambda: bool(working_in(folder.folder, SERVER_PROGRAMS)), tmp_path / "lake.toml", PATIENCE_SECONDS)
        assert f"process {running.pid}" in run("server", "status", "--lake", tmp_path).stdout
        stopped = run("server", "stop", "--lake", tmp_path)
        assert (stopped.stdout, stopped.stderr) == ("stopped\n", "")
        assert running.wait(10)
    assert run("server", "stop", "--lake", tmp_path).exit_code == 2


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("forged", ["of another user", "of a process that is no server", "of another lake"])
def test_a_record_that_names_a_process_of_this_user_ends_it_only_if_it_is_a_server_of_this_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    synthetic_lake(tmp_path, 1)
    folder = ServerFolder.of(tmp_path)
    folder.make()
    command = A_SERVER[:2] if forged == "of a process that is no server" else A_SERVER
    where = folder.folder if forged == "of a process that is no server" else tmp_path
    with socket.create_server(("127.0.0.1", 0)) as door, start(*command, cwd=where, fresh=True) as running:
        process = Process.of(running.pid)
        assert process is not None
        folder.write_record(Record(process, process, door.getsockname()[1], "", {"spark": "4.2"}))
        with monkeypatch.context() as patch:
            if forged == "of another user":
                give_away(folder.folder / RECORD, patch)
            run("server", "stop", "--force", "--lake", tmp_path)
        assert process.is_alive()
        running.kill()


@pytest.mark.parametrize(
    "words",
    [("server", "stop"), ("server", "status"), ("server", "start"), ("init",), ("demo", "--new"), ("sql", "SELECT 1")],
)
def test_commands_refuse_the_lake_of_another_user_and_change_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    synthetic_lake(tmp_path / "lake", 1)
    if words == ("init",):
        (tmp_path / "lake" / "lake.toml").unlink()
    before = sorted(tmp_path.rglob("*"))
    give_away(tmp_path / "lake", monkeypatch)
    refused = run(*words, "--lake", tmp_path / "lake")
    assert (refused.exit_code, "belongs to" in refused.stderr) == (2, True)
    assert sorted(tmp_path.rglob("*")) == before


def test_dagster_opens_what_production_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dagster.yaml").write_text(run("production").stdout)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert isinstance(instance.event_log_storage, BatchedEventLogStorage)
        assert instance.run_retries_enabled
