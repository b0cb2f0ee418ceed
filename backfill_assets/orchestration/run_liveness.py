"""Run liveness: which process works on which run, failing runs whose process is gone, and how far logs were recorded.

Here: the files `LAKE/.runs/INSTANCE/RUN` and `LAKE/.reconciled/INSTANCE.json`, which may be deleted at any time: a run
without a marker counts as alive, and commits are compared again. Not here: recording commits (`reconcile`).
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import dagster as dg
from filelock import FileLock

from backfill_assets.engine.processes import PlacedProcess
from backfill_assets.lake.files import read_json, write_json
from backfill_assets.lake.home import Lake
from backfill_assets.orchestration.dagster_private import instance_id
from backfill_assets.orchestration.runs import ENDED

GONE = "The run's process is gone: it was killed. What it committed is recorded."


@dataclass(frozen=True)
class Markers:
    """The files of one instance of Dagster in a lake: a marker per live run, and the newest recorded versions."""

    lake: Lake
    instance: str

    @property
    def folder(self) -> Path:
        """The folder of markers, a file per run, named by the run's id."""
        return self.lake.root / ".runs" / self.instance

    @property
    def reported(self) -> Path:
        """The file with the newest version per table that this instance has recorded."""
        return self.lake.root / ".reconciled" / f"{self.instance}.json"

    def mark(self, run_id: str) -> None:
        """Record that this process works on the run."""
        write_json(self.folder / run_id, asdict(PlacedProcess.this()))

    def forget(self, run_id: str) -> None:
        """Drop the marker of a run that ended in this process."""
        (self.folder / run_id).unlink(missing_ok=True)

    def recorded(self) -> dict[str, int]:
        """Per table the newest version that this instance has recorded; empty without a readable file."""
        return read_json(self.reported)


def markers_of(instance: dg.DagsterInstance, lake: Lake) -> Markers:
    """The files of this instance in the lake, shared by all processes with its run storage."""
    return Markers(lake, instance_id(instance))


def end_dead_runs(instance: dg.DagsterInstance, lake: Lake) -> list[str]:
    """Fail the instance's running runs whose process is gone, for which Dagster alone would wait; a line per run. Runs
    on other hosts are left to those hosts and to Dagster's run monitoring."""
    folder, here, done = markers_of(instance, lake).folder, PlacedProcess.this(), list[str]()
    with FileLock(lake.locks / "reconcile.lock"):
        # Through a link, these would be other files than markers.
        for path in sorted(folder.iterdir()) if folder.is_dir() and folder.resolve() == folder else []:
            if path.suffix:
                continue  # being written
            # First the process, then the status: a run that ends well says so before its process goes.
            gone = _is_gone(path, here)
            run = instance.get_run_by_id(path.name)
            if run is None or run.status in ENDED:
                path.unlink(missing_ok=True)
            elif gone:
                instance.report_run_failed(run, GONE)
                path.unlink(missing_ok=True)
                done.append(f"run {path.name} ended: its process is gone")
    return done


def _is_gone(marker: Path, here: PlacedProcess) -> bool:
    try:
        return PlacedProcess(**json.loads(marker.read_text())).is_gone(here)
    except FileNotFoundError:
        return False  # its run ended just now, and said so itself
    except (ValueError, TypeError):
        return True  # whole when written: the machine went down before it reached the disk
