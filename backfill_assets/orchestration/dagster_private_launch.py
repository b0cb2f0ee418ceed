"""How Dagster 1.13 begins, interrupts and judges the process of a run: what it does not call public of that.

Lives here: the words a run's process is begun with and whether that may happen here, holding interrupts back, and what
is told of a process. Does not live here: who begins it (`run_launcher`, `warm_process`), and storage, in the other file
that may touch such names (`dagster_private`).
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._grpc.types import ExecuteRunArgs
from dagster._utils import get_run_crash_explanation
from dagster._utils.interrupts import capture_interrupts

__all__ = ["CheckRunHealthResult", "LaunchRunContext", "ended_early", "health", "held_back", "words_of"]

DAEMON = ("_daemon", "__main__.py")  # as `dagster dev` starts it: python -m dagster._daemon
IMPORTED_BY_RUNS = (  # most of it when a run opens its instance
    "dagster._cli.api",
    "dagster._core.definitions.repository_definition.repository_data_builder",
    "dagster._core.executor.in_process",
    "dagster._core.instance.factory",
    "dagster._core.storage.base_storage",
    "dagster._core.storage.event_log",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.root",
    "dagster._core.storage.runs",
    "dagster._core.storage.schedules",
    "dagster._core.storage.sqlite_storage",
    "dagster._core.system_config.composite_descent",
    "dagster._core.types.primitive_mapping",
    "dagster._core.workspace.autodiscovery",
    "dagster._utils.test.definitions",
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Holds SIGINT and SIGTERM back, as Dagster does for a whole run: the run then hears of them when it begins to work.
held_back: Callable[[], AbstractContextManager[None]] = capture_interrupts


def words_of(context: LaunchRunContext, instance: dg.DagsterInstance, package: str) -> list[str] | None:
    """What follows `python -m dagster` in the process of this run, as Dagster's launchers for containers say it.

    None where the run is not of the code of `package`, or its code does not run in this machine and this Python.
    """
    origin, run = context.job_code_origin, context.dagster_run
    if origin is None or context.workspace is None or run.remote_job_origin is None:
        return None
    code: Any = origin.repository_origin
    module = getattr(code.code_pointer, "module", "")
    if module.partition(".")[0] != package or code.executable_path != sys.executable or code.container_image:
        return None
    # Asked as Dagster's own launcher asks it, so that a location that does not load refuses runs in the same words.
    location: Any = context.workspace.get_code_location(run.remote_job_origin.location_name)
    client = getattr(location, "client", None)
    if client is None or client.host not in LOOPBACK:
        return None
    words = ExecuteRunArgs(job_origin=origin, run_id=run.run_id, instance_ref=instance.get_ref()).get_command_args()
    return list(words[-3:]) if list(words[:-3]) in (["dagster"], [sys.executable, "-m", "dagster"]) else None


def health(living: bool, told: str) -> CheckRunHealthResult:
    """What run monitoring hears of a process."""
    return CheckRunHealthResult(WorkerStatus.RUNNING if living else WorkerStatus.NOT_FOUND, told)


def ended_early(instance: dg.DagsterInstance, run_id: str, code: int) -> None:
    """The process of a run has ended with `code`, negative after a signal: a run that did not end has failed, which is
    told in the words in which Dagster's code servers tell it of theirs."""
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished:
        return
    instance.report_engine_event(get_run_crash_explanation(f"Run execution process for {run_id}", code), run)
    instance.report_run_failed(run)
