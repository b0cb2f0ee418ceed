"""Files in a bucket taken in by tasks of an engine elsewhere, so that none of their bytes passes
this process.

Not here: what a task does (`tasks`), and what follows from a file (`scan`). What no task
manages, and all where no task can run, this process takes in as it does elsewhere: nothing is
refused for it.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.loss import is_engine_loss
from backfill_assets.intake.content_store import StoredFile, described_content
from backfill_assets.intake.counting import source_intake
from backfill_assets.intake.files import SECOND, LandedFile
from backfill_assets.intake.tasks import (
    REASON_CHARS,
    TAKEN_COLUMNS,
    Probe,
    Tasks,
    code_digest,
)
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 256  # tasks of one query: each is sent the list of all
log = logging.getLogger(__name__)


def taken_by_engine(lake_session: Session, files: Sequence[LandedFile]) -> dict[str, StoredFile]:
    """The contents of those files that tasks of the lake's engine have taken into its content
    store, by the files' names: objects, of a lake in a bucket whose engine reads that itself. Logs
    why there are others, once a session."""
    lake, objects = lake_session.lake, [f for f in files if f.place is not None and not f.sha256]
    if not objects or not lake.stock.is_store or not lake_session.is_at_bucket():
        return {}
    session = lake_session.spark()
    if _engine_fault(session, lake.place):
        return {}
    tasks, found = _grouped_in_tasks(objects), dict[str, StoredFile]()
    intake, probe = source_intake(lake_session), _store_probe(lake.place)
    try:
        for first in range(0, len(tasks), AT_ONCE):
            part = Tasks(intake, lake.stock, tasks[first : first + AT_ONCE], probe)
            for row in _run_tasks(session, part):
                body = json.loads(row["described"])
                found[row["name"]] = described_content(lake.stock, row["sha256"], body)
    except Exception as error:
        if not is_engine_loss(error):
            raise
        _log_left_files([f.name for f in objects if f.name not in found], _last_error_line(error))
    return found


def _grouped_in_tasks(objects: Sequence[LandedFile]) -> list[list[LandedFile]]:
    """The objects in tasks, the largest first. Objects that may have equal bytes are one task: the
    later ones find the content that the first one left in the store."""

    def likeness(file: LandedFile) -> tuple[int, int]:
        return -file.size, file.mtime_ns % SECOND  # a digest of the ETag (`landed_object`)

    return [[*alike] for _, alike in groupby(sorted(objects, key=likeness), likeness)]


def _run_tasks(session: "SparkSession", tasks: Tasks) -> Iterator[Any]:
    """The rows of contents that tasks took in. A query that fails is halved, so that a file over
    which a process ends keeps no other one back; raises the loss of the engine."""
    many = len(tasks.files)
    try:
        rows = session.range(0, many, 1, many).mapInArrow(tasks.run, TAKEN_COLUMNS).collect()
    except Exception as error:
        if is_engine_loss(error):
            raise
        if many == 1:
            _log_left_files([f.name for f in tasks.files[0]], _last_error_line(error))
            return
        for half in (tasks.files[: many // 2], tasks.files[many // 2 :]):
            yield from _run_tasks(session, replace(tasks, files=half))
        return
    for row in rows:
        if row["failed"]:
            _log_left_files([row["name"]], row["failed"])
        else:
            yield row


def _store_probe(place: Place) -> Probe:
    """Whether another process has this code and reaches the lake: by its settings file."""
    return Probe(code_digest(), place, FILE_NAME, place.token(FILE_NAME))


@lru_cache(maxsize=4)
def _engine_fault(session: "SparkSession", place: Place) -> str:
    """Why the Python of one of the session's machines cannot take in files; empty if it can. Asked
    once for a session; each task asks its own machine."""
    try:
        (row,) = (
            session.range(0, 1, 1, 1).mapInArrow(_store_probe(place).run, "why string").collect()
        )
        why = str(row["why"])
    except Exception as error:  # noqa: BLE001 - it is the answer
        why = _last_error_line(error)
    if why:
        log.warning(
            "the engine's machines take in no landed files (%s): all pass this process", why
        )
    return why


def _log_left_files(names: Sequence[str], why: str) -> None:
    """Log files that no task took in, by the first of their `names` and the number of others."""
    named = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]
    log.warning(
        "%s: no task of the engine took it in (%s): it passes this process",
        printable_text(named),
        printable_text(why),
    )


def _last_error_line(error: Exception) -> str:
    """The last line of an error of Python on another machine, which says more than the first."""
    lines = [line for line in str(error).splitlines() if not line.startswith("\tat ")]
    said = [line.strip() for line in lines if line.strip()]
    return (said or [type(error).__name__])[-1][:REASON_CHARS]
