"""Runs that are launched as forks end well, can be interrupted, and are missed; others are launched as Dagster does it.

Tested here: `orchestration.run_launcher`, with jobs of a module of their own. Not tested here: the daemon and the web
server around it (`browser.test_dev`), and when a new process is kept (`test_warm_starts`).
"""

import json
import os
import runpy
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from backfill_assets.engine.processes import Process
from backfill_assets.orchestration.run_launcher import PROCESS_TAG, WATCHES, WarmQueue, WarmRunLauncher
from backfill_assets.orchestration.runs import ENDED
from backfill_assets.orchestration.warm_starts import CAN_FORK, WarmStarts
from backfill_assets_tests.orchestration.origins import local_origin, remote_origin
from backfill_assets_tests.processes import run_python, until

pytestmark = [
    pytest.mark.usefixtures("processes", "storages"),
    pytest.mark.skipif(not CAN_FORK, reason="forks are asked for on Linux only"),
]

PATIENCE = 60.0
JOBS = '''
import os
from pathlib import Path

import dagster as dg

HERE = Path(__file__).parent


@dg.op
def tell(context):
    """Say which process this is, and what the file said when it was read."""
    (HERE / context.run_id).write_text(f"{os.getpid()} {os.getppid()} {os.environ['SAID']} EDITION")


@dg.op
def wait(context):
    """Wait for somebody who never comes."""
    (HERE / context.run_id).write_text("waits")
    (HERE / "pipe").open().read()


@dg.job(executor_def=dg.in_process_executor)
def quick():
    tell()


@dg.job(executor_def=dg.in_process_executor)
def endless():
    wait()


defs = dg.Definitions(jobs=[quick, endless])
'''
INSTANCE = """
telemetry: {enabled: false}
run_launcher: {module: backfill_assets.orchestration.run_launcher, class: WarmRunLauncher}
run_coordinator: {module: backfill_assets.orchestration.run_launcher, class: WarmQueue}
"""


@pytest.fixture(scope="module")
def starts() -> Iterator[WarmStarts]:
    """The process that has everything imported, one for all tests."""
    made = WarmStarts()
    yield made
    made.close()


@dataclass(frozen=True)
class Stage:
    """A folder with the module of jobs, an instance of Dagster, and our launcher for it."""

    folder: Path
    instance: dg.DagsterInstance
    launcher: WarmRunLauncher

    def launch(self, job: str = "quick", module: str = "own_jobs", host: str = "localhost") -> str:
        """Have a run of a job of the module launched, whose code location is on a host; gives its id."""
        context = self.context(job, module, host)
        self.launcher.launch_run(context)
        run_id: str = context.dagster_run.run_id
        return run_id

    def context(self, job: str, module: str, host: str) -> Any:
        """What Dagster hands to launchers."""
        anyhow: Any = self.instance
        made = anyhow.create_run_for_job(
            runpy.run_path(str(self.folder / "own_jobs.py"))[job],
            remote_job_origin=remote_origin(job),
            job_code_origin=local_origin(job, module, str(self.folder)),
        )
        run = anyhow.get_run_by_id(made.run_id)
        location = SimpleNamespace(client=SimpleNamespace(host=host))
        workspace = SimpleNamespace(get_code_location=lambda _name: location)
        return SimpleNamespace(dagster_run=run, job_code_origin=run.job_code_origin, workspace=workspace)

    def status(self, run_id: str) -> dg.DagsterRunStatus:
        """The status of a run that exists."""
        run = self.instance.get_run_by_id(run_id)
        assert run
        return run.status

    def ended(self, run_id: str) -> dg.DagsterRunStatus:
        """The status of a run when it has ended."""
        until(lambda: self.status(run_id) in ENDED, self.folder / "log", PATIENCE)
        return self.status(run_id)

    def told(self, run_id: str) -> list[str]:
        """What the run wrote, when it did."""
        path = self.folder / run_id
        until(lambda: path.exists() and bool(path.read_text()), self.folder / "log", PATIENCE)
        return path.read_text().split()

    def pid(self, run_id: str) -> int:
        """The process that was begun for the run."""
        run = self.instance.get_run_by_id(run_id)
        assert run
        return int(json.loads(run.tags[PROCESS_TAG])["pid"])


