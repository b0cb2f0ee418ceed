"""The wall clock: the one place that asks it for a moment or a day. Tests of moving clocks set `SECONDS` to another.

Lives here: reading the clock. Does not live here: how long something takes (`time.monotonic`), and the times of files.
No order of events may rest on it: it is set forward and back, by hours and by years.
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, date, datetime

SECONDS: ContextVar[Callable[[], float]] = ContextVar("seconds since 1970", default=time.time)


def utc_now() -> datetime:
    """This moment, in UTC."""
    return datetime.fromtimestamp(SECONDS.get()(), UTC)


def utc_today() -> date:
    """This day, in UTC."""
    return utc_now().date()
