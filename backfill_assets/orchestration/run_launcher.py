"""How runs that wait in Dagster's queue become processes, where `dagster.yaml` names these classes: quickly.

Lives here: the launcher, whose runs are forks of a process that has the imports done (`warm_starts`), and the queue
that has that process begun with the daemon. Does not live here: what runs do. What cannot be had so is done as Dagster
does it: runs of other code locations, of other machines and Pythons, and all runs elsewhere than on Linux.
"""

import json
import os
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.engine.processes import PlacedProcess
from backfill_assets.orchestration.dagster_private_launch import (
    DAEMON,
    CheckRunHealthResult,
    LaunchRunContext,
    ended_early,
    health,
    words_of,
)
from backfill_assets.orchestration.warm_starts import CAN_FORK, Begun, WarmStarts

PROCESS_TAG = ".dagster/backfill_assets_process"  # hidden in the UI, as that of Dagster's launcher
WATCHES = "run-"  # how the threads are named that wait for the end of runs' processes
PACKAGE = __name__.partition(".")[0]
WARM_UP_SECONDS = 5.0  # after the daemon began: first the pages and the code location, which people wait for


class WarmRunLauncher(dg.DefaultRunLauncher):
    """Dagster's launcher, but that a run of this package is a fork of a process that has imported everything.

    The process group, environment and folder of the fork are the daemon's, as those of Dagster's own run processes
    are; it goes on as `dagster api execute_run`. When the daemon ends, its runs go on, as ever.
    """

    def __init__(self, inst_data: Any = None, starts: WarmStarts | None = None, package: str = PACKAGE) -> None:
        super().__init__(inst_data)
        self.starts, self._package = starts or WarmStarts(), package

    def launch_run(self, context: LaunchRunContext) -> None:
        """Begin the process of a run, and have its early end told."""
        words = words_of(context, self._instance, self._package) if CAN_FORK else None
        begun = self.starts.begin(words) if words else None
        if begun is None:
            super().launch_run(context)
            return
        run_id, instance = context.dagster_run.run_id, self._instance
        kept = json.dumps({"run": run_id, **asdict(begun.process)})
        instance.add_run_tags(run_id, {PROCESS_TAG: kept})
        self._run_ids.add(run_id)
        begun.go()
        threading.Thread(target=_watch, args=(instance, run_id, begun), name=WATCHES + run_id, daemon=True).start()

    def terminate(self, run_id: str) -> bool:
        """Interrupt the process of a run, whoever began it on this machine; False where it has ended already."""
        run = self._instance.get_run_by_id(run_id) if self.has_instance else None
        process = _process_of(run) if run is not None else None
        if run is None or process is None:
            stock: Any = super()
            return bool(stock.terminate(run_id))
        if run.is_finished or not process.is_here(PlacedProcess.this()):
            return False
        self._instance.report_run_canceling(run)
        os.kill(process.pid, signal.SIGINT)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Run monitoring may ask: of a run that outlived the daemon that began it, nobody else tells the end."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the process of a run lives; of those that Dagster began, its code servers tell."""
        process = _process_of(run)
        gone = process is not None and process.is_gone(PlacedProcess.this())
        return health(not gone, f"process {process.pid}" if process else "a process of the code server")

    def dispose(self) -> None:
        """Nothing is launched any more."""
        self.starts.close()
        super().dispose()


class WarmQueue(dg.QueuedRunCoordinator):
    """Dagster's queue, but that in the daemon the process that has the imports done is begun before the first run."""

    def register_instance(self, instance: dg.DagsterInstance) -> None:
        """As it is; in the daemon with a look at the launcher, which only a launch asks for otherwise."""
        super().register_instance(instance)
        launcher: Any = instance.run_launcher if _is_daemon() and CAN_FORK else None
        if isinstance(launcher, WarmRunLauncher):
            timer = threading.Timer(WARM_UP_SECONDS, launcher.starts.warm_up)
            timer.daemon = True
            timer.start()


def _watch(instance: dg.DagsterInstance, run_id: str, begun: Begun) -> None:
    """Wait for the end of a run's process; it says itself how the run ended, unless it was killed."""
    if (code := begun.wait()) is not None:
        ended_early(instance, run_id, code)


def _is_daemon() -> bool:
    program = Path(sys.argv[0])
    return program.name == "dagster-daemon" or program.parts[-2:] == DAEMON


def _process_of(run: dg.DagsterRun) -> PlacedProcess | None:
    """The process that was begun for the run; None where we began none. A run that repeats another has its tags."""
    kept = json.loads(run.tags.get(PROCESS_TAG, "{}"))
    return PlacedProcess(**kept) if kept.pop("run", None) == run.run_id else None
