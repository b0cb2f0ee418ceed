"""The identity of processes: whom it means, and that nobody asks for a process by its number alone.
Not here: what follows for servers (`engines.test_server`) and for runs
(`dagster/adapter/test_run_liveness`)."""

import ast
import os
from dataclasses import asdict, replace

import psutil
import pytest

from backfill_assets.kernel.place.processes import (
    BOOT_ID,
    CLOCK_SLACK_SECONDS,
    PlacedProcess,
    Process,
)
from backfill_assets_tests.sources import PACKAGE, sources

# This one, and that which ends processes of a folder.
ASKING = {f"{PACKAGE}.kernel.place.processes", f"{PACKAGE}.engines.processes"}
STEPS_SECONDS = (-(10 * 365 * 86_400.0), -3600.0, -2.5, 2.5, 3600.0, 10 * 365 * 86_400.0)


def step_the_clock(seconds: float, patch: pytest.MonkeyPatch) -> None:
    """The machine's clock is set by so many seconds: what psutil tells of processes that began
    before moves along."""
    real = psutil.Process.create_time
    patch.setattr(psutil.Process, "create_time", lambda process: real(process) + seconds)


def test_a_process_is_not_confused_with_a_later_one_of_its_number() -> None:
    me = Process.of(os.getpid())
    assert me == Process.this()
    assert me is not None
    assert me.is_alive()
    later = replace(me, created=me.created - 0.01)  # one tick of the kernel
    assert later.is_alive() == (not me.boot)
    assert not replace(me, created=me.created - 60).is_alive()


@pytest.mark.skipif(not BOOT_ID.exists(), reason="only Linux counts from the boot")
@pytest.mark.parametrize("seconds", STEPS_SECONDS)
def test_a_step_of_the_clock_changes_no_verdict_on_a_process(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, here = Process.this(), PlacedProcess.this()
    step_the_clock(seconds, monkeypatch)
    assert me.is_alive()
    assert me == Process.this() == Process.of(os.getpid())
    assert not here.is_gone(PlacedProcess.this())
    earlier = replace(me, created=me.created - 60)
    assert not earlier.is_alive()
    assert replace(here, started=here.started - 60).is_gone(PlacedProcess.this())
    assert not replace(here, host="elsewhere", boot="another", started=0.0).is_gone(
        PlacedProcess.this()
    )
    assert me.memory_bytes()


def test_a_process_recorded_by_an_earlier_version_is_found_by_the_time_of_the_epoch() -> None:
    pid, created, here = os.getpid(), psutil.Process().create_time(), PlacedProcess.this()
    assert Process(pid, created + CLOCK_SLACK_SECONDS / 2).is_alive()
    assert not Process(pid, created - 60).is_alive()
    kept = {k: v for k, v in asdict(here).items() if k != "since_boot"} | {"started": created}
    assert not PlacedProcess(**kept).is_gone(here)
    assert PlacedProcess(**kept | {"started": created - 60}).is_gone(here)


def test_only_two_modules_ask_for_processes_by_number() -> None:
    """Four modules did, each with a comparison of its own; one of them without any slack."""
    offences = [
        f"{f.place}:{node.lineno} {ast.unparse(node)}"
        for f in sources(PACKAGE)
        if f.module not in ASKING and ("create_time" in f.text or "psutil.Process" in f.text)
        for node in f.of(ast.Attribute)
        if node.attr == "create_time"
        or (node.attr == "Process" and ast.unparse(node) == "psutil.Process")
    ]
    assert not offences
