"""Machines, their processes and the threads of these, of which exactly one runs at a time.

Here: who goes on at each stop, the clock, deaths and pauses. Not here: what a request does
(`store`), which faults there are (`faults`), and who stands in for threads and clocks of Python
(`replaced`). A thread is a greenlet, which leaves only where it says so: before a request, and
where it waits.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from backfill_assets.kernel.core.clock import SECONDS
from backfill_assets_tests.simulation.choices import Choices

BEGAN = 1_900_000_000.0  # seconds since 1970, by the store's clock
REQUEST_SECONDS = 0.02  # of one request
FIRST_PID = 5_000_000  # above every number that a system gives
MOST_STOPS = 60_000  # of a story: more mean that it does not end
RACING = 0.3  # share of writes that race before which others go on, at least
# Moments of a process at which another one, which waits for that, begins.
COMPUTES, COMMITTED = "as another computes", "as another has committed"
TELLS, ENDED = "as another tells readers", "as another has ended"
SECONDS_HELD = (0.0, 3.0, 9.0, 30.0)  # of who is at such a moment: the last are a whole command
HELD = 0.9  # share of those moments at which it does not go on at once
SECONDS_AWAITED = 900.0  # then whoever waits for a moment begins without


def is_race(asks: str) -> bool:
    """Whether a request is a write which others may come before: under a condition, but of a lock,
    which only spares waiting; or of the lake's log."""
    is_lock = "/.locks/" in asks or asks.endswith(".lock")  # of a lake, or of an export
    return tells_readers(asks) or (asks.startswith("write if") and not is_lock)


def is_commit(asks: str) -> bool:
    """Whether a request is the commit of a table."""
    return asks.startswith("write if") and "/_delta_log/" in asks


def tells_readers(asks: str) -> bool:
    """Whether a request is a write of the lake's log."""
    return asks.startswith("write") and "/.versions/" in asks


class Endless(AssertionError):
    """A story took more requests than any that ends."""


@dataclass(eq=False)
class Machine:
    """A host with a clock of its own."""

    name: str
    clock_off: float = 0.0  # seconds
    away_until: float = 0.0  # by the store's clock: until then no request of it is answered


@dataclass(eq=False)
class Process:
    """A process of a machine; nothing of it goes on once it is dead, or until it is `paused`.
    `watches`: its requests take no time, meet no fault and let nobody else go on."""

    pid: int
    machine: Machine
    name: str
    is_alive: bool = True
    paused_until: float = 0.0
    requests: int = 0  # without those of locks
    watches: bool = False
    staged: set[str] = field(default_factory=set)  # the markers of its writes
    # Objects that it wrote or deleted, but signs of life, locks, and markers that it wrote.
    changes: int = 0
    met: set[str] = field(default_factory=set)  # kinds of faults

    def note_object(self, key: str, is_there: bool, is_new: bool) -> None:
        """Say that this process wrote (`is_there`) or deleted an object, one that was not there
        before (`is_new`)."""
        if "/.staging/" not in key:
            self.changes += not ("/.locks/" in key or "/.runs/" in key)
        elif is_there and is_new:
            self.staged.add(key)
        elif is_there:
            self.changes += key not in self.staged  # it takes the writer for dead
        else:
            self.staged.discard(key)
            self.changes += 1  # all that a sweep does where files were not sent yet


@dataclass(eq=False)
class Thread:
    """A thread of a process. `is_foreground`: the story goes on until it ends."""

    process: Process
    name: str
    work: Callable[[], object]
    is_foreground: bool
    wakes_at: float = 0.0
    is_over: bool = False
    was_killed: bool = False
    failure: BaseException | None = None
    asks: str = ""  # its next request
    asked: str = ""  # the one before that
    awaits: str = ""  # the moment of another process at which it begins
    times: int = 0  # how often that moment has to come
    stands: Any = None  # its greenlet

    @property
    def ended_well(self) -> bool:
        """Whether it did all that it was to do."""
        return self.is_over and not self.was_killed and self.failure is None

    @property
    def what(self) -> str:
        """The kind of command, of a name such as `plan goes on 7 on one`; "" of other names."""
        return self.name.rpartition(" on ")[0].rstrip(" 0123456789")


