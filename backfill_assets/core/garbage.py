"""How often Python looks for cyclic garbage in a process of ours, and giving back what was used once.

Lives here: the thresholds and why. Does not live here: who sets them: the commands (`cli.app`) and the code location
(`definitions`), before they import the rest. A program that uses this package as a library is left as it is.
"""

import ctypes
import gc
from contextlib import suppress

# Two thirds of a short command, and of a run's process, are imports, whose objects all stay; by default every one of
# them is walked again and again (a fifth of the CPU time of `backfill` for one day).
COLLECT_AFTER = (50_000, 10, 2)


def collect_seldom() -> None:
    """Let this process look for garbage seldom, from here on."""
    gc.set_threshold(*COLLECT_AFTER)


def give_back() -> None:
    """Let the system have the pages that are free between those in use; a matter of milliseconds. The C library keeps
    them by itself, for good: of 3,650 days some 20 MiB at each phase."""
    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
