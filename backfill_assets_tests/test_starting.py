"""A fork of the starter is as an interpreter that was started, as far as the commands and their
tests can tell. Not here: what is tested with the one or the other."""

import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from backfill_assets_tests.end_to_end.steps import Step, run_steps
from backfill_assets_tests.processes import PIPES, run, start

pytestmark = pytest.mark.usefixtures("processes")

TELL = """
import atexit, gc, json, os, resource, signal, sys, threading, time, warnings
handlers = [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)]
mask = os.umask(0)
print(json.dumps({
    "words": [sys.argv, sys.orig_argv, __name__, sys.modules["__main__"].__dict__ is globals()],
    "path": sys.path,
    "environment": dict(os.environ),
    "zone": [time.tzname, time.localtime(0).tm_hour],
    "streams": [sys.stdin.read(), os.isatty(1), sys.stdout.encoding, sys.stdout.line_buffering],
    "open": [n for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)],
    "place": [os.getcwd(), os.getsid(0) == os.getpid(), mask],
    "limits": [resource.getrlimit(n) for n in (resource.RLIMIT_AS, resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)],
    "handlers": handlers,
    "threads": [threading.active_count(), len(os.listdir("/proc/self/task"))],
    "trace": [sys.gettrace(), sys.getrecursionlimit(), gc.get_threshold(), gc.isenabled(), sys.flags.dev_mode],
}))
"""


@pytest.mark.parametrize("session", [False, True])
def test_a_fork_finds_what_a_new_interpreter_finds(tmp_path: Path, session: bool) -> None:
    before = os.umask(0o057)  # of this process, as it is when the other is started
    around = {"PYTHONPATH": f"/first{os.pathsep}/second", "TZ": "Pacific/Kiritimati", "MINE": "ä"}
    told = [
        run(
            "-c",
            TELL,
            "a b",
            "--c",
            env=around,
            cwd=tmp_path,
            start_new_session=session,
            fresh=fresh,
        )
        for fresh in (True, False)
    ]
    os.umask(before)
    assert [done.returncode for done in told] == [0, 0], told[1].stderr
    real, fork = (json.loads(done.stdout) for done in told)
    for read in (real, fork):
        read["environment"].pop(
            "LC_CTYPE", None
        )  # what an interpreter sets for itself in an environment without any
    assert fork == real
    assert [done.stderr for done in told] == ["", ""]


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("print(1); raise SystemExit", 0, ""),
        ("raise SystemExit(7)", 7, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt\n"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        (
            "import threading, time; threading.Thread(target=lambda: time.sleep(0.2) or "
            "print(2)).start()",
            0,
            "",
        ),
    ],
)
def test_a_fork_ends_as_a_new_interpreter_does(code: str, status: int, said: str) -> None:
    fork, real = run("-c", code), run("-c", code, fresh=True)
    assert fork.returncode == real.returncode == status, fork.stderr
    assert fork.stdout == real.stdout
    assert fork.stderr.endswith(said)
    assert real.stderr.endswith(said)
    assert bool(fork.stderr) == bool(real.stderr)


def test_a_fork_is_seen_interrupted_and_killed_as_any_process() -> None:
    with start(
        "-c", "print('ready', flush=True); input()", "word", **(PIPES | {"stdin": subprocess.PIPE})
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "ready\n"
        assert waiting.poll() is None
        assert "word" in psutil.Process(waiting.pid).cmdline()
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.05)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(20) == -signal.SIGINT
    with start("-c", "import time; print('ready', flush=True); time.sleep(60)", **PIPES) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "ready\n"
        waiting.kill()
    assert waiting.returncode == -signal.SIGKILL


def test_a_command_in_a_shell_prints_and_ends_as_one_of_a_new_interpreter(tmp_path: Path) -> None:
    commands = """mkdir -p lake; cd lake; echo 'start_day = 1' > lake.toml; export MINE=ä
backfill-assets status --lake . 2>> told.txt || echo "code $?"
backfill-assets --help < lake.toml | head -1
echo "$(backfill-assets nosuch 2>&1)"; cat told.txt; (exit 7) || echo "code $?"
"""
    printed = []
    for kind in ("forks", "interpreters"):
        folder = tmp_path / kind / "empty"
        folder.mkdir(parents=True)
        (said,) = run_steps([Step(commands, None)], folder, {}, forked=kind == "forks")
        printed.append(said.replace(str(folder), "FOLDER"))
    assert printed[0] == printed[1]
    assert "code 2" in printed[0]
    assert "Usage: backfill-assets" in printed[0]
