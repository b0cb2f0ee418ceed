"""Where the temporary folders of a test run lie: in memory, where this machine has enough of it.

Lives here: the choice, which pytest is told of by its variable. Does not live here: what becomes of
the folders (pytest keeps those of tests that failed, and removes them three runs later).
"""

import os
from pathlib import Path

import psutil

VARIABLE = "PYTEST_DEBUG_TEMPROOT"  # pytest's; programs that tests start are not told
IN_MEMORY = Path("/dev/shm")
LEAST_BYTES = 8 << 30  # of the folder and of the memory; a run takes some hundred MiB


def choose_temp_root(folder: Path = IN_MEMORY, least_bytes: int = LEAST_BYTES) -> None:
    """Let pytest make its folders in memory unless the environment names a place: a small write to
    SQLite or to a lake waits for the disk some ten times, which is nothing that tests look at."""
    if VARIABLE not in os.environ and _is_fit(folder, least_bytes):
        os.environ[VARIABLE] = str(folder)


def _is_fit(folder: Path, least_bytes: int) -> bool:
    """Whether files in it are quick, may be programs, and leave memory to engines."""
    try:
        place = os.statvfs(folder)
    except OSError:
        return False
    is_open = os.access(folder, os.W_OK) and not place.f_flag & os.ST_NOEXEC
    free = min(place.f_bavail * place.f_frsize, psutil.virtual_memory().available)
    return is_open and free >= least_bytes
