"""The identity of processes: whom it means, and that nobody asks for a process by its number alone.

Tested here: `engine.processes` on this very process and on children that end. Not tested here: what follows for servers
(`test_server`) and for runs (`orchestration/test_markers`).
"""

import ast
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from backfill_assets.engine.processes import CLOCK_SLACK_SECONDS, PlacedProcess, Process, end
from backfill_assets_tests.sources import PACKAGE, sources


def test_a_process_is_not_confused_with_a_later_one_of_its_number() -> None:
    me = Process.of(os.getpid())
    assert me == Process.this()
    assert me is not None
    assert me.is_alive()
    assert not replace(me, created=me.created - 60).is_alive()
    end(replace(me, created=me.created - 60), grace_seconds=0)  # would end this test otherwise


def test_a_clock_that_was_adjusted_a_little_makes_no_other_process() -> None:
    me = Process.this()
    assert replace(me, created=me.created + CLOCK_SLACK_SECONDS / 2).is_alive()
    here = PlacedProcess.this()
    assert not replace(here, started=here.started - CLOCK_SLACK_SECONDS / 2).is_gone(here)


@pytest.mark.usefixtures("processes")
def test_a_process_that_ended_is_gone_and_holds_no_memory() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = Process.of(child.pid)
    assert known is not None
    assert known.memory_bytes()
    child.communicate(b"\n")
    assert not known.is_alive()
    assert known.memory_bytes() is None
    here = PlacedProcess.this()
    assert replace(here, pid=known.pid, started=known.created).is_gone(here)
    assert not replace(here, pid=known.pid, started=known.created).is_here(here)


def test_a_process_of_another_machine_is_not_here_whatever_its_number() -> None:
    here = PlacedProcess.this()
    assert here.is_here(here)
    assert not replace(here, host="elsewhere", boot="another").is_here(here)


def test_only_this_module_asks_for_processes_by_number() -> None:
    """Four modules did, each with a comparison of its own; one of them without any slack."""
    offences = [
        f"{f.place}:{node.lineno} {ast.unparse(node)}"
        for f in sources(PACKAGE)
        if f.module != f"{PACKAGE}.engine.processes"
        for node in f.of(ast.Attribute)
        if node.attr == "create_time" or (node.attr == "Process" and ast.unparse(node) == "psutil.Process")
    ]
    assert not offences
