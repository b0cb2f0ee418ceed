"""What of Python and of the package another thing stands for while a story is played.

Here: clocks, threads, chance, the identity of processes, the client of object stores, and commits
of delta-rs. Not here: what stands for them (`scheduler`, `store`). A program that plays stories is
a process of its own, so that nothing else ever meets these.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Self
from unittest import mock

import stamina
from deltalake.exceptions import DeltaError
from obstore.exceptions import BaseError

from backfill_assets.buckets import bucket, leases, local_copies, objects
from backfill_assets.kernel.log import log_state, run_markers
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place import schemes
from backfill_assets.kernel.place.port import StoreLost
from backfill_assets.kernel.place.processes import PlacedProcess, Process
from backfill_assets.kernel.tables import committer
from backfill_assets_tests.simulation.scheduler import Scheduler
from backfill_assets_tests.simulation.store import Store

TIMESTAMP = re.compile(rb'"timestamp":\d+')
KEPT_EVERY = 4  # commits: so often a story's tables keep a state and a checkpoint
LOOKS = 10.0  # seconds between two looks of a thread that waits for another one of its process


@dataclass(frozen=True)
class Place(bucket.Bucket):
    """A bucket whose objects engines open as files. Places of two processes are never equal, so
    that what one knows of logs is not known to the other."""

    home: str = ""
    pid: int = 0

    def uri(self, name: str = "") -> str:
        """Where delta-rs and DuckDB find it."""
        return f"{self.home}/{self.address.rpartition('/')[2]}/{self._full_name(name)}".rstrip("/")


@dataclass
class _Threads:
    """Python's `threading`, as far as leases and signs of life use it."""

    scheduler: Scheduler

    def Thread(  # the name is Python's
        self, *, target: Callable[[], object], name: str, daemon: bool
    ) -> Any:
        """A thread of the process that runs now."""
        assert daemon, name
        process = self.scheduler.process

        def start() -> None:
            self.scheduler.start_thread(process, f"{process.name}, {name}", target)

        return SimpleNamespace(start=start)

    def Event(self) -> "Event":
        """As Python's."""
        return Event(self.scheduler)


@dataclass
class Event:
    """As Python's; whoever waits sleeps by the story's clock."""

    scheduler: Scheduler
    is_come: bool = False

    def set(self) -> None:
        """It has come."""
        self.is_come = True

    def is_set(self) -> bool:
        """Whether it has come."""
        return self.is_come

    def wait(self, seconds: float) -> bool:
        """Wait for it, at most so long."""
        until = self.scheduler.now + seconds
        while not self.is_come and self.scheduler.now < until:
            self.scheduler.wait(min(LOOKS, until - self.scheduler.now))
        return self.is_come


@dataclass
class Lock:
    """As Python's."""

    scheduler: Scheduler
    is_held: bool = False

    def __enter__(self) -> Self:
        while self.is_held:
            self.scheduler.wait(0.01)
        self.is_held = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_held = False


class OneByOne:
    """Python's pool of threads, which does one thing after the other."""

    def __init__(self, _workers: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """As Python's."""
        return iter([work(item) for item in items])


def lease_class(scheduler: Scheduler) -> type[leases.Lease]:
    """The package's lease, whose lock and event are the story's."""

    @dataclass
    class StoryLease(leases.Lease):
        _seen: float = field(default_factory=lambda: scheduler.now)
        _ended: Any = field(default_factory=lambda: Event(scheduler))
        _one: Any = field(default_factory=lambda: Lock(scheduler))

    return StoryLease


@contextmanager
def standing_in(store: Store, seed: int) -> Iterator[None]:
    """Within, the package meets this story's store, processes, threads and clocks."""
    scheduler, chance = store.scheduler, Random(f"names {seed}")
    threads = _Threads(scheduler)

    def place(address: str, machine: str, folder: str = "", called: str = "") -> Place:
        pid = scheduler.process.pid if scheduler.is_within else 0
        return Place(address, machine, folder, called, str(store.folder), pid)

    def this_process() -> PlacedProcess:
        now = scheduler.process
        return PlacedProcess(now.machine.name, now.machine.name, "", now.pid, 1.0, True)

    instead: list[tuple[object, str, object]] = [
        (time, "monotonic", lambda: scheduler.now),
        (time, "sleep", scheduler.wait),
        (uuid, "uuid4", lambda: uuid.UUID(int=chance.getrandbits(128), version=4)),
        (leases, "threading", threads),
        (leases, "Lease", lease_class(scheduler)),
        (run_markers, "threading", threads),
        # Tables of a story have some ten commits, and kept states are to have a part in it.
        (log_state, "KEEP_EVERY", KEPT_EVERY),
        (committer, "CHECKPOINT_EVERY", KEPT_EVERY),
        (schemes, "_maker_of", lambda _scheme: place),
        (objects, "_obstore_module", lambda: store),
        (objects, "_opened_store", lambda *_: store),
        (bucket, "ThreadPoolExecutor", OneByOne),
        # Nobody else has these folders, and a fifth of a story's time went into looking.
        (local_copies, "_close_own_folder", lambda _folder: None),
        (PlacedProcess, "this", this_process),
        (Process, "is_alive", lambda process: scheduler.is_living(process.boot, process.pid)),
        (committer, "_create_transaction", _transaction(store, committer._create_transaction)),
    ]
    with ExitStack() as stack:
        stack.enter_context(stamina.set_testing(True, attempts=10, cap=True))
        for owner, name, other in instead:
            stack.enter_context(mock.patch.object(owner, name, other))
        yield


def _transaction(store: Store, real: Callable[..., None]) -> Callable[..., None]:
    """A commit of delta-rs as one request to the store."""

    def commit(opened: Any, write_id: str, actions: list[Any], metadata: dict[str, str]) -> None:
        key = Path(opened.table_uri.removeprefix("file://")).relative_to(store.folder)

        def done() -> None:
            real(opened, write_id, actions, metadata)
            _date_commit(store, f"{key}/{commit_name(opened.version() + 1)}")

        try:
            store.request("write if", f"{key}/{commit_name(opened.version() + 1)}", done)
        except (BaseError, StoreLost) as error:
            raise DeltaError(f"Generic S3 error: {error}") from None

    return commit


def _date_commit(store: Store, key: str) -> None:
    """Give a commit the time of the machine that made it, in place of this program's."""
    scheduler, path = store.scheduler, store.path(key)
    scheduler.process.note_object(key, is_there=True, is_new=True)
    now = scheduler.now + scheduler.process.machine.clock_off
    dated = TIMESTAMP.sub(f'"timestamp":{int(now * 1000)}'.encode(), path.read_bytes(), count=1)
    path.write_bytes(dated)
