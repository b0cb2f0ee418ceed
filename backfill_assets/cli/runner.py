"""Running a backfill through Dagster, in this process: the only file of the CLI that imports Dagster.

Lives here: which Dagster instance is meant, the one run of the job `rebuild`, and what its events say per table. Does
not live here: the load path (`orchestration`). The run lands in the same storage as those of `dagster dev`, so that the
UI shows it.
"""

import contextlib
import json
import logging
import os
import time
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.cli.progress import Asked, Outcome, TableOutcome, Watcher
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake, project_root
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.dagster_private import quick_events
from backfill_assets.orchestration.metadata import PREFIX
from backfill_assets.orchestration.runs import NOTE_TAG, REASON_TAG, REBUILD
from backfill_assets.pipeline.tables import tables

STEP = "make_"
START_TAG, END_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
QUIET_INSTANCE = "telemetry:\n  enabled: false\nnux:\n  enabled: false\n"
# What a run needs to know of its own is in the lake; Dagster's console log would bury the progress.
SILENCE = {"console": {"config": {"log_level": "CRITICAL"}}}


def run_backfill(lake: Lake, asked: Asked, watcher: Watcher) -> Outcome:
    """One run of the asked tables and days; `watcher` hears of each table as it starts and ends."""
    began, run_id = time.perf_counter(), str(uuid.uuid4())
    listener = _Listener(watcher)
    with _silenced(), _instance(lake) as instance, quick_events(instance):
        job = assemble(lake.root, tables, rebuilt=asked.tables).resolve_job_def(REBUILD)
        instance.add_event_listener(run_id, listener.hear)
        try:
            result = job.execute_in_process(
                instance=instance,
                run_id=run_id,
                tags={START_TAG: str(asked.days.start), END_TAG: str(asked.days.last)} | _said(asked),
                run_config={
                    "loggers": SILENCE,
                    "ops": {STEP + name: {"config": _config(asked)} for name in asked.tables},
                },
                raise_on_error=False,
            )
        except dg.DagsterError as error:
            told = " ".join(str(error).split())
            raise BackfillError("the run", told, "Nothing was started", "Correct the cause, then run again") from error
    (lake.root / ".runs" / run_id).unlink(missing_ok=True)
    seconds = time.perf_counter() - began
    return Outcome(run_id, result.success, tuple(listener.ended), listener.cause, seconds)


def _said(asked: Asked) -> dict[str, str]:
    return {REASON_TAG: asked.reason} | ({NOTE_TAG: asked.note} if asked.note else {})


def _config(asked: Asked) -> dict[str, Any]:
    return {"force": asked.force, "note": asked.note}


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Keep Dagster's warnings about itself from the screen; errors come back as the run's cause."""
    # A handler of its own: without any, Python prints warnings. `logging.disable` would swallow Dagster's events too.
    logger, silence = logging.getLogger("dagster"), logging.NullHandler()
    logger.addHandler(silence)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.removeHandler(silence)


@contextlib.contextmanager
def _instance(lake: Lake) -> Iterator[dg.DagsterInstance]:
    """$DAGSTER_HOME's, else that of the project's dagster.yaml, else one inside the lake.

    The project's file names folders relative to itself, so that we stand there while it is used.
    """
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as instance:
            yield instance
        return
    home = project_root()
    if not (home / "dagster.yaml").exists():
        home = lake.root / ".dagster"
        home.mkdir(parents=True, exist_ok=True)
        (home / "dagster.yaml").write_text(QUIET_INSTANCE, encoding="utf-8")
    with contextlib.chdir(home), dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def ui_command(lake: Lake) -> str:
    """What to type so that the UI shows the runs of this lake."""
    from backfill_assets.lake.home import LAKE_VARIABLE, lake_folder

    variable = "" if lake_folder() == lake.root else f"{LAKE_VARIABLE}={lake.root} "
    if not os.environ.get("DAGSTER_HOME") and not (project_root() / "dagster.yaml").exists():
        home = lake.root / ".dagster"
        return f"{variable}DAGSTER_HOME={home} dagster dev -m backfill_assets.definitions"
    place = "" if Path.cwd() == project_root() else f"cd {project_root()} && "
    return f"{place}{variable}dagster dev"


@dataclass
class _Listener:
    """What the events of one run say about its tables."""

    watcher: Watcher
    ended: list[TableOutcome] = field(default_factory=list)
    cause: str = ""
    _began: dict[str, float] = field(default_factory=dict)
    _days: dict[str, list[tuple[bool, int, dict[str, int]]]] = field(default_factory=dict)

    def hear(self, entry: dg.EventLogEntry) -> None:
        """One event of the run."""
        event = entry.dagster_event
        if event is None:
            return
        kind, step = event.event_type_value, event.step_key or ""
        if step and not step.startswith(STEP):
            return  # a standing check of a table, which Dagster shows; it makes nothing
        name = step.removeprefix(STEP)
        if kind == dg.DagsterEventType.STEP_START.value:
            self._began[name] = time.perf_counter()
            self.watcher.started(name)
        elif kind == dg.DagsterEventType.ASSET_MATERIALIZATION.value and event.asset_key is not None:
            found = event.step_materialization_data.materialization.metadata
            self._days.setdefault(event.asset_key.path[-1], []).append(_facts(found))
        elif kind == dg.DagsterEventType.STEP_SUCCESS.value:
            self._end(name, "")
        elif kind == dg.DagsterEventType.STEP_FAILURE.value:
            self.cause = self.cause or _cause(event)
            self._end(name, self.cause)
        elif kind == dg.DagsterEventType.RUN_FAILURE.value and not self.cause:
            self.cause = (event.message or "the run failed").splitlines()[0]

    def _end(self, name: str, cause: str) -> None:
        days = self._days.get(name, [])
        outcome = TableOutcome(
            name,
            days=len(days),
            changed=sum(changed for changed, _, _ in days),
            rows=sum(rows for _, rows, _ in days),
            seconds=time.perf_counter() - self._began.get(name, time.perf_counter()),
            extra={k: sum(e.get(k, 0) for _, _, e in days) for k in ("quarantine", "duplicate")},
            cause=cause,
        )
        self.ended.append(outcome)
        self.watcher.ended(outcome)


def _facts(metadata: Any) -> tuple[bool, int, dict[str, int]]:
    """Whether a day changed, its rows, and what a load set aside."""

    def value(name: str, default: Any) -> Any:
        return metadata[name].value if name in metadata else default

    aside = {k: value(f"{PREFIX}{k}_rows", 0) for k in ("quarantine", "duplicate")}
    return not value(PREFIX + "unchanged", False), value("dagster/partition_row_count", 0), aside


def _cause(event: dg.DagsterEvent) -> str:
    """The failing step's cause in one line: a Failure's own description, else the innermost exception."""
    failed = event.step_failure_data
    if failed.user_failure_data is not None and failed.user_failure_data.description:
        return str(failed.user_failure_data.description).splitlines()[0]
    error = failed.error
    while error is not None and error.cause is not None:
        error = error.cause
    said = error.message.strip().splitlines() if error is not None else []
    return said[0] if said else json.dumps(event.message)
