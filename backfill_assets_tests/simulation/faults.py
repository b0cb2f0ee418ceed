"""What may go wrong at a request: of the store, of the process that asks, of its machine.

Here: drawing a fault for a request, and what it does. Not here: the requests (`store`). Faults are
drawn while they are `on` and until an instant of the story; afterwards everything answers, and who
died stays dead.
"""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, TypeVar

from obstore import exceptions as of

from backfill_assets_tests.simulation.scheduler import (
    Machine,
    Process,
    Scheduler,
    is_commit,
    is_race,
)

T = TypeVar("T")
SECONDS_SLOW = (2.0, 9.0, 25.0)
# The third: leases end, as whoever waited for them begins.
SECONDS_PAUSED = (5.0, 40.0, 130.0, 400.0)
SECONDS_AWAY = (0.0, 0.05, 40.0, 400.0)  # the second: of two requests, others are answered again
CLOCK_STEPS = (7.0, -7.0, 900.0, -900.0, 86_400.0)
LOST = "the answer is lost"
LATER = "an answer 500, though it was done, and done again"
BUSY = "503"
MEETS = "409"
SLOW = "a slow answer"
PAUSED = "the process is paused"
KILLED = "the process is killed"
MACHINE_LOST = "the machine is lost"
CLOCK = "the machine's clock steps"
DISK = "the disk of this machine is full"
BROKEN = "the disk of this machine fails"
OLD = "an old listing"
AWAY = "the machine's network is gone"
NEVER = "never"
ERROR_NUMBERS = {DISK: errno.ENOSPC, BROKEN: errno.EIO}
KINDS = (
    LOST,
    LATER,
    BUSY,
    MEETS,
    SLOW,
    PAUSED,
    KILLED,
    MACHINE_LOST,
    CLOCK,
    DISK,
    BROKEN,
    OLD,
    AWAY,
)
# Whoever only reads loses nothing by these; a command that they ended there would never write.
AT_WRITES = (LOST, LATER, AWAY)
READING = ("list", "look", "read")  # kinds of requests
STAGED, WRITES = "while a write is staged", "at requests that write"
COMMITS = "at a commit, and at the request after it"
# Times as many faults, at a write that races and while a process stages a write, and at a commit,
# which is both, three times three: most of what goes wrong there is worse than elsewhere.
RACES_MEET = 3


