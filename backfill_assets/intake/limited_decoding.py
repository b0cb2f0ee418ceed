"""Decoding landed Parquet files in one child process of limited memory: a file that kills it is
refused by name.

Not here: the examination itself (`parquet_files`). A footer may lie about every size, so that only
decoding shows the memory a file takes; a limit on this process would also hold for its threads and
the programs it starts.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.text_lines import Limits, Unreadable
from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.core.process import python_command
from backfill_assets.kernel.core.texts import printable_text

# Beside what the child takes to start: one page and one window of 256 MiB, each held twice.
MEMORY_BYTES = 1 << 30
CRASHES = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
# Arrow's own pools reserve address space that they do not use; threads of the allocator, too.
EXACT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}


class DecoderGone(LandingError, TransientError):
    """Something other than the file ended the child."""


def examine_apart(path: Path, size: int, limits: Limits, is_decoded: bool = True) -> int:
    """Run `parquet_files.examine_parquet` on the file at `path` in the child; no other process may
    write to the file.

    Raises Unreadable for a bad page or too much memory, OSError as reading does, and DecoderGone.
    """
    asked = json.dumps([str(path), size, asdict(limits), is_decoded]).encode() + b"\n"
    child = _decoding_child(os.getpid())
    try:
        with child.turn:
            said = json.loads(child.ask(asked))
    except (OSError, ValueError):
        _decoding_child.cache_clear()
        code = child.ended()
        if -code in CRASHES:
            raise Unreadable(
                f"decoding it ends the reader ({signal.Signals(-code).name})"
            ) from None
        raise DecoderGone(
            f"the landed file {printable_text(str(path))}",
            f"the process that decoded it was ended (code {code})",
            "Nothing of it was used",
            "Run the same command again",
        ) from None
    except BaseException:
        _decoding_child.cache_clear()
        child.end()
        raise
    # The answer is the number of rows, or what `examine_parquet` raised there.
    if "unreadable" in said:
        raise Unreadable(said["unreadable"])
    if "errno" in said:
        raise OSError(said["errno"], said["strerror"])
    return int(said["rows"])


class _Child:
    """The child process; `turn` lets one thread ask at a time."""

    def __init__(self) -> None:
        """Start the child, which waits for lines."""
        self.turn = Lock()
        command = python_command(__name__)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **EXACT},
            start_new_session=True,  # Ctrl-C is no fault of a file; it ends with its input
        )

    def ask(self, line: bytes) -> bytes:
        """Send a line and return the answer. Raises OSError or returns an empty text if the child
        is gone."""
        given, said = self._process.stdin, self._process.stdout
        if given is None or said is None:
            raise OSError("no pipe to the child")
        given.write(line)
        given.flush()
        return said.readline()

    def end(self) -> None:
        """Kill it: a late answer would be taken for that of the next question."""
        self._process.kill()
        self.ended()

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        with suppress(OSError):
            self._process.communicate()
        return self._process.wait()


@cache
def _decoding_child(_pid: int) -> _Child:
    """The child of the process with this id."""
    return _Child()


def _serve_requests() -> None:
    """Answer each line of the input until it ends."""
    from backfill_assets.intake.parquet_files import examine_parquet

    _limit_memory()
    for line in sys.stdin.buffer:
        path, size, limits, is_decoded = json.loads(line)
        said: dict[str, Any]
        try:
            with Path(path).open("rb") as source:
                said = {"rows": examine_parquet(source, size, Limits(**limits), is_decoded)}
        except Unreadable as error:
            said = {"unreadable": str(error)}
        except OSError as error:
            said = {"errno": error.errno, "strerror": error.strerror}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def _limit_memory() -> None:
    """Limit the memory of this process to what it has now and `MEMORY_BYTES` more."""
    import resource

    with suppress(ValueError, OSError):  # a system without this limit
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most = taken + MEMORY_BYTES
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


if __name__ == "__main__":
    _serve_requests()
