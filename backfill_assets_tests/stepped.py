"""A store in memory whose every request stops, so that a test decides what happens next: it is
done, its answer is lost, it is refused, it comes late and nobody hears of it, or its process dies.
Here: objects with a clock, a place of them for one actor, and the actor. Not here: what actors
do."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader, BytesIO
from typing import Any, Self, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from backfill_assets.buckets import leases
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.port import AlreadyThere, Changed, Gone, Place, StoreLost, Token

T = TypeVar("T")
GO, LOSE, REFUSE, DELAY, DIE, BEAT = "go", "lose the answer", "refuse", "delay", "die", "beat"


@dataclass
class Store:
    """Objects by name with the time of their last write, by a clock that the test moves."""

    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    now: float = 1_000_000.0
    watch: Callable[[str, bytes | None], None] = lambda *_: (
        None
    )  # is told of each write and delete, before it
    late: list[Callable[[], object]] = field(
        default_factory=list
    )  # requests that were sent and have not come yet
    is_arriving: bool = False  # one of them comes

    def arrive(self) -> None:
        """Let the request come that was sent first of those that are late; nobody hears its
        answer."""
        self.is_arriving = True
        with suppress(OSError, IndexError):
            self.late.pop(0)()
        self.is_arriving = False


@dataclass
class Actor:
    """A process: it stops before each request, and goes on as it is told."""

    work: Callable[["SteppedPlace"], None]
    store: Store
    lease: leases.Lease | None = None  # which it renews when told to
    ended: str = ""  # how: "" as long as it runs
    asks: str = ""  # the request before which it stops
    _runs: Any = None

    def step(self, what: str) -> None:
        """Let it do its next request so, and stop before the one after it."""
        if self._runs is None:
            self._runs = greenlet(self._run)
        if not self.ended:
            self._runs.throw(GreenletExit) if what == DIE else self._runs.switch(what)
            self.ended = self.ended or ("died" if what == DIE else "")

    def run_to(self, asked: str) -> None:
        """Let it go on until it is about to make such a request (a pattern), or ends."""
        self.step(GO)
        while not self.ended and not re.match(asked, self.asks):
            self.step(GO)

    def _run(self, _first: str) -> None:
        try:
            self.work(SteppedPlace(self))  # type: ignore[abstract]  # the other verbs are not used
            self.ended = "done"
        except (BackfillError, OSError) as error:
            self.ended = type(error).__name__

    def request(self, asks: str, effect: Callable[[], T]) -> T:
        """Stop, then do the request as the test says; its processes' other thread may renew the
        lease first."""
        self.asks = asks
        while (what := getcurrent().parent.switch()) == BEAT:
            if self.lease is not None and not self.lease.is_lost:
                lease, self.lease = self.lease, None
                with suppress(OSError):
                    lease.renew()
                self.lease = lease
        if what == REFUSE:
            raise StoreLost("a request", "it is refused", "Nothing was done", "Try again")
        if what == DELAY:
            self.store.late.append(effect)
            raise StoreLost("a request", "it is late", "It may be done", "Try again")
        done = effect()
        if what == LOSE:
            raise StoreLost("a request", "its answer is lost", "It may be done", "Try again")
        return done


@dataclass(frozen=True)
class SteppedPlace(Place):
    """The verbs of a place that staging, sweeping and leases use, for one actor."""

    actor: Actor = field(compare=False)
    folder: str = ""

    @property
    def name(self) -> str:
        return self.folder.rpartition("/")[2]

    @property
    def is_store(self) -> bool:
        return True

    def at(self, name: str) -> Self:
        return type(self)(self.actor, self._key(name))

    def _key(self, name: str) -> str:
        return f"{self.folder}/{name}".strip("/")

    @property
    def _objects(self) -> dict[str, tuple[bytes, float]]:
        return self.actor.store.objects

    def _below(self, folder: str) -> list[str]:
        return sorted(name for name in self._objects if name.startswith(f"{self._key(folder)}/"))

    def names(self, folder: str = "") -> list[str]:
        cut = len(self._key(folder)) + 1
        return self.actor.request(
            f"list {folder}",
            lambda: [*{name[cut:].partition("/")[0] for name in self._below(folder)}],
        )

    def below(self, folder: str = "") -> list[str]:
        cut = len(self.folder) + 1 if self.folder else 0
        return self.actor.request(
            f"list {folder}", lambda: [name[cut:] for name in self._below(folder)]
        )

    def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
        cut = len(self.folder) + 1 if self.folder else 0

        def listed() -> dict[str, Token]:
            found = {name[cut:]: self._token(name[cut:]) for name in self._below(folder)}
            return {
                name: token for name, token in found.items() if token is not None and name > after
            }

        return self.actor.request(f"list {folder}", listed)

    def token(self, name: str) -> Token | None:
        return self.actor.request(f"look at {name}", lambda: self._token(name))

    def _token(self, name: str) -> Token | None:
        content, at = self._objects.get(self._key(name), (None, 0.0))
        if content is None:
            return None
        return Token((hashlib.md5(content).hexdigest(),), len(content), at)  # noqa: S324

    def open(self, name: str, **how: bool) -> BufferedReader:
        def read() -> BufferedReader:
            if self._key(name) not in self._objects:
                raise Gone(name)
            return BytesIO(self._objects[self._key(name)][0])  # type: ignore[return-value]

        return self.actor.request(f"read {name}", read)

    def write(
        self,
        name: str,
        content: bytes,
        *,
        if_absent: bool = False,
        if_unchanged: Token | None = None,
        is_private: bool = False,
    ) -> Token:
        def put() -> Token:
            seen, store = self._token(name), self.actor.store
            if if_absent and seen is not None:
                raise AlreadyThere(name)
            if if_unchanged is not None and seen != if_unchanged:
                raise Changed(name)
            store.watch(self._key(name), content)
            store.objects[self._key(name)] = content, store.now
            return self._token(name)  # type: ignore[return-value]

        return self.actor.request(f"write {name}", put)

    def delete(self, name: str) -> None:
        self.actor.request(f"delete {name}", lambda: self._delete(self._key(name)))

    def _delete(self, key: str) -> None:
        self.actor.store.watch(key, None)
        self._objects.pop(key, None)

    def delete_below(self, folder: str) -> None:
        for name in self.actor.request(f"list {folder}", lambda: self._below(folder)):
            self.actor.request(f"delete {name}", partial(self._delete, name))

    def refuse_link(self, folder: str) -> None:
        pass

    def file_fault(self, name: str) -> str:
        return ""

    def abandoned(self, folder: str, is_past: Callable[[str, int], bool]) -> Iterator[str]:
        return leases.abandoned_markers(self, folder, is_past)
