"""What upkeep remembers from one time to the next, in `LAKE/.upkeep`: a small file for each table,
and one for the lake versions.

Each is safe to lose, and says which log it is of: where it is missing, damaged, of an earlier
content of the log or of a table that was made anew, all is looked at again. Not here: what is
remembered (`upkeep.removals`, `upkeep.thinning`).
"""

import gzip
import json
import zlib
from contextlib import suppress
from typing import TypeVar

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.records import MISREAD, json_of, record_of
from backfill_assets.kernel.place.port import Place

R = TypeVar("R")
UPKEEP = ".upkeep"  # in the lake
UNREADABLE = (OSError, EOFError, zlib.error, *MISREAD)


def recall(lake: Place, name: str, kind: type[R]) -> R | None:
    """Return the record of this class that `remember` wrote last under a name; None where there is
    none that can be read. Raises what a store says that does not answer."""
    try:
        return record_of(kind, json.loads(gzip.decompress(lake.read(_file_of(name)))))
    except BackfillError:
        raise
    except UNREADABLE:
        return None


def remember(lake: Place, name: str, record: object) -> None:
    """Write a record under a name; readers see the one before or this one. A failure costs only
    time: the next upkeep begins where the one before began."""
    text = json.dumps(json_of(record), separators=(",", ":"))
    with suppress(OSError):
        lake.write(_file_of(name), gzip.compress(text.encode(), mtime=0))


def _file_of(name: str) -> str:
    return f"{UPKEEP}/{name}.json.gz"
