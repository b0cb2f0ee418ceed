"""A row's path and number in the landing, as a delivery number and an arrival time for files without these.

Lives here: the names for `select`, and values that are the same at every load. Does not live here: applying `select`
(`mapping`).
"""

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

FILE, ROW = "_file", "_row"  # the path below the landing's root; the number of the record, from 1
HAVE_DEFAULTS = frozenset(["op", "seq", "arrival_ts", "version_ts"])
# A day in a path: 2024-03-01, dt=2024-03-01, 2024/03/01, year=2024/month=3/day=1.
# No look-around: Sail's regular expressions have none.
DAY = r"(?:^|[^0-9])([0-9]{4})(?:-|/(?:\w+=)?)([0-9]{1,2})(?:-|/(?:\w+=)?)([0-9]{1,2})(?:[^0-9]|$)"
HASH_DIGITS = 15  # of hexadecimal: 60 bits, so that adding a row's number stays within 63


@lru_cache(maxsize=16)
def uses_path(select: str) -> bool:
    """Whether rows depend on their file's path; then the path is part of the content's name."""
    from backfill_assets.landing.select import names_of, words_of

    return FILE in words_of(select) or "arrival_ts" not in names_of(select)


def identity(sha256: str, path: str) -> str:
    """The name (64 hexadecimal digits) of a content whose rows depend on its path."""
    return hashlib.sha256(f"{sha256} {path}".encode()).hexdigest()


def number_of(sha256: "Column", row_number: "Column") -> "Column":
    """A delivery number from a row's place: ascending within its file, and distinct from other contents.

    Two files of a million rows share numbers once in 10^12 pairs; their rows would go to quarantine, none is lost.
    """
    from pyspark.sql import functions as F

    start = F.conv(F.substring(sha256, 1, HASH_DIGITS), 16, 10).cast("bigint")
    return start + row_number.cast("bigint")


def arrival_of(path: "Column") -> "Column":
    """The last microsecond (UTC) of the first day that a path names; NULL where it names none.

    The end, because a row of that day must not count as known before it arrived: a cut may lie within the day.
    """
    from pyspark.sql import functions as F

    year, month, day = (F.regexp_extract(path, DAY, i) for i in (1, 2, 3))
    named = F.concat_ws("-", year, F.lpad(month, 2, "0"), F.lpad(day, 2, "0")).try_cast("date")
    return F.date_add(named, 1).cast("timestamp") - F.expr("INTERVAL '0.000001' SECOND")
