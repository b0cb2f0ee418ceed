"""Working ahead: what a run makes next is computed and written while the run still audits, commits and reports.

Lives here: threads that stage and audit candidates of tables whose turn comes later in the same run, and handing one to
its step, only where the step would compute it from the very same. Does not live here: which tables come next
(`orchestration.ahead`), and how a candidate is made (`derived`). Nothing is judged or committed here.

What is not taken over is dropped; what a process leaves that ends before that, the next write of the table sweeps. A
failure here is no failure of the run: the step does the work itself, and tells what is wrong if it still is.

Sums of processor seconds in receipts stay right over a run, but a table that was written ahead has spent part of its
own while another had its turn.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.states import States
from backfill_assets.engine.confs import COMPILED_FROM_ROWS
from backfill_assets.load.candidate import PinnedInputs, RebuildRequest, Written
from backfill_assets.load.derived import pinned, profiled, refuse_unbuildable, settled_days, written
from backfill_assets.load.making import input_rows
from backfill_assets.load.phases import Phases

# From so many rows on a session runs queries in another way; tables that are computed beside each other share one.
LARGE_ROWS = COMPILED_FROM_ROWS
MOST_ROWS = 10_000_000  # of more one table keeps all cores, the engine's memory and its disk busy by itself
MOST_DAYS = 400  # looking at more costs what is gained
Write = Callable[[RebuildRequest, States, Sequence[date]], Written]

log = logging.getLogger(__name__)


def write(request: RebuildRequest, states: States, todo: Sequence[date]) -> Written:
    """The rows of the days to do, staged and audited, as a step would do it; raises what that does."""
    staged = written(request, states, todo)
    try:
        return Written(staged, profiled(request, staged))
    except BaseException:
        staged.drop()
        raise


def least_rows(requests: Sequence[RebuildRequest]) -> int | None:
    """How many rows each of these is to expect at least, so that some may be computed beside others: 0 where the inputs
    of all have few, by their receipts as one look at the lake shows them, `LARGE_ROWS` where those of all have many.

    None where they had better follow each other: where some are small and some large, or one very large. Those of a
    landed table are files.
    """
    if not requests or any(r.table.is_landed or len(r.days) > MOST_DAYS for r in requests):
        return None
    states = requests[0].states()
    rows = [input_rows(states, r.table.contract, r.days) for r in requests]
    if max(rows) < LARGE_ROWS:
        return 0
    return LARGE_ROWS if min(rows) >= LARGE_ROWS and max(rows) < MOST_ROWS else None


class _Work:
    """One candidate on its way. It is taken once, or dropped."""

    def __init__(self, wanted: PinnedInputs, phases: Phases, do: Callable[[], Written]) -> None:
        self.pinned, self.phases = wanted, phases
        self._do, self._lock, self._done = do, threading.Lock(), threading.Event()
        self._made: Written | None = None
        self._dropped = False
        threading.Thread(target=self._run, name=f"{wanted.table} ahead", daemon=True).start()

    def _run(self) -> None:
        made = None
        try:
            made = self._do()
        except Exception as error:  # noqa: BLE001 - its step does the same again, and tells it
            log.debug("%s could not be written ahead: %s", self.pinned.table, error)
        with self._lock:
            self._made = made
            if self._dropped:
                self._drop()
        self._done.set()

    @property
    def is_busy(self) -> bool:
        """Whether it still computes."""
        return not self._done.is_set()

    def take(self) -> Written | None:
        """Wait for its end; None where it failed."""
        self._done.wait()
        made, self._made = self._made, None
        return made

    def drop(self) -> None:
        """Delete what it staged, or have it do so itself when it is through; waits for nothing."""
        with self._lock:
            self._dropped = True
            self._drop()

    def _drop(self) -> None:
        if self._made is not None:
            self._made.staged.drop()
            self._made = None


class Ahead:
    """What one run has begun ahead, as many at a time as there are `cores` (default: of this process), those of the
    engine at most. For the one thread that runs the steps."""

    def __init__(self, cores: int | None = None, do: Write = write) -> None:
        self.cores, self._do = cores or _cores(), do
        self._works: dict[str, _Work] = {}
        self._turns: set[str] = set()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether it begins nothing any more."""
        return self._closed

    def turn_of(self, table: str) -> None:
        """The table's own step begins: from now on nothing is begun ahead for it."""
        self._turns.add(table)

    def had_turn(self, table: str) -> bool:
        """Whether its own step has begun."""
        return table in self._turns

    def begin(self, request: RebuildRequest, beside: int = 0) -> bool:
        """Begin with a table's candidate, if its inputs allow it and a core idles; `beside`: how many more cores are
        busy soon. Returns at once; whether it was begun."""
        name, busy = request.table.name, beside + sum(w.is_busy for w in self._works.values())
        cores = min(self.cores, request.lake_session.engine.cores or self.cores)
        if self._closed or name in self._works or self.had_turn(name) or busy >= cores or not _fits(request):
            return False
        request = replace(request, phases=Phases(), ahead=None)
        try:
            states = request.states()
            refuse_unbuildable(states, request.table.contract, request.days)
        except BackfillError:  # its step tells it
            return False
        settled = settled_days(request, states)
        todo = [d for d in request.days if d not in settled]
        if not todo:
            return False
        work = _Work(pinned(request, states, todo), request.phases, lambda: self._do(request, states, todo))
        self._works[name] = work
        return True

    def take(self, wanted: PinnedInputs, phases: Phases) -> Written | None:
        """What was written ahead of the table, if from exactly what is wanted now; else it is dropped: None."""
        work = self._works.pop(wanted.table, None)
        if work is None:
            return None
        if work.pinned != wanted:
            work.drop()
            return None
        try:
            with phases.phase("wait"):
                made = work.take()
        except BaseException:  # an interrupt
            work.drop()
            raise
        if made is not None:
            phases.took_over(work.phases)
        return made

    def close(self) -> None:
        """Drop everything, and begin nothing any more."""
        self._closed = True
        while self._works:
            self._works.popitem()[1].drop()


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fits(request: RebuildRequest) -> bool:
    """Whether a request is one to work ahead on: by a server of the lake's own, by code of this package (a user's may
    not be safe in threads, and its plan is read under a setting of the session), replacing days as a whole."""
    table = request.table
    return request.lake_session.engine.has_server and not (table.is_landed or table.brings_code or request.merges)
