"""The wall clock, read here only; tests set `SECONDS` to another clock. No order of events may rest
on it.

Not here: how long something takes (`time.monotonic`), and the times of files.
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