@dataclass
class Scheduler:
    """One story's machines. `now`: seconds since 1970, by the store's clock."""

    choices: Choices
    folder: str = ""  # of this play alone: no line names it
    switching: float = 0.1  # share of stops at which another thread goes on
    now: float = BEGAN
    processes: list[Process] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    _living: list[Thread] = field(default_factory=list)  # those that may go on
    trace: list[str] = field(default_factory=list)
    running: Thread | None = None
    last: Thread | None = None  # which ran last and is not a watcher's
    _hub: Any = field(default_factory=getcurrent)

    def start_process(
        self,
        machine: Machine,
        name: str,
        work: Callable[[], object],
        upon: str = "",
        times: int = 1,
    ) -> Process:
        """A further process, whose main thread does this work; from the moment on at which others
        were so many `times`, if it begins `upon` one."""
        process = Process(FIRST_PID + len(self.processes), machine, name)
        self.processes.append(process)
        main = self.start_thread(process, name, work, is_foreground=True)
        if upon:
            main.awaits, main.times = upon, times
            main.wakes_at += SECONDS_AWAITED
        return process

    def start_watcher(self, machine: Machine, work: Callable[[], object]) -> None:
        """A process that looks on as long as others go on, whenever it wants to."""
        process = Process(FIRST_PID + len(self.processes), machine, "watcher", watches=True)
        self.processes.append(process)
        self.start_thread(process, "watcher", work)

    def start_thread(
        self, process: Process, name: str, work: Callable[[], object], is_foreground: bool = False
    ) -> Thread:
        """A further thread of a process."""
        thread = Thread(process, name, work, is_foreground, wakes_at=self.now)
        thread.stands = greenlet(lambda: self._live(thread), self._hub)
        self.threads.append(thread)
        self._living.append(thread)
        return thread

    def _live(self, thread: Thread) -> None:
        SECONDS.set(lambda: self.now + thread.process.machine.clock_off)
        try:
            thread.work()
        except GreenletExit:
            thread.was_killed = True
        except BaseException as error:  # noqa: BLE001  # the judge says what may be raised
            thread.failure = error
        finally:
            thread.is_over = True
            if thread.is_foreground:
                self._end_process(thread)

    def _end_process(self, main: Thread) -> None:
        """A process ends with its main thread: threads behind it do not go on."""
        why = "" if main.failure is None else f": {main.failure!r}"
        self.note(f"{main.name} ended{why}")
        main.process.is_alive = False
        self._wake_awaiting(ENDED)

    def run(self) -> None:
        """Let all go on until every process has ended, or died."""
        while any(t.is_foreground and self._goes_on(t) for t in self._living):
            self._step()

    def _goes_on(self, thread: Thread) -> bool:
        return not thread.is_over and thread.process.is_alive

    def _step(self) -> None:
        living = self._living = [t for t in self._living if self._goes_on(t)]
        ready = [t for t in living if max(t.wakes_at, t.process.paused_until) <= self.now]
        if not ready:
            self.now = min(max(t.wakes_at, t.process.paused_until) for t in living)
            return
        watching = next((t for t in ready if t.process.watches), None)
        if watching is not None:
            self._switch_to(watching)
            return
        if self.last in ready:  # the plain choice: whoever ran goes on
            ready.remove(self.last)
            ready.insert(0, self.last)
        races = self.last is not None and is_race(self.last.asks)
        share = max(self.switching, RACING) if races else self.switching
        self.last = ready[self.choices.draw(len(ready), share)]
        self._switch_to(self.last)

    def _switch_to(self, thread: Thread) -> None:
        self.running = thread
        thread.stands.switch()

    @property
    def is_within(self) -> bool:
        """Whether a thread of the story runs now."""
        return self.running is not None and getcurrent() is self.running.stands

    @property
    def process(self) -> Process:
        """The process that runs now."""
        assert self.running is not None
        return self.running.process

    @property
    def local_now(self) -> float:
        """The time by the clock of the machine that runs now."""
        machine = self.running.process.machine if self.running is not None else None
        return self.now + (machine.clock_off if machine is not None else 0.0)

    def stop(self, asks: str) -> None:
        """Let others go on before a request of the running thread, if chance wants that."""
        self._refuse_dead()
        process = self.process
        process.requests += "/.locks/" not in asks  # who waits asks again and again
        self.now += REQUEST_SECONDS
        self.note(f"{process.name}: {asks}")
        if len(self.trace) > MOST_STOPS:
            raise Endless(asks)
        assert self.running is not None
        self.running.asked, self.running.asks = self.running.asks, asks
        if is_commit(self.running.asked):
            self.reach(COMMITTED)
        if tells_readers(asks):
            self.reach(TELLS)
        self._hub.switch()
        self._refuse_dead()

    def wait(self, seconds: float) -> None:
        """Let the running thread sleep."""
        self._refuse_dead()
        assert self.running is not None
        self.running.wakes_at = self.now + seconds
        self._hub.switch()
        self._refuse_dead()

    def reach(self, moment: str) -> None:
        """Say at which moment the running process is: whoever awaits that begins, and it goes on
        some time later."""
        if self._wake_awaiting(moment):
            self.wait(SECONDS_HELD[self.choices.draw(len(SECONDS_HELD), HELD)])

    def _wake_awaiting(self, moment: str) -> bool:
        """Let those begin for whom such a moment has come often enough; whether there are any."""
        awaiting = [t for t in self._living if t.awaits == moment and t.process.is_alive]
        for thread in awaiting:
            thread.times -= 1
        woken = [thread for thread in awaiting if not thread.times]
        for thread in woken:
            thread.awaits, thread.wakes_at = "", self.now
        return bool(woken)

    def _refuse_dead(self) -> None:
        if not self.process.is_alive:
            raise GreenletExit

    def kill(self, process: Process) -> None:
        """A process dies at once: nothing of it is done any more, not even tidying."""
        process.is_alive = False
        self.note(f"{process.name} is killed")
        self._wake_awaiting(ENDED)

    def lose(self, machine: Machine) -> None:
        """A machine stops for ever."""
        self.note(f"the machine {machine.name} is lost")
        for process in self.processes:
            if process.machine is machine and process.is_alive:
                process.is_alive = False
                self._wake_awaiting(ENDED)

    def is_living(self, host: str, pid: int) -> bool:
        """Whether a machine's kernel knows such a process."""
        return any(p.is_alive and p.pid == pid and p.machine.name == host for p in self.processes)

    def note(self, line: str) -> None:
        """A line of the story."""
        told = line.replace(self.folder, "") if self.folder else line
        self.trace.append(f"{self.now - BEGAN:10.2f} {told}")

    def digest(self) -> str:
        """What tells one story from another."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def close(self) -> None:
        """Forget who still stands somewhere: tidying of theirs reaches nothing."""
        for process in self.processes:
            process.is_alive = False
        for thread in self.threads:
            if not thread.is_over:
                self.running = thread
                thread.stands.throw(GreenletExit)
        self.running = None
