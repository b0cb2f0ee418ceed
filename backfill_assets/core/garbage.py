"""Memory settings of a process that runs this package's commands or its Dagster definitions.

Here: thresholds of Python's garbage collector and the allocators of libraries. Not here: callers (`cli.app`,
`definitions`), which apply them before heavy imports; a program that imports this package keeps its own settings.
"""

import gc
import os

# Imports are two thirds of a short command, and their objects all stay: with Python's own thresholds the collector
# walks them again and again, a fifth of the CPU time of `backfill` for one day.
COLLECT_AFTER = (50_000, 10, 2)
# delta-rs, DuckDB and Arrow read these on import. By default they keep freed memory for ten seconds or for good: 70 MiB
# after a write of 3,650 days.
ALLOCATORS = {
    "_RJEM_MALLOC_CONF": "background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0",
    "DUCKDB_JE_MALLOC_CONF": "dirty_decay_ms:100,muzzy_decay_ms:0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def collect_seldom() -> None:
    """Set the collector's thresholds and, where the user set none, the allocators' variables of this process."""
    gc.set_threshold(*COLLECT_AFTER)
    for name, value in ALLOCATORS.items():
        os.environ.setdefault(name, value)
