"""Processes of this user by what they work on: those in a folder, and ending them; environments of
a program's processes.

Not here: the identity of one process (`kernel.place.processes`), files with such identities
(`supervisor`, `dagster.adapter.runs`).
"""

import os
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

from backfill_assets.kernel.place.processes import Process

_POLL_SECONDS = 0.02


def end_processes_in(folder: Path, words: Collection[str], grace_seconds: float) -> None:
    """End this user's processes that work in `folder` and have one of the words in their command
    line: ask, wait, then kill. Returns when they are gone."""
    found = processes_in(folder, words)
    identified = (Process.of(process.pid) for process in found)
    alive = [process for process in identified if process is not None]
    for signal_end in (psutil.Process.terminate, psutil.Process.kill):
        for target in found:
            with suppress(psutil.NoSuchProcess):
                signal_end(target)
        # Not psutil's wait: on a system that reaps no orphans, a zombie would keep it waiting.
        deadline = time.monotonic() + grace_seconds
        while (alive := [p for p in alive if p.is_alive()]) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if not alive:
            return


def processes_in(folder: Path, words: Collection[str]) -> list[psutil.Process]:
    """This user's processes that work in `folder` and have one of the words in their command
    line."""
    place = os.path.realpath(folder)  # the kernel names no link

    def is_one(found: psutil.Process) -> bool:
        """Whether it is, and lives."""
        with suppress(psutil.Error):
            is_ours = found.uids().effective == os.geteuid() and found.cwd() == place
            return is_ours and not set(words).isdisjoint(found.cmdline())
        return False

    return [found for found in psutil.process_iter() if is_one(found)]


def program_environments(program: str) -> list[tuple[int, dict[str, str]]]:
    """The numbers and environments of this user's processes that a program of this name is, or an
    interpreter runs."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            names = {Path(word).name for word in process.cmdline()[:2]}
            if program in names and process.uids().effective == os.geteuid():
                found.append((process.pid, process.environ()))
    return found
