"""Leases: locks and markers of a place that no kernel frees, as files that their holders write
again and again.

Not here: where the files lie (`bucket`), and what a lock protects. Whoever dies stops writing, and
after `seconds` by the store's clock the lease is another's. A lease may be lost at any moment, so a
lock only spares waiting. A marker of a write is safe: `staged` becomes `committing` by its writer
or `dead` by a sweeper, each only if the file is the one that was read, and a write that is dead
commits nothing.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from backfill_assets.kernel.place.lease_watch import LeaseWatch
from backfill_assets.kernel.place.port import (
    LOCKS,
    AlreadyThere,
    Changed,
    Held,
    Place,
    Swept,
    Token,
)

# So long the files of a process that was killed are not swept.
WRITE_LEASE_SECONDS = LeaseWatch.SHOWN_SECONDS
LOCK_LEASE_SECONDS = 30.0  # so long others wait for the lock of a process that was killed
FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.1, 1.0  # of a waiter, between two looks
MOST_OWNER_CHARS = 400  # a process's number, and a host's name
MOST_VERSION = 10**20 - 1  # that the name of a commit has room for
# States of a marker. A lock is STAGED as long as it is there, and nobody reads that of it.
STAGED, COMMITTING, DEAD = "staged", "committing", "dead"


@dataclass
class Lease:
    """A file that this process holds: from `start` on a thread writes it again at each third of
    its time. One that was not started is another's after `seconds`."""

    place: Place
    name: str
    seconds: float
    token: Token
    body: dict[str, Any]
    is_lost: bool = False
    # nonces of writes of which nobody knows whether they were done; no set, since what a damaged
    # file has in place of one may have no hash
    _tried: list[str] = field(default_factory=list)
    # the last time that the file was surely ours
    _seen: float = field(default_factory=time.monotonic)
    _ended: threading.Event = field(default_factory=threading.Event)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin to renew it in a thread, until it is given up or lost."""
        threading.Thread(
            target=self._renew_often, name=f"lease of {self.name}", daemon=True
        ).start()

    def _renew_often(self) -> None:
        while not self._ended.wait(self.seconds / 3):
            # A store that does not answer now may do so at the next turn.
            with suppress(OSError), self._one:
                if self._ended.is_set() or not self.renew():
                    return

    def renew(self, **news: object) -> bool:
        """Write it again, with `news` in its body. Returns whether it is still ours; raises
        OSError."""
        began, body = time.monotonic(), {**self.body, **news, "nonce": uuid.uuid4().hex}
        self._tried.append(body["nonce"])
        try:
            self.token = self.place.write(self.name, _lease_bytes(body), if_unchanged=self.token)
        except Changed:
            if self._is_own():
                return self.renew(**news)
            self.is_lost = True
            return False
        self.body, self._seen, self._tried = body, began, []
        return True

    def _is_own(self) -> bool:
        """Whether an earlier write of this lease, whose answer was lost, made the file that is
        there."""
        token, body = self.place.token(self.name), self.place.read_json(self.name)
        if token is None or body.get("nonce") not in self._tried:
            return False
        self.token, self.body = token, body
        self._tried.remove(body["nonce"])
        return True

    def release(self) -> None:
        """Give the lock up. A lease that may be another's by now is left to end by itself."""
        self._ended.set()
        with self._one, suppress(OSError):
            if not self.is_lost and time.monotonic() - self._seen < self.seconds / 2:
                self.place.delete(self.name)

    def beat(self) -> None:
        """Nothing: a thread of its own writes the file again."""

    def committing(self, version: int) -> None:
        """Say that this writer tries to commit that version next. Raises Swept where the lease was
        given up or lost: then it commits nothing."""
        with self._one:
            is_over = self._ended.is_set() or self.is_lost
            if not is_over and self.renew(state=COMMITTING, version=version):
                return
            self.is_lost = True
            raise Swept(
                f"the write {self.name.rpartition('/')[2]}",
                f"it had not shown itself for {self.seconds:.0f} s, so another process took it for "
                "dead and removed its files",
                "Nothing was written",
                "Run again",
            )

    def __call__(self, is_deleted: bool = False) -> None:
        """Give the marker up: stop to renew it, and let it be over at once for whoever sweeps;
        `is_deleted`: it is gone already. A lost one is left alone."""
        self._ended.set()
        with self._one, suppress(OSError):
            if not self.is_lost and not is_deleted:
                self.renew(seconds=0)


def seconds_of_the_dead() -> float:
    """Seconds after which the lock of a process that died before is somebody else's."""
    return LOCK_LEASE_SECONDS + LeaseWatch.SLACK_SECONDS + 2 * MOST_PAUSE_SECONDS


