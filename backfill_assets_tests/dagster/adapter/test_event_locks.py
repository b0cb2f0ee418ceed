"""Interrupts while an event of Dagster is written: none leaves a file locked, and none waits for a
lock.

Tested here: `dagster.adapter.event_storage` under interrupts. Not tested here: its rows
(`test_event_storage`), and whole commands (`end_to_end.test_interrupts`).
"""

import contextlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import dagster as dg
import pytest

from backfill_assets.kernel.core.interrupts import INTERRUPTS
from backfill_assets_tests.dagster.adapter.test_event_storage import RUN, step_event
from backfill_assets_tests.homes import opened_home
from backfill_assets_tests.processes import CHECKOUT

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance with our storage."""
    with opened_home(tmp_path) as made:
        yield made


class StopAt:
    """A trace of what the storage and its libraries run: at the line number `line` an interrupt
    comes, as a signal does or, `raised`, as an exception that no handler can keep back. None of
    these comes within SQLAlchemy's pool: half of its own bookkeeping gives a connection to two, and
    signals, which are kept back, never come there."""

    PARTS = ("sqlalchemy", "contextlib", "event_storage.py", "event_log", "interrupts.py")
    POOL = "sqlalchemy/pool"

    def __init__(self, line: int, raised: bool) -> None:
        self.line, self.raised, self.seen = line, raised, 0

    def __call__(self, frame: FrameType, kind: str, _: Any) -> Any:
        if kind == "call":
            file = frame.f_code.co_filename
            is_traced = any(part in file for part in self.PARTS) and not (
                self.raised and self.POOL in file
            )
            return self if is_traced else None
        self.seen += kind == "line"
        if kind == "line" and self.seen == self.line:
            if self.raised and self._is_pooling(frame):
                self.line += 1
                return self
            if self.raised:
                raise KeyboardInterrupt
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return self

    def _is_pooling(self, frame: FrameType | None) -> bool:
        """Whether the pool is at work, by itself or in what it calls."""
        while frame is not None:
            if self.POOL in frame.f_code.co_filename:
                return True
            frame = frame.f_back
        return False


def stored(instance: dg.DagsterInstance, trace: StopAt) -> None:
    """Store an event of a day, what the buffer holds, and a materialization of no run, under the
    trace."""
    storage, event, before = instance.event_log_storage, step_event("2024-03-01"), sys.gettrace()
    sys.settrace(trace)
    try:
        storage.store_event(event)
        storage.flush()  # type: ignore[attr-defined]
        instance.report_runless_asset_event(dg.AssetMaterialization("a", partition="2024-03-01"))
    finally:
        sys.settrace(before)


def counts(home: Path) -> tuple[int, ...]:
    """How many events of the run its file and the index hold."""
    found = []
    for name in (RUN, "index"):
        with contextlib.closing(sqlite3.connect(home / "history" / "runs" / f"{name}.db")) as file:
            found += file.execute(
                "SELECT count(*) FROM event_logs WHERE run_id = ?", (RUN,)
            ).fetchone()
    return tuple(found)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """INT means an interrupt, also where tests were begun with it ignored (`nohup … &`). An
    exception that no handler keeps back may leave handlers of `interrupts_held` in place, by which
    the next test would hold nothing back."""
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("raised", [False, True], ids=["signal", "exception"])
def test_an_interrupt_at_any_line_of_a_write_locks_no_later_event_out(
    raised: bool, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    for whole in (StopAt(-1, raised), StopAt(-1, raised)):  # the first one opens the files
        stored(instance, whole)
    assert whole.seen > 3000
    reported, kinds = 0, BaseException if raised else KeyboardInterrupt
    for line in range(1, whole.seen, 67):
        found = None
        try:
            stored(instance, StopAt(line, raised))
        except kinds as error:
            # The traceback keeps each cursor alive, as it does while Dagster reports the failure.
            instance.report_engine_event("the run was interrupted", run_id=RUN, job_name="job")
            reported += 1  # in the file of the run alone
            stored(instance, StopAt(-1, raised))
            found = error.__context__
        if not raised:
            of_run, of_index = counts(tmp_path)
            assert of_run == of_index + reported, (line, found)


def test_a_transaction_that_python_ends_late_leaves_the_one_under_way(
    instance: dg.DagsterInstance,
) -> None:
    storage = instance.event_log_storage
    left = storage._shard_transaction(RUN)  # type: ignore[attr-defined]
    left.__enter__()  # an exception went past its end: a traceback keeps it
    with storage._shard_transaction("index") as under_way:  # type: ignore[attr-defined]
        left.gen.close()
        under_way.exec_driver_sql("DELETE FROM event_logs")
    with storage._shard_transaction("index") as afterwards:  # type: ignore[attr-defined]
        afterwards.exec_driver_sql("DELETE FROM event_logs")


HOLDER = """
import sqlite3, sys
opened = sqlite3.connect(sys.argv[1])
opened.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("processes", "interruptible")
def test_an_interrupt_ends_the_wait_for_a_lock_of_another_process(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    instance.store_event(step_event("2024-03-01"))
    instance.event_log_storage.flush()  # type: ignore[attr-defined]
    file = tmp_path / "history" / "runs" / f"{RUN}.db"
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        began = time.monotonic()
        threading.Timer(
            0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
        ).start()
        with pytest.raises(KeyboardInterrupt):
            instance.report_engine_event("waits", run_id=RUN, job_name="job")
        assert time.monotonic() - began < 10
        holder.communicate("")
    instance.report_engine_event("does not wait", run_id=RUN, job_name="job")