@dataclass
class Faults:
    """Faults of one story: each request meets one with this chance."""

    scheduler: Scheduler
    share: float = 0.0
    kinds: tuple[str, ...] = ()
    is_on: bool = True
    until: float = inf  # seconds since 1970, by the store's clock
    where: str = ""  # where alone requests meet them: one of the three; "": anywhere
    struck: Process | None = None  # whose requests alone meet them; None: everybody's
    met: "Counter[str]" = field(default_factory=Counter)
    _listed: dict[str, Any] = field(default_factory=dict)
    losable: tuple[Machine, ...] = ()  # machines that may be lost

    def meet(self, kind: str, key: str, effect: Callable[[], T]) -> T:
        """Do a request, with the fault that it meets."""
        if not self.is_on or self.scheduler.now >= self.until:
            return effect()
        if self.scheduler.now < self.scheduler.process.machine.away_until:
            self.scheduler.process.met.add(AWAY)
            raise of.GenericError(f"{key}: connect error")
        fault = self._drawn(kind, key)
        if not self._can_strike(fault, kind):
            return effect()
        if fault == OLD:
            return self._old_listing(key, effect)
        if fault in ERROR_NUMBERS:
            return self._with_failing_disk(fault, effect())
        self._count(fault)
        if fault in (SLOW, PAUSED, CLOCK, KILLED, MACHINE_LOST):
            self._strike_process(fault)
            return effect()
        if fault == MEETS:
            raise of.GenericError(
                f"{key}: status code: 409 <Code>ConditionalRequestConflict</Code>"
            )
        if fault == BUSY:
            raise of.GenericError(f"{key}: status code: 503")
        return self._done_with(fault, kind, key, effect)

    def _can_strike(self, fault: str, kind: str) -> bool:
        """Whether a fault has an effect at a request of this kind; of a disk, the request tells."""
        if fault == MACHINE_LOST:
            return self.scheduler.process.machine in self.losable
        if fault == MEETS:
            return kind.startswith("write")
        if fault == OLD:
            return kind == "list"
        if fault in ERROR_NUMBERS:
            return kind == "read"
        return fault != NEVER

    def _count(self, fault: str) -> None:
        self.met[fault] += 1
        self.scheduler.process.met.add(fault)
        self.scheduler.note(f"{self.scheduler.process.name}: {fault}")

    def _done_with(self, fault: str, kind: str, key: str, effect: Callable[[], T]) -> T:
        """Do a request whose answer is lost, or comes after it was done twice."""
        done = effect()
        if fault == AWAY:
            seconds = SECONDS_AWAY[self.scheduler.choices.draw(len(SECONDS_AWAY))]
            self.scheduler.process.machine.away_until = self.scheduler.now + seconds
        if fault in (LOST, AWAY):
            raise of.GenericError(f"{key}: operation timed out")
        return self._repeated(kind, done, effect)

    def _old_listing(self, key: str, effect: Callable[[], T]) -> T:
        """What was listed when this was last met, perhaps by another process."""
        before, now = self._listed.get(key), effect()
        self._listed[key] = now
        if before is None:
            return now
        self._count(OLD)
        found: T = before
        return found

    def _with_failing_disk(self, fault: str, done: T) -> T:
        """An answer whose bytes, where they go to a file, the disk of the machine does not take."""
        answer: Any = done
        if hasattr(answer, "stream"):
            answer.stream = partial(self._failing_blocks, fault)
        return done

    def _failing_blocks(self, fault: str, _size: int) -> Iterator[bytes]:
        self._count(fault)
        yield b""
        raise OSError(ERROR_NUMBERS[fault], os.strerror(ERROR_NUMBERS[fault]))

    def _drawn(self, kind: str, key: str) -> str:
        """The fault that a request meets, `NEVER` for none."""
        risks = is_race(f"{kind} {key}") + bool(self.scheduler.process.staged)
        share = self.share * RACES_MEET**risks if self._is_exposed(kind, key) else 0.0
        found = (NEVER, *self.kinds)[self.scheduler.choices.draw(len(self.kinds) + 1, share)]
        return NEVER if found in AT_WRITES and kind in READING else found

    def _is_exposed(self, kind: str, key: str) -> bool:
        """Whether a request of the process that runs may meet a fault."""
        running = self.scheduler.running
        assert running is not None
        if self.struck not in (None, running.process):
            return False
        if self.where == COMMITS:
            return is_commit(f"{kind} {key}") or is_commit(running.asked)
        is_staged = bool(running.process.staged)
        return {STAGED: is_staged, WRITES: kind not in READING}.get(self.where, True)

    def _strike_process(self, fault: str) -> None:
        scheduler, process = self.scheduler, self.scheduler.process
        if fault == SLOW:
            scheduler.wait(SECONDS_SLOW[scheduler.choices.draw(len(SECONDS_SLOW))])
        elif fault == PAUSED:
            seconds = SECONDS_PAUSED[scheduler.choices.draw(len(SECONDS_PAUSED))]
            process.paused_until = scheduler.now + seconds
            scheduler.wait(seconds)
        elif fault == CLOCK:
            step = CLOCK_STEPS[scheduler.choices.draw(len(CLOCK_STEPS))]
            process.machine.clock_off += step
        elif fault == KILLED:
            scheduler.kill(process)
            scheduler.wait(0.0)
        else:
            scheduler.lose(process.machine)
            scheduler.wait(0.0)

    def _repeated(self, kind: str, done: T, effect: Callable[[], T]) -> T:
        """The client asks again by itself, and meets what its first request did."""
        if kind != "write if":
            return effect()
        try:
            return effect()
        except (of.AlreadyExistsError, of.PreconditionError) as error:
            raise type(error)(f"{error} after 1 retries") from None
