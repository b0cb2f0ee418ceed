"""A command that is a fork is to its caller what it ever was: output, codes, signals, streams, folder, and a kill.

Tested here: `cli.front`, with real processes. Not tested here: when a process waits, and whom it serves
(`test_waiting`).
"""

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.engine.processes import Process
from backfill_assets.engine.waiting_place import OFF
from backfill_assets_tests.cli.waited import OPEN, PATIENCE_SECONDS, WaitedLake, told, waited_lake
from backfill_assets_tests.processes import as_a_user, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are forks on Linux only")


@pytest.fixture(scope="module")
def lake(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaitedLake]:
    """One beside whose server a process waits."""
    made = waited_lake(tmp_path_factory.mktemp("waited"))
    made.wait()
    yield made
    made.end()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["status"], 0),
        (["status", "--json"], 0),
        (["show", "staging", "2024-02-27"], 0),
        (["backfill", "--from", "2024-02-26", "--to", "2024-02-26", "--tables", "nothing"], 2),
        (["no-such-verb"], 2),
        (["rollback", "--plan", "none"], 1),
        (["sql", "SELECT 1 FROM nowhere"], 1),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else str(value),
)
def test_output_and_exit_code_are_those_of_a_command_without_a_fork(
    lake: WaitedLake, words: list[str], code: int
) -> None:
    waiting = lake.wait()
    fork, plain = lake.run(*words), lake.run(*words, env={OFF: "off"})
    assert fork.returncode == plain.returncode == code, fork.stderr
    assert fork.stdout == plain.stdout
    assert _without_processes(fork.stderr) == _without_processes(plain.stderr)
    if "own tables of" in plain.stderr:
        assert told(fork.stderr)[1] == waiting
        assert told(plain.stderr)[1] == os.getpid()


def _without_processes(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("own tables of")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_command_that_is_told_to_end_ends_as_ever(lake: WaitedLake, how: signal.Signals) -> None:
    lake.wait()
    ended = []
    for env in ({}, {OFF: "off"}):
        process, worker, _ = lake.held(env)
        process.send_signal(how)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        ended.append((process.returncode, out, err))
        assert Process.of(worker) is None
    assert ended[0] == ended[1]
    assert ended[0][0] == (130 if how == signal.SIGINT else -how)


def test_a_command_that_is_killed_is_killed_at_once(lake: WaitedLake) -> None:
    waiting = lake.wait()
    process, worker, parent = lake.held()
    assert parent == waiting
    process.kill()
    process.communicate()
    until(lambda: Process.of(worker) is None, lake.root / "lake.toml", 5)
    assert lake.run("status").returncode == 0
    assert lake.wait() == waiting


def test_it_is_killed_even_where_the_process_that_forked_it_is_gone(lake: WaitedLake) -> None:
    waiting = lake.wait()
    process, worker, parent = lake.held()
    assert parent == waiting
    os.kill(parent, signal.SIGKILL)
    process.kill()
    process.communicate()
    until(lambda: Process.of(worker) is None, lake.root / "lake.toml", 5)
    until(lambda: lake.place.pid() is None, lake.root / "lake.toml", 5)  # it takes a moment to be gone


def test_a_command_stops_and_goes_on_with_its_job(lake: WaitedLake) -> None:
    lake.wait()
    process, worker, _ = lake.held()
    process.send_signal(signal.SIGTSTP)
    state = Path(f"/proc/{worker}/stat")
    until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", lake.root / "lake.toml", 10)
    process.send_signal(signal.SIGCONT)
    until(lambda: state.read_text().rpartition(")")[2].split()[0] != "T", lake.root / "lake.toml", 10)
    process.terminate()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == -signal.SIGTERM


def test_a_command_whose_reader_has_gone_ends_quietly(lake: WaitedLake) -> None:
    waiting = lake.wait()
    reader, writer = os.pipe()
    os.close(reader)
    with lake.start("status", stdout=writer) as process:
        os.close(writer)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert told(err)[1] == waiting
    assert process.returncode == 1
    assert _without_processes(err) == []


def test_a_terminal_stays_one_and_as_wide(lake: WaitedLake) -> None:
    waiting = lake.wait()
    shown = []
    for env in ({}, {OFF: "off"}):
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 60))
        with lake.start("show", "staging", "2024-02-27", stdout=theirs, env=env) as process:
            os.close(theirs)
            _, err = process.communicate(timeout=PATIENCE_SECONDS)
        shown.append(os.read(ours, 1 << 16).decode())
        os.close(ours)
        assert told(err)[1] == (os.getpid() if env else waiting)
    assert shown[0] == shown[1]
    assert shown[0] != lake.run("show", "staging", "2024-02-27").stdout.replace("\n", "\r\n")


def test_what_else_is_open_is_handed_on(lake: WaitedLake, tmp_path: Path) -> None:
    waiting = lake.wait()
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        done = lake.run("status", pass_fds=[file], env={OPEN: str(file)})
    finally:
        os.close(file)
    assert (done.returncode, told(done.stderr)[1]) == (0, waiting), done.stderr
    assert (tmp_path / "file").read_text() == "written"


def test_a_relative_lake_and_the_working_folder_are_those_of_the_caller(lake: WaitedLake) -> None:
    waiting = lake.wait()
    environ = as_a_user()
    command = [sys.executable, "-c", "from backfill_assets.cli.front import main; main()", "--lake", ".", "status"]
    done = subprocess.run(command, cwd=lake.root, env=environ, capture_output=True, text=True, check=True)
    assert told(done.stderr)[1] == waiting


def test_two_commands_at_once_are_two_forks(lake: WaitedLake) -> None:
    waiting = lake.wait()
    both = [lake.held() for _ in range(2)]
    for process, _, _ in both:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)
    assert len({worker for _, worker, _ in both}) == 2
    assert {parent for _, _, parent in both} == {waiting}


@pytest.mark.parametrize("forks", ["on", "off"])
def test_what_is_printed_with_all_streams_closed_goes_nowhere(lake: WaitedLake, forks: str) -> None:
    """Else the first file that a command opens has the number of a stream, and gets what is printed."""
    lake.wait()
    command = [sys.executable, "-m", "backfill_assets", "status", "--lake", str(lake.root)]
    ended = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command],
        env={**as_a_user(), OFF: forks}, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert ended.returncode == 0
