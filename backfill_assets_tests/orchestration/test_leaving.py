"""A process of ours that has said its last is gone: what was registered is called, and nothing is taken apart.

Tested here: `orchestration.leaving`, in processes. Not tested here: the processes that end so (`cli.test_front`,
`cli.test_waiting`, `test_chunk_process`).
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.engine.waiting_place import NUMBER
from backfill_assets.orchestration.leaving import UNTOLD
from backfill_assets_tests.processes import CHECKOUT

pytestmark = pytest.mark.usefixtures("processes")

BLOCK = """
import sys
from backfill_assets.orchestration.leaving import ends_at_once, leave

class Kept:
    def __del__(self):
        print("taken apart")

with {context}:
    import atexit, threading, time
    kept = Kept()
    kept.itself = kept
    atexit.register(print, "registered")
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    {last}
"""


def _ended(
    last: str, context: str = "ends_at_once()", before: str = "", **more: object
) -> subprocess.CompletedProcess[str]:
    code = before + BLOCK.format(last=last, context=context)
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=env, text=True, check=False, **given)


@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('in vain')", 1, "in vain\n"),
        ("raise LookupError('nothing')", 1, "LookupError: nothing\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
    ],
)
def test_threads_and_what_is_registered_come_first_and_the_exit_code_is_that_of_the_block(
    last: str, code: int, said: str
) -> None:
    done = _ended(last)
    assert (done.returncode, done.stdout) == (code, "thread\nregistered\n")
    assert done.stderr.endswith(said)
    assert bool(done.stderr) == bool(said)


def test_what_cannot_be_written_at_the_end_is_no_success() -> None:
    with Path("/dev/full").open("w") as full:
        assert _ended("pass", stdout=full).returncode == UNTOLD
        assert _ended("sys.exit(3)", stdout=full).returncode == 3


def test_what_a_handler_kept_back_is_logged_wherever_logging_was_imported() -> None:
    before = "import logging, logging.handlers as h\nkept = h.MemoryHandler(9, target=logging.StreamHandler())\n"
    before += "logging.getLogger().addHandler(kept)"
    assert _ended("logging.warning('kept back')", before=before).stderr == "kept back\n"


def test_who_waits_at_a_line_is_told_the_exit_code() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        number = theirs.fileno()
        context = f"ends_at_once(lambda code: leave(code, __import__('socket').socket(fileno={number})))"
        _ended("sys.exit(7)", context, pass_fds=[number])
        (told,) = NUMBER.unpack(ours.recv(NUMBER.size))
    assert os.waitstatus_to_exitcode(told) == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_after_the_block_changes_no_exit_code_and_is_not_told(number: signal.Signals) -> None:
    done = _ended(f"atexit.register(lambda: (os.kill(os.getpid(), {int(number)}), time.sleep(60)))\n    import os")
    assert (done.returncode, done.stdout, done.stderr) == (0, "thread\n", "")
