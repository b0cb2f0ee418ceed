"""Chunks that are made at once: a process for each, all of which end with the one that began them.

Lives here: beginning processes, waiting for what they say, and ending them. Does not live here: what they do (`cli.run`
and `orchestration.chunk_process`). Processes, not threads: a run of Dagster has signals, a home and a session.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from backfill_assets.core.interpreter import with_package

CAUSE = "cause"  # what a child says on stdout, as JSON: why it failed, empty where it did not
END_SECONDS = 15.0  # an interrupted run ends by itself within ten


@dataclass(frozen=True)
class Child:
    """A command, and what it reads."""

    command: tuple[str, ...]
    stdin: str = ""


class ChildrenStopped(KeyboardInterrupt):
    """The signal `number` came while children were at work; they have ended."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def said(cause: str) -> str:
    """What a child prints at its end, and nothing else."""
    return json.dumps({CAUSE: cause})


def causes_of(children: Sequence[Child]) -> list[str]:
    """Run them all at once; why each failed, or empty texts. Interrupted by INT or TERM, none is left running."""
    begun: list[subprocess.Popen[str]] = []
    with _heard():
        try:
            for child in children:
                process = subprocess.Popen(
                    child.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    env=with_package(os.environ, sys.path[:1]),
                )  # fmt: skip
                begun.append(process)
            # All are fed before one is waited for; what they read and say is small.
            for process, child in zip(begun, children, strict=True):
                _feed(process, child.stdin)
            return [_cause(process) for process in begun]
        finally:
            _end(begun)


def _feed(process: "subprocess.Popen[str]", text: str) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(text)
            process.stdin.close()
        process.stdin = None


def _cause(process: "subprocess.Popen[str]") -> str:
    told, _ = process.communicate()
    try:
        return str(json.loads(told.strip().splitlines()[-1])[CAUSE])
    except (ValueError, KeyError, TypeError, IndexError):
        return f"its process ended with exit code {process.returncode}; what it said stands above"


def _end(begun: Sequence["subprocess.Popen[str]"]) -> None:
    alive = [process for process in begun if process.poll() is None]
    for process in alive:
        process.terminate()
    for process in alive:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _heard() -> Iterator[None]:
    """INT and TERM raise inside the block, unless somebody hears TERM already (Dagster does in its runs)."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        """The handler."""
        raise ChildrenStopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
