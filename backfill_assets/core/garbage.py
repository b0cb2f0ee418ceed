"""How often Python looks for cyclic garbage in a process of ours, and giving back what was used once.

Lives here: the thresholds, what allocators of libraries are told, and why. Does not live here: who sets them: the
commands (`cli.app`) and the code location (`definitions`), before they import the rest. A program that uses this
package as a library is left as it is.
"""

import gc
import os
from contextlib import suppress

# Two thirds of a short command, and of a run's process, are imports, whose objects all stay; by default every one of
# them is walked again and again (a fifth of the CPU time of `backfill` for one day).
COLLECT_AFTER = (50_000, 10, 2)
# Read by delta-rs, DuckDB and Arrow as they are imported. By themselves they keep what they freed for ten seconds and
# longer, and without a thread of their own for good: of 3,650 days 70 MiB.
ALLOCATORS = {
    "_RJEM_MALLOC_CONF": "background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0",
    "DUCKDB_JE_MALLOC_CONF": "dirty_decay_ms:100,muzzy_decay_ms:0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def collect_seldom() -> None:
    """Let this process look for garbage seldom, and its libraries keep little of what they free, from here on."""
    gc.set_threshold(*COLLECT_AFTER)
    for name, told in ALLOCATORS.items():
        os.environ.setdefault(name, told)


def give_back() -> None:
    """Let the system have the pages that are free between those in use; a matter of milliseconds. The C library keeps
    them by itself, for good: of 3,650 days some 20 MiB at each phase."""
    import ctypes  # which commands that are forks need not wait for

    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
