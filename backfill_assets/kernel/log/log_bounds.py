"""What a log of others, and the data files that it names, may hold before delta-rs or an engine
reads them: asked here by every reader, answered by the room that bounds landed files
(`intake.log_bounds`).

Not here: the bounds themselves, and which names in a log are files of its table (`file_names`).
"""

from collections.abc import Iterable
from typing import Any

from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.place.port import Place

LOG_FAULT, DATA_FAULT = "log_fault", "data_fault"  # what the room offers
UNBOUNDED = "no room of this installation says what it may hold"


def log_fault(table: Place, version: int | None = None) -> str:
    """Why a table's log must not be read up to a version (None: the newest), as a part of a
    sentence about the table; "" if it may be."""
    return _answer_of_room(LOG_FAULT, table, version)


def data_fault(table: Place, names: Iterable[str]) -> str:
    """Say which of these data files of a table of others must not be read, and why; "" if all may
    be."""
    return _answer_of_room(DATA_FAULT, table, names)


def _answer_of_room(asked: str, *about: Any) -> str:
    bound = offered_function(asked)
    return UNBOUNDED if bound is None else str(bound(*about))
