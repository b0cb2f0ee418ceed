"""The process that waits for commands: that there is one, how long, whom it serves, that it knows nothing of a lake.

Tested here: `cli.waiting`, with real processes. Not tested here: what a command is to its caller (`test_front`).
"""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from backfill_assets.cli.surroundings import READ_LATE
from backfill_assets.engine.processes import Process
from backfill_assets.engine.unix_sockets import UnixAddress
from backfill_assets_tests.cli.waited import OWN, WaitedLake, told, waited_lake
from backfill_assets_tests.processes import run_python, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are forks on Linux only")
MOST_MIB = 200  # its own pages


@pytest.fixture
def lake(processes: None, tmp_path: Path) -> Iterator[WaitedLake]:
    """One that seems to have a server."""
    made = waited_lake(tmp_path)
    yield made
    made.end()


def test_the_first_command_beside_a_server_begins_one_and_the_next_are_forks_of_it(lake: WaitedLake) -> None:
    both = [lake.start("status") for _ in range(2)]
    assert {told(process.communicate()[1])[1] for process in both} == {os.getpid()}
    until(lake.place.socket.exists, lake.root / "lake.toml", 60)
    waiting = lake.place.pid()
    assert told(lake.run("status").stderr)[1] == waiting
    assert waiting is not None
    assert psutil.Process(waiting).memory_full_info().uss < MOST_MIB << 20
    others = [p for p in psutil.process_iter(["cmdline"]) if (p.info["cmdline"] or [])[-1:] == [str(lake.root)]]
    assert [p.pid for p in others] == [waiting], "two commands at once leave one"


def test_it_ends_with_the_server(lake: WaitedLake) -> None:
    waiting = lake.wait()
    lake.end()
    until(lambda: Process.of(waiting) is None, lake.root / "lake.toml", 5)
    assert not lake.place.socket.exists()
    assert told(lake.run("status").stderr)[1] == os.getpid()
    assert lake.place.pid() is None, "no server, no process beside it"


def test_another_environment_is_not_served_and_takes_the_place(lake: WaitedLake) -> None:
    first = lake.wait()
    assert told(lake.run("status", env={"TERM": "another"}).stderr)[1] == first
    other = lake.run("status", env={"MALLOC_ARENA_MAX": "2"})
    assert (other.returncode, told(other.stderr)[1]) == (0, os.getpid())
    until(lambda: Process.of(first) is None, lake.root / "lake.toml", 10)


def test_one_that_was_of_no_use_to_anybody_is_not_begun_again(lake: WaitedLake) -> None:
    lake.wait()
    for _ in range(2):
        assert told(lake.run("status", env={"MALLOC_ARENA_MAX": "2"}).stderr)[1] == os.getpid()
    assert lake.place.pid() is None


def test_a_changed_table_module_is_read_by_the_next_command(lake: WaitedLake) -> None:
    waiting = lake.wait()
    assert told(lake.run("status").stderr)[1] == waiting
    (lake.root / "own.py").write_text(OWN + 'print("changed", file=sys.stderr)\n')
    changed = lake.run("status").stderr
    assert "changed" in changed
    assert told(changed)[1] == waiting


def test_one_that_was_killed_is_no_hindrance(lake: WaitedLake) -> None:
    os.kill(lake.wait(), signal.SIGKILL)
    until(lambda: lake.place.pid() is None, lake.root / "lake.toml", 5)  # it takes a moment to be gone
    assert told(lake.run("status").stderr)[1] == os.getpid()
    until(lambda: lake.place.pid() is not None, lake.root / "lake.toml", 60)  # begun by that command
    waiting = lake.wait()
    assert told(lake.run("status").stderr)[1] == waiting, "the socket that the dead one left was taken for its own"


def test_who_says_nothing_is_left_and_the_next_is_served(lake: WaitedLake) -> None:
    waiting = lake.wait()
    address = UnixAddress(lake.place.socket)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent, contextlib.closing(address):
        silent.connect(address.text)
    assert told(lake.run("status").stderr)[1] == waiting


SPY = """
    import os, sys
    read = {}
    class Spy(type(os.environ)):
        def __getitem__(self, name):
            caller = sys._getframe(1)
            caller = caller.f_back if caller.f_code.co_name in ("get", "__contains__", "getenv") else caller
            read.setdefault((caller.f_code.co_filename, caller.f_lineno), set()).add(name)
            return super().__getitem__(name)
    os.environ.__class__ = Spy
    from backfill_assets.orchestration.warm_process import ROOMS, import_all
    import_all((*ROOMS, "cli"))
    copied = len(os.environ) // 2  # a place that reads as many copies all of it, for a process that it may start
    print(*(name for names in read.values() if len(names) < copied for name in names))
"""


@pytest.mark.usefixtures("processes")
def test_what_a_caller_may_have_otherwise_is_read_by_nothing_that_is_imported() -> None:
    from backfill_assets.orchestration.warm_process import ONE_THREAD

    read = set(run_python(SPY, env=ONE_THREAD, fresh=True).split())
    assert read, "somebody reads something"
    assert read & READ_LATE == set()
    assert not {name for name in read if name.startswith("BACKFILL_ASSETS_")}
