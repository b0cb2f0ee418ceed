"""An object store that fills the port `Place` (S3, Azure, Google Cloud).

Not here: which filling a lake has (`choice`), requests (`objects`), leases and markers (`leases`),
and files on this machine (`local_copies`). An object is whole when it is seen and durable when it
is written, so nothing is synced but what engines prepare on this machine. A name that is a whole
address leads to another bucket (`kernel.place.schemes`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Self

from backfill_assets.buckets import leases
from backfill_assets.buckets.local_copies import LocalCopies
from backfill_assets.buckets.objects import Objects
from backfill_assets.buckets.store_errors import refuse_lost_request
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.lease_watch import shown_lately
from backfill_assets.kernel.place.port import LOCK_SECONDS, OddKeys, Place, Token
from backfill_assets.kernel.place.schemes import THEIRS_FOLDER, takes_addresses

AT_ONCE = 8  # files that are sent
NO_TOKEN = Token((), 0, 0.0)  # of an object that no verb reaches


@takes_addresses
@dataclass(frozen=True)
class Bucket(Place):
    """Objects below a prefix as a `Place`. Credentials, region and endpoint come from the
    environment alone.

    What engines prepare on this machine is seen by `below`, `names`, `tokens`, `token`, `open` and
    `local` of its processes before it is sent.
    """

    address: str  # of the lake: scheme, bucket and prefix
    machine: str  # the folder of this machine for what is prepared and for copies
    folder: str = ""  # below the address
    # What a table is called in a lake that adopted it; "": as the last part of its address.
    called: str = ""

    @property
    def name(self) -> str:
        """The last part of the place's address, or what a lake calls it."""
        return self.called or self.uri().rpartition("/")[2]

    @property
    def is_store(self) -> bool:
        """Whether files are objects that nobody can write into."""
        return True

    @property
    def client(self) -> object:
        """As the port says: of the bucket, shared in this process."""
        return self._bucket_objects.client

    @property
    def may_be_of_others(self) -> bool:
        """Whether a lake named its address, as of a table that it adopted."""
        return Path(self.machine).name == THEIRS_FOLDER

    def __str__(self) -> str:
        return self.uri()

    def at(self, name: str) -> Self:
        """As the port says."""
        return replace(self, folder=self._full_name(name), called="" if name else self.called)

    def _full_name(self, name: str) -> str:
        return f"{self.folder}/{name}".strip("/")

    def _object_key(self, name: str) -> str:
        prefix = self.address.partition("://")[2].partition("/")[2]
        return f"{prefix}/{self._full_name(name)}".strip("/")

    @property
    def _bucket_objects(self) -> Objects:
        scheme, _, rest = self.address.partition("://")
        return Objects(f"{scheme}://{rest.partition('/')[0]}")

    @property
    def _local_copies(self) -> LocalCopies:
        return LocalCopies(self.machine)

    def _unsent_names(self, folder: str) -> list[str]:
        """What is prepared below a folder and was not sent yet, named from this place."""
        cut = len(self.folder) + 1 if self.folder else 0
        return [name[cut:] for name in self._local_copies.waiting_below(self._full_name(folder))]

    def names(self, folder: str = "") -> list[str]:
        """As the port says: one listing."""
        cut = len(folder) + 1 if folder else 0
        waiting = {name[cut:].partition("/")[0] for name in self._unsent_names(folder)}
        return [*self._bucket_objects.names(self._object_key(folder)) | waiting]

    def below(self, folder: str = "") -> list[str]:
        """As the port says: one listing, and a request for each empty object. Hadoop's S3A leaves
        one in place of a folder that it emptied, which is listed without its "/" and not found so:
        it is none of the files."""
        found = self.tokens(folder)
        return sorted(n for n, token in found.items() if token.size or self.token(n) is not None)

    def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
        """The tokens of the files at any depth below a folder, by their names from this place; only
        of names behind `after`, if it is given. A request lists a thousand objects; files that were
        prepared here and not sent yet are added. Raises OddKeys, with all else that was listed, for
        an object whose name no path can have."""
        above = self._object_key("")
        cut = len(above) + 1 if above else 0
        try:
            found = self._bucket_objects.tokens(
                self._object_key(folder), self._object_key(after) if after else ""
            )
        except OddKeys as error:
            raise error.with_listing(
                {**error.good, **dict.fromkeys(error.odd, NO_TOKEN)}, cut
            ) from None
        tokens = {key[cut:]: token for key, token in found.items()}
        for name in self._unsent_names(folder):
            if name > after and (token := self.token(name)):
                tokens[name] = token
        return tokens

    def token(self, name: str) -> Token | None:
        """As the port says: the ETag of the object."""
        if waiting := self._local_copies.waiting(self._full_name(name)):
            return Token((waiting.st_ino, waiting.st_mtime_ns), waiting.st_size, waiting.st_mtime)
        return self._bucket_objects.token(self._object_key(name))

    def open(self, name: str, *, at_end: bool = False, at_hand: bool = False) -> BufferedReader:
        """As the port says, and always of one content."""
        below, key = self._full_name(name), self._object_key(name)
        if self._local_copies.waiting(below):
            return self._local_copies.prepared(below).open("rb")
        if at_hand and (copy := self._local_copies.found(below)) is not None:
            return copy.open("rb")
        return self._bucket_objects.open_at_end(key) if at_end else self._bucket_objects.open(key)

    def write(
        self,
        name: str,
        content: bytes,
        *,
        if_absent: bool = False,
        if_unchanged: Token | None = None,
        is_private: bool = False,
    ) -> Token:
        """As the port says, also if the answer is lost. Who may read an object is the bucket's own
        matter."""
        return self._bucket_objects.write(self._object_key(name), content, if_absent, if_unchanged)

    def put(self, name: str, finished: Path, *, is_synced: bool = True) -> None:
        """As the port says; its bytes stay on this machine as the copy that `local` gives."""
        self._bucket_objects.send(self._object_key(name), finished)
        self._local_copies.take(self._full_name(name), finished)

    def link(self, name: str, source: Place, source_name: str) -> None:
        """As the port says: a copy, within the store where both lie in it."""
        self.copy(name, source, source_name)

    def copy(self, name: str, source: Place, source_name: str) -> None:
        """As the port says: within the store where both lie in it."""
        above, _, source_name = source_name.rpartition("/")
        source = source.at(above)
        if isinstance(source, Bucket) and self._shares_store(source, source_name):
            self._bucket_objects.copy(self._object_key(name), source._object_key(source_name))
            return
        with source.open(source_name) as opened:
            self._bucket_objects.send(self._object_key(name), opened)

    def _shares_store(self, source: "Bucket", name: str) -> bool:
        """Whether a name of another place is an object of this one's bucket already."""
        return source._bucket_objects == self._bucket_objects and not source._is_unsent(name)

    def _is_unsent(self, name: str) -> bool:
        return self._local_copies.waiting(self._full_name(name)) is not None

    def point(self, name: str, theirs: Path) -> None:
        """A file is copied. A folder is refused by BackfillError: no object stands for files that
        lie elsewhere."""
        if theirs.is_dir():
            raise BackfillError(
                f"the lake {self.address}",
                f"{theirs} is a folder, to which a bucket cannot point",
                "Nothing was written",
                "Keep a lake with tables of others in a folder",
            )
        self._bucket_objects.send(self._object_key(name), theirs)

    def delete(self, name: str) -> None:
        """As the port says."""
        self.delete_all([name])

    def delete_all(self, names: Collection[str]) -> None:
        """Delete files: those that were prepared here and not sent yet from this machine, others
        from the store, a thousand by each request. Stopped halfway, some are left."""
        sent = [n for n in names if not self._local_copies.forget(self._full_name(n))]
        self._bucket_objects.delete([self._object_key(name) for name in sent])

    def delete_below(self, folder: str) -> None:
        """As the port says."""
        self._local_copies.forget_below(self._full_name(folder))
        self._bucket_objects.delete([*self._bucket_objects.tokens(self._object_key(folder))])

    def prune(self, folder: str) -> None:
        """As the port says: a store has no folders, this machine has."""
        self._local_copies.prune(self._full_name(folder))

    def sync(self, *names: str) -> None:
        """As the port says: sends the files that were prepared."""
        self.sync_new(names)

    def sync_new(self, names: Collection[str]) -> None:
        """As the port says: sends the files that were prepared, several at once."""
        waiting = [name for name in names if self._is_unsent(name)]
        if not waiting:
            return
        with ThreadPoolExecutor(min(AT_ONCE, len(waiting))) as pool:
            for _ in pool.map(self._send_prepared, waiting):
                pass

    def _send_prepared(self, name: str) -> None:
        self._bucket_objects.send(
            self._object_key(name), self._local_copies.prepared(self._full_name(name))
        )
        self._local_copies.sent(self._full_name(name))

    def lock(
        self, name: str, what: str, seconds: float = LOCK_SECONDS
    ) -> AbstractContextManager[None]:
        """As the port says: a lease, which ends half a minute after its process."""
        return leases.held_lease(self, name, what, seconds)

    def hold(self, name: str) -> leases.Lease:
        """As the port says: a lease."""
        return leases.hold_marker(self, name)

    def abandoned(self, folder: str, is_past: Callable[[str, int], bool]) -> Iterator[str]:
        """As the port says."""
        return leases.abandoned_markers(self, folder, is_past)

    def held(self, names: Iterable[str]) -> frozenset[str]:
        """As the port says."""
        return shown_lately(self, names)

    def refuse_link(self, folder: str) -> None:
        """As the port says: a store has no links."""

    def file_fault(self, name: str) -> str:
        """As the port says: a store has no links, and objects alone."""
        return ""

    def refuse_loss(self, error: Exception, expected: str = "") -> None:
        """As the port says."""
        refuse_lost_request(self, error, expected)

    def keeping_copies(self, machine: str) -> Self:
        """As the port says."""
        return replace(self, machine=machine)

    @property
    def patience(self) -> float:
        """As the port says: until the lease of a dead process is over."""
        return super().patience + leases.seconds_of_the_dead()

    def clear_locks(self) -> None:
        """As the port says."""
        leases.clear_dead_locks(self)

    def uri(self, name: str = "") -> str:
        """As the port says."""
        return f"{self.address}/{self._full_name(name)}".rstrip("/")

    def local(self, name: str = "") -> Path:
        """As the port says: what is prepared, else a copy, which is fetched once. Not for a name
        that is replaced."""
        below = self._full_name(name)
        if not below:
            return self._local_copies.prepared("")
        if (found := self._local_copies.found(below)) is not None:
            return found
        size, blocks = self._bucket_objects.fetch(self._object_key(name))
        return self._local_copies.receive(below, blocks, size)

    def prepared(self, folder: str) -> Path:
        """As the port says: a folder of this machine; its files are sent by `sync` and
        `sync_new`."""
        return self._local_copies.made(self._local_copies.prepared(self._full_name(folder)))
