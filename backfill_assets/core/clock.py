"""The wall clock: the one place that asks it for a moment or a day, which tests of moving clocks replace.

Lives here: reading the clock. Does not live here: how long something takes (`time.monotonic`), and the times of files.
No order of commits or events may rest on it: it is set forward and back, by hours and by years.
"""

import time
from datetime import UTC, date, datetime


def utc_now() -> datetime:
    """This moment, in UTC."""
    return datetime.fromtimestamp(time.time(), UTC)


def utc_today() -> date:
    """This day, in UTC."""
    return utc_now().date()
