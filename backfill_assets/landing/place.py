"""A row's place in the landing: what stands in for a delivery number and an arrival time that files do not have.

Lives here: the names by which `select` asks for it, whether it does, and what follows from it: the same at every load
and whatever landed before. Does not live here: the files' names (`files`), and applying `select` (`mapping`).
"""

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

FILE, ROW = "_file", "_row"  # the path below the landing's root; the number of the record, from 1
HAVE_DEFAULTS = frozenset(["op", "seq", "arrival_ts", "version_ts"])
# A day as folders or names of files tell it: 2024-03-01, dt=2024-03-01, 2024/03/01, year=2024/month=3/day=1.
# Without looking behind or ahead, which Sail's regular expressions cannot.
DAY = r"(?:^|[^0-9])([0-9]{4})(?:-|/(?:\w+=)?)([0-9]{1,2})(?:-|/(?:\w+=)?)([0-9]{1,2})(?:[^0-9]|$)"
HASH_DIGITS = 15  # of hexadecimal: 60 bits, so that adding a row's number stays within 63


@lru_cache(maxsize=16)
def uses_path(select: str) -> bool:
    """Whether a row's delivery depends on its file's path: then the path is part of what a file is."""
    from backfill_assets.landing.select import names_of, words_of

    return FILE in words_of(select) or "arrival_ts" not in names_of(select)


def identity(sha256: str, path: str) -> str:
    """The name (64 hexadecimal digits) of a content that lies at a path, where both decide what it means."""
    return hashlib.sha256(f"{sha256} {path}".encode()).hexdigest()


def place_of(sha256: "Column", row_number: "Column") -> "Column":
    """The number of a row that has none: ascending within its file, and apart from those of other contents.

    Two files of a million rows share numbers once in 10^12 pairs; their rows would go to quarantine, none is lost.
    """
    from pyspark.sql import functions as F

    start = F.conv(F.substring(sha256, 1, HASH_DIGITS), 16, 10).cast("bigint")
    return start + row_number.cast("bigint")


def arrival_of(path: "Column") -> "Column":
    """The last microsecond (UTC) of the first day that a path names; NULL where it names none.

    The end, because what came sometime on a day must not count as known before: a cut may lie within that day.
    """
    from pyspark.sql import functions as F

    year, month, day = (F.regexp_extract(path, DAY, i) for i in (1, 2, 3))
    named = F.concat_ws("-", year, F.lpad(month, 2, "0"), F.lpad(day, 2, "0")).try_cast("date")
    return F.date_add(named, 1).cast("timestamp") - F.expr("INTERVAL '0.000001' SECOND")