@contextmanager
def held_lease(place: Place, name: str, what: str, seconds: float) -> Iterator[None]:
    """Hold a lock within the block. Waits for it for so many seconds, then raises Held, naming
    `what`; a lock whose holder has not shown itself for `LOCK_LEASE_SECONDS` is taken over."""
    held = _acquired_lease(place, name, what, seconds)
    held.start()
    try:
        yield
    finally:
        held.release()


def _acquired_lease(place: Place, name: str, what: str, seconds: float) -> Lease:
    until, pause, watch = time.monotonic() + seconds, FIRST_PAUSE_SECONDS, LeaseWatch(place, name)
    while True:
        with suppress(AlreadyThere):
            return take_lease(place, name, LOCK_LEASE_SECONDS)
        while (seen := watch.look()) is not None:
            if watch.is_over():
                with suppress(Changed):
                    return take_lease(place, name, LOCK_LEASE_SECONDS, seen)
            if time.monotonic() >= until:
                raise _lock_held_error(place, name, what, seconds)
            threading.Event().wait(min(pause, max(0.0, until - time.monotonic())))
            pause = min(2 * pause, MOST_PAUSE_SECONDS)


def _lock_held_error(place: Place, name: str, what: str, seconds: float) -> Held:
    return Held(
        what,
        f"{_owner_of(place.read_json(name))} has held its lock for {seconds:.0f} s",
        "Nothing was written",
        "Look what that process does, then run again; a lock of a process that died ends by "
        "itself after "
        f"{LOCK_LEASE_SECONDS:.0f} s",
    )


def _owner_of(body: Mapping[str, Any]) -> str:
    """Who holds a lease by what its file says; nobody by name where that is no text of one line,
    as after damage."""
    owner = body.get("owner")
    if isinstance(owner, str) and owner.isprintable() and 0 < len(owner) <= MOST_OWNER_CHARS:
        return owner
    return "another process"


def hold_marker(place: Place, name: str) -> Lease:
    """Create a marker of a write and renew it until it is given up. Raises AlreadyThere."""
    held = take_lease(place, name, WRITE_LEASE_SECONDS)
    held.start()
    return held


def abandoned_markers(
    place: Place, folder: str, is_past: Callable[[str, int], bool]
) -> Iterator[str]:
    """The names in a folder of the markers whose writers have not shown themselves for their
    seconds. Each is dead before it is named, so that its writer commits nothing. One that tried a
    commit is named only where `is_past` says that the commit is there or can be no more."""
    clock = None
    for name in sorted(place.names(folder)):
        watch = LeaseWatch(place, f"{folder}/{name}", clock)
        seen = watch.look()
        if seen is None:  # its process has just ended the write
            continue
        clock, body = watch.clock, watch.body
        if body.get("state") != DEAD:
            if not watch.is_over() or not _may_be_killed(name, body, is_past):
                continue
            dead = {**body, "state": DEAD, "seconds": 0, "nonce": uuid.uuid4().hex}
            try:
                place.write(f"{folder}/{name}", _lease_bytes(dead), if_unchanged=seen)
            except Changed:  # it shows itself again, or another process sweeps it
                continue
        yield name


def _may_be_killed(name: str, body: Mapping[str, Any], is_past: Callable[[str, int], bool]) -> bool:
    """Whether a sweeper may let a write whose lease is over be dead: it is staged, or what it was
    to commit is there or can be no more (`is_past`)."""
    if body.get("state") == COMMITTING:
        version = body.get("version")
        if isinstance(version, int) and 0 <= version <= MOST_VERSION:
            return is_past(name, version)
        return False
    return body.get("state") == STAGED


def clear_dead_locks(place: Place) -> None:
    """Delete the locks of a lake whose processes died. Each is taken over first, so that one whose
    holder shows itself meanwhile stays."""
    clock = None
    locks = [name for name in place.names(LOCKS) if name.endswith(".lock")]
    for name in sorted(f"{LOCKS}/{lock}" for lock in locks):
        watch = LeaseWatch(place, name, clock)
        seen, clock = watch.look(), watch.clock
        if seen is not None and watch.is_over():
            with suppress(Changed):
                take_lease(place, name, LOCK_LEASE_SECONDS, seen).release()


def take_lease(place: Place, name: str, seconds: float, seen: Token | None = None) -> Lease:
    """Write a lease of this process, which the caller starts, and give it. Without `seen` no file
    may be there, else AlreadyThere is raised; with it the file must be the one with that token,
    else Changed is."""
    owner = f"process {os.getpid()} of {socket.gethostname()}"
    body = {"state": STAGED, "seconds": seconds, "owner": owner, "nonce": uuid.uuid4().hex}
    token = place.write(name, _lease_bytes(body), if_absent=seen is None, if_unchanged=seen)
    return Lease(place, name, seconds, token, body)


def _lease_bytes(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()