@pytest.fixture
def stage(tmp_path: Path, starts: WarmStarts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Jobs and an instance whose file names our classes."""
    (tmp_path / "own_jobs.py").write_text(JOBS.replace("EDITION", "first"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "log").touch()
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(INSTANCE)
    monkeypatch.setenv("SAID", "of-the-launcher")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        launcher = WarmRunLauncher(starts=starts, package="own_jobs")
        launcher.register_instance(instance)
        yield Stage(tmp_path, instance, launcher)
        for thread in threading.enumerate():  # a run writes to the folder until its process ends
            if thread.name.startswith(WATCHES):
                thread.join(PATIENCE)


def test_a_run_is_a_fork_of_the_process_that_has_the_imports_and_ends_well(stage: Stage, starts: WarmStarts) -> None:
    run_id = stage.launch()
    assert stage.ended(run_id) is dg.DagsterRunStatus.SUCCESS
    pid, parent, said, _ = stage.told(run_id)
    assert (int(pid), int(parent), said) == (stage.pid(run_id), starts.pid, "of-the-launcher")


def test_what_a_user_edited_counts_in_the_next_run_while_the_process_is_kept(stage: Stage, starts: WarmStarts) -> None:
    before = stage.launch()
    assert stage.told(before)[3] == "first"
    kept = starts.pid
    (stage.folder / "own_jobs.py").write_text(JOBS.replace("EDITION", "second edition"))
    assert stage.told(stage.launch())[3:] == ["second", "edition"]
    assert starts.pid == kept
    assert stage.ended(before) is dg.DagsterRunStatus.SUCCESS


CANCEL = """
import sys
import dagster as dg
with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    print(type(instance.run_launcher).__name__, instance.run_launcher.terminate(sys.argv[2]))
"""


def test_another_process_interrupts_a_run_which_ends_canceled(stage: Stage) -> None:
    run_id = stage.launch("endless")
    assert stage.told(run_id) == ["waits"]
    assert stage.launcher.check_run_worker_health(run_of(stage, run_id)).status.value == "RUNNING"
    said = run_python(CANCEL, stage.instance.root_directory, run_id)
    assert said.split() == ["WarmRunLauncher", "True"]
    assert stage.ended(run_id) is dg.DagsterRunStatus.CANCELED
    assert not stage.launcher.terminate(run_id)


def run_of(stage: Stage, run_id: str) -> dg.DagsterRun:
    """The run as it is stored."""
    run = stage.instance.get_run_by_id(run_id)
    assert run
    return run


def test_two_runs_at_once_and_one_of_them_killed_is_told_to_have_failed(stage: Stage) -> None:
    killed, other = stage.launch("endless"), stage.launch("endless")
    assert stage.told(killed) == stage.told(other) == ["waits"]
    os.kill(stage.pid(killed), signal.SIGKILL)
    assert stage.ended(killed) is dg.DagsterRunStatus.FAILURE
    assert stage.launcher.check_run_worker_health(run_of(stage, killed)).status.value == "NOT_FOUND"
    assert stage.launcher.check_run_worker_health(run_of(stage, other)).status.value == "RUNNING"
    assert stage.status(other) is dg.DagsterRunStatus.STARTED
    assert stage.launcher.terminate(other)
    assert stage.ended(other) is dg.DagsterRunStatus.CANCELED


def test_a_run_goes_on_and_is_watched_when_the_process_that_began_it_was_killed(
    stage: Stage, starts: WarmStarts
) -> None:
    run_id = stage.launch("endless")
    assert stage.told(run_id) == ["waits"]
    assert starts.pid
    os.kill(starts.pid, signal.SIGKILL)
    assert stage.ended(stage.launch()) is dg.DagsterRunStatus.SUCCESS
    assert stage.launcher.check_run_worker_health(run_of(stage, run_id)).status.value == "RUNNING"
    pid = stage.pid(run_id)
    os.kill(pid, signal.SIGKILL)
    until(lambda: Process.of(pid) is None, stage.folder / "log", PATIENCE)
    assert stage.launcher.check_run_worker_health(run_of(stage, run_id)).status.value == "NOT_FOUND"


@pytest.mark.parametrize(("module", "host"), [("strangers_jobs", "localhost"), ("own_jobs", "elsewhere.example")])
def test_runs_of_other_code_and_other_machines_are_launched_as_dagster_does(
    stage: Stage, module: str, host: str
) -> None:
    with pytest.raises(Exception, match="GRPC server"):
        stage.launch("quick", module, host)


def test_the_classes_are_those_that_the_file_of_an_instance_names(stage: Stage) -> None:
    assert isinstance(stage.instance.run_launcher, WarmRunLauncher)
    assert isinstance(stage.instance.run_coordinator, WarmQueue)
    assert stage.instance.run_launcher.starts.pid is None, "only the daemon begins one before there is a run"
