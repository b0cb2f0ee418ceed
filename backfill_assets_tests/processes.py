"""Runs code in a fresh interpreter, for tests that cannot share this process, and waits for what processes do.

Lives here: `run_python`, because classic Spark sessions and Connect sessions cannot share one process, and because some
tests kill the process they watch; `until`. Does not live here: fixtures (`conftest.py`) and what the code does.
"""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
DEFAULT_TIMEOUT_SECONDS = 180.0  # a cold Spark server on two busy cores has taken 60


def run_python(
    code: str,
    *args: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
) -> str:
    """What `code` (may be indented) prints, given `args` as `sys.argv[1:]` and `env` on top of this process's.

    Raises AssertionError with all its output when its exit code is not 0 or it is not done after `timeout` seconds.
    """
    command = [sys.executable, "-c", textwrap.dedent(code), *(os.fspath(arg) for arg in args)]
    try:
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"not done after {timeout:g} s\n{_text(late.stdout)}\n{_text(late.stderr)}") from None
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def until(done: Callable[[], bool], log: Path, patience: float) -> float:
    """Look twice a second until `done`, and give the seconds that took; fails with the log's end after `patience`."""
    pause, began = threading.Event(), time.monotonic()
    while not done():
        assert time.monotonic() < began + patience, log.read_text()[-4000:]
        pause.wait(0.5)
    return time.monotonic() - began


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
