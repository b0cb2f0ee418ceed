"""The work of a plan's chunks: one in this process, several at once each by the command `run PLAN
--only CHUNK`.

Elsewhere: the order of chunks and the gates (`run`), and the runs of Dagster that make days, which
the caller hands in. A chunk has one maker at a time, and every process that works on a plan checks
its pins.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, some_days
from backfill_assets.kernel.core.interrupts import hold_interrupts
from backfill_assets.kernel.core.plans import Work, forced_tables
from backfill_assets.kernel.core.process import environment_with_package, python_command
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import plan_lock
from backfill_assets.plans.model import PLAN_REASON, Plan, PlanChunk
from backfill_assets.plans.preflight import refuse_moved_pins
from backfill_assets.plans.progress import Progress, read_progress
from backfill_assets.plans.settings import priority_tags

# Tags by which Dagster shows which run began which.
PARENT = "dagster/parent_run_id"
ROOT = "dagster/root_run_id"
END_SECONDS = 15.0  # an interrupted run ends by itself within ten
Opener = Callable[[], tuple[Lake, Pipeline]]


@dataclass(frozen=True)
class ChunkWork:
    """Days of some tables for one run, in the name of a chunk."""

    plan: Plan
    chunk: PlanChunk
    tables: tuple[str, ...]  # upstream first
    days: DayRange
    # not forced: right days are left alone; what belongs to them (raw's ledger) may lack
    written: frozenset[str] = frozenset()

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of its receipts."""
        return self.plan.tags(self.chunk)

    def runs(self, contracts: Iterable[Contract]) -> Iterator[Work]:
        """Yield the work as runs of tables with equal partitions, in order, without tables of which
        the chunk makes none: another chunk makes the month. `contracts`: of all its tables."""
        keys = {table: self.plan.keys(self.chunk, table) for table in self.tables}
        making = replace(self, tables=tuple(table for table in self.tables if keys[table]))
        for part in making.work.parts(contracts):
            if part.table not in self.plan.periods:
                yield part
            elif own := {*part.days} & {*keys[part.table]}:
                yield replace(part, days=some_days(own))

    @property
    def work(self) -> Work:
        """As the work of a run, whatever partitions its tables have."""
        note = "; ".join(filter(None, (self.plan.reason, self.plan.note)))
        force = forced_tables(self.tables, self.plan.policy.force, self.written)
        return Work(
            self.days, self.tables, reason=PLAN_REASON, note=note, tags=self.tags, force=force
        )


class Terminated(KeyboardInterrupt):
    """TERM came while processes of chunks were at work; they have ended."""

    number = signal.SIGTERM


@dataclass(frozen=True)
class ChunkMaker:
    """Makes one chunk in this process, or several at once in processes of the command `run`."""

    root: Path
    open_lake: Opener
    # runs the work in this process and gives the cause of a failure
    make_one: Callable[[Work], str]
    report: Callable[[str], None]  # shows a line
    options: Sequence[str] = ()  # of the command `run`
    # of its processes, besides this process's
    environ: Mapping[str, str] = field(default_factory=dict)

    def make(self, works: Sequence[ChunkWork]) -> list[str]:
        """Make the days of each work; gives per work the cause of its failure, or an empty text."""
        if len(works) == 1:
            return [make_chunk_here(self.open_lake, works[0], self.make_one)]
        command = python_command("backfill_assets", "--lake", address_of(self.root), "run")
        commands = [
            (*command, w.plan.id, "--only", str(w.chunk.number), *self.options) for w in works
        ]
        return failure_causes(commands, self.environ)


def make_chunk_here(open_lake: Opener, work: ChunkWork, make: Callable[[Work], str]) -> str:
    """Rebuild the chunk's remaining days with `make`; return the cause of a failure or ''. Runs no
    gate, sets no mark.

    Waits for another process that still writes the chunk after its runner was killed. With `force`,
    tables that the plan has written are skipped, and tables that it has written in part are not
    forced, so that no day is written twice. The note in the receipts names the bounds that a person
    accepted.
    """
    plan, (lake, pipeline) = work.plan, open_lake()
    with plan_lock(lake, plan, work.chunk):
        current = read_progress(lake, pipeline, plan)
        refuse_moved_pins(plan, lake, pipeline, current.states)
        todo = current.undone(work.chunk)
        tables = tuple(table for table in work.tables if table in todo)
        if not tables:
            return ""
        work = replace(work, plan=replace(plan, note=_note_with_bounds(plan, current)))
        if plan.policy.force:
            work = replace(work, tables=tables, written=work.written | current.written(todo))
        for asked in work.runs(pipeline.contracts):
            tags = {**asked.tags, **priority_tags(lake.settings)}
            if cause := make(replace(asked, tags=tags)):
                return cause
    return ""


def _note_with_bounds(plan: Plan, current: Progress) -> str:
    """The plan's note, and the acceptances of bounds: they hold for the chunks to come. Those of
    whole chunks, which are written already, are left out."""
    notes = [plan.note] if plan.note else []
    notes += [str(acceptance) for acceptance in current.accepted if acceptance.names_a_bound]
    return "; ".join(notes)


def failure_causes(
    commands: Sequence[Sequence[str]], environ: Mapping[str, str] | None = None
) -> list[str]:
    """Run commands at once, with `environ` beside this process's environment; gives per command the
    last line it printed if it failed, else an empty text.

    Ends all of them before an interrupt leaves this function.
    """
    started: list[subprocess.Popen[str]] = []
    environment = environment_with_package({**os.environ, **(environ or {})}, sys.path[:1])
    with _terminated_by_an_error():
        try:
            for command in commands:
                with hold_interrupts():  # one that comes meanwhile would lose the child
                    child = subprocess.Popen(
                        command, stdout=subprocess.PIPE, text=True, env=environment
                    )
                    started.append(child)
            return [_process_cause(process) for process in started]
        finally:
            _end_processes(started)


def _process_cause(process: "subprocess.Popen[str]") -> str:
    """Wait for a process; its last line if it failed, else an empty text."""
    printed = process.communicate()[0].strip().splitlines()
    if not process.returncode:
        return ""
    if printed:
        return printed[-1]
    return f"its process ended with exit code {process.returncode}; see its lines above"


def _end_processes(started: Sequence["subprocess.Popen[str]"]) -> None:
    """End those that still run: by TERM, and by KILL after `END_SECONDS`."""
    alive = [process for process in started if process.poll() is None]
    for process in alive:
        process.terminate()
    for process in alive:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _raise_terminated(*_: object) -> None:
    raise Terminated


@contextlib.contextmanager
def _terminated_by_an_error() -> Iterator[None]:
    """Raise `Terminated` at TERM inside the block, unless TERM has a handler already (Dagster's, in
    its runs)."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
