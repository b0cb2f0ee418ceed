"""Runs Python in a process of its own, for tests that cannot share this one, and waits for what
processes do. Here: `start`, `run` and `run_python`, because a process has one session of Spark
Connect per lake, and because some tests kill the process they watch; `until`. Not here: fixtures
(`conftest.py`), what the code does, and the forks that stand in for new interpreters (`starting`).
What has to be tested with a new one says `fresh` or uses `subprocess`: what is imported when, how
an interpreter ends, time zones, the entry point, the README's project."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backfill_assets_tests.starting import Fork

CHECKOUT = Path(__file__).resolve().parent.parent
DEFAULT_TIMEOUT_SECONDS = 180.0  # a cold Spark server on two busy cores has taken 60
CAN_FORK = hasattr(os, "pidfd_open")  # Linux; elsewhere every interpreter is a new one
PIPES: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
}


def start(
    *words: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    cwd: Path = CHECKOUT,
    fresh: bool = False,
    **more: Any,
) -> "subprocess.Popen[str]":
    """Python with these words (`-m` and a module, or `-c` and code, then arguments) and `env` on
    top of ours.

    `more` are the streams and `start_new_session`, as for `subprocess.Popen`.
    """
    command = [sys.executable, *(os.fspath(word) for word in words)]
    kind = Fork if CAN_FORK and not fresh else subprocess.Popen
    return kind(command, cwd=cwd, env={**os.environ, **(env or {})}, text=True, **more)


@contextmanager
def as_in_a_terminal() -> Iterator[None]:
    """What is started meanwhile hears a terminal's signals; a shell has them ignored for what it
    begins in the background, tests included.

    Not by a `preexec_fn`: it has this very process forked, and gRPC, where an earlier test used it,
    aborts in the fork.
    """
    heard = (
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGHUP,
        signal.SIGTERM,
    )  # TERM: Dagster leaves it as INT is
    ignored = [n for n in heard if signal.getsignal(n) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def run(
    *words: str | os.PathLike[str], timeout: float = DEFAULT_TIMEOUT_SECONDS, **more: Any
) -> "subprocess.CompletedProcess[str]":
    """`start`, and wait for its end; raises `subprocess.TimeoutExpired` after `timeout` seconds."""
    with start(*words, **(PIPES | more)) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_python(
    code: str,
    *args: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    fresh: bool = False,
) -> str:
    """What `code` (may be indented) prints, given `args` as `sys.argv[1:]` and `env` on top of this
    process's.

    Raises AssertionError with all its output when its exit code is not 0 or it is not done after
    `timeout` seconds.
    """
    try:
        done = run("-c", textwrap.dedent(code), *args, env=env, timeout=timeout, fresh=fresh)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(
            f"not done after {timeout:g} s\n{_text(late.stdout)}\n{_text(late.stderr)}"
        ) from None
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def until(done: Callable[[], bool], log: Path, patience: float) -> float:
    """Look twice a second until `done`, and give the seconds that took; fails with the log's end
    after `patience`."""
    pause, began = threading.Event(), time.monotonic()
    while not done():
        assert time.monotonic() < began + patience, log.read_text()[-4000:]
        pause.wait(0.5)
    return time.monotonic() - began


def free_port() -> int:
    """A port of the loopback that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
