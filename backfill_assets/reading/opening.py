"""The front door for readers: a lake and its tables, for notebooks, training and other programs.

Lives here: finding the lake and its pipeline. Does not live here: what can be read of it
(`reading.reader`). Unlike the other doors it takes no rights from folders and gives this process
no umask: it only reads.
"""

import sys
import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from backfill_assets.kernel.core.process import lake_folder
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.kernel.tables.versions import versions_seen, why_readers_wait
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.moments import Moment
from backfill_assets.reading.reader import LakeReader, instant_of


class ReadersWait(UserWarning):
    """Tables are read as they were before a run that goes on, and later commits are not read."""


def open_lake(
    folder: str | Path | None = None,
    *,
    at: datetime | str | int | None = None,
    newest: bool = False,
) -> LakeReader:
    """The lake in that folder or at that address (None: $BACKFILL_ASSETS_LAKE, else `.lake` in the
    project), to be read without a JVM.

    All its tables are read as the newest lake version has them, until it is opened again; `at` an
    instant (datetime or ISO text; UTC without an offset) or the number of a lake version; with
    `newest` each at its own newest version. Warns with ReadersWait where a run that goes on keeps
    commits from readers. Raises SettingsError where there is no lake, or its `lake.toml` or own
    tables are bad, and BackfillError for an unknown lake version. A day that a step of Dagster
    makes while it reads here is `unpinned`.
    """
    if newest and at is not None:
        raise ValueError("name one of at and newest")
    root = lake_folder(None if folder is None else str(folder))
    lake = read_lake(root)
    moment = None if at is None else Moment(lake, at=at if isinstance(at, int) else instant_of(at))
    seen = None if newest or moment else versions_seen(lake)
    if seen is not None and (why := why_readers_wait(lake)):
        warnings.warn(why, ReadersWait, stacklevel=2)
    return LakeReader(lake, chosen_pipeline(lake), seen, moment, note=_note_read)


def _note_read(name: str) -> None:
    """Let the step of Dagster that runs now remember what it reads here: no receipt of its days can
    name that."""
    if "dagster" in sys.modules:  # else no step runs, and a reader would wait for the import
        note_read: Callable[[str], None] | None = offered_function("note_read")
        if note_read is not None:
            note_read(f"{name} by open_lake or LakeResource")
