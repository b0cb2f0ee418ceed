"""The port `Place`: where a lake's files lie, as names of text below it; errors by condition, and
what follows from it.

Not here: the folder that fills it (`kernel.place.folder`), and what a file means. Each docstring of
a verb begins with its atomicity. An object store can fill it: no verb needs a rename, a hard link,
or a folder that exists. Programs that take addresses (Spark, DuckDB, delta-rs) get them from `uri`
and `local`.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.core.records import MISREAD

T = TypeVar("T")
R = TypeVar("R")

LOCK_SECONDS = 3600.0  # a first load of years of data holds the load lock for minutes
LOOK_SECONDS = 1.0  # longer than whoever only asks whether a lock is held holds it
SHOWN_SECONDS = 120.0  # after so long without a sign of life the holder of a marker counts as dead
FEW = 3  # files that a store is asked about one by one
MOST_AT_ONCE = 32  # questions to a store, each of which waits 30 ms or more
LOCKS = ".locks"  # outside the tables, so that no reader sees them
RUNS = ".runs"  # markers of the runs that work on a lake (`kernel.log.run_markers`)
# A key of a store that no path can be, as its client judges it.
ODD_KEY = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f\ud800-\udfff]")


class Gone(FileNotFoundError):
    """There is no file of that name."""


class AlreadyThere(FileExistsError):
    """A file of that name is there, and was to be created."""


class Held(TransientError):
    """Another process holds the lock."""


class Changed(OSError):
    """The file is not the one that was read: somebody replaced, wrote to or deleted it."""


class Token(NamedTuple):
    """What tells one content of a name from the next: a file that is replaced or written to gets
    another. A store may give equal bytes equal tokens: whoever swaps contents that may come again
    puts something new into each.

    Tokens of one mark are equal.
    """

    mark: tuple[int | str, ...]  # of this kind of place; not to be looked into
    size: int  # bytes
    # When the content changed last, seconds since 1970; as of a write, by this machine's clock.
    changed_at: float
    version: str = ""  # what a store calls this content beside its mark; its listings do not say it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and self.mark == other.mark

    def __hash__(self) -> int:
        return hash(self.mark)


class StoreRefused(BackfillError, OSError):
    """The store does not let this process in, or there is no such bucket. A retry cannot help."""

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        return type(self), (self.object, self.culprit, self.consequence, self.fix)


class OddKeys(StoreRefused):
    """Some keys of a listing are no paths, so that the client ends it."""

    good: Mapping[str, Token] = {}  # of all other keys
    odd: tuple[str, ...] = ()  # those keys; none: nobody could list the others

    def with_listing(self, found: Mapping[str, Token], cut: int = 0) -> "OddKeys":
        """This error, which gets the keys of a whole listing, `odd` and `good` ones, each without
        its first `cut` characters."""
        odd = {key for key in found if ODD_KEY.search(key)}
        self.odd = tuple(key[cut:] for key in found if key in odd)
        self.good = {key[cut:]: token for key, token in found.items() if key not in odd}
        return self


class StoreLost(TransientError, OSError):
    """The store does not answer, or asks to come back later; whether a write happened is not
    known."""

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        return type(self), (self.object, self.culprit, self.consequence, self.fix)


class Swept(TransientError):
    """The files of this write were taken for abandoned: it commits nothing."""


class WriteHold(Protocol):
    """A marker that a process holds."""

    def __call__(self, is_deleted: bool = False) -> None:
        """Give it up; `is_deleted`: the marker is gone already."""

    def beat(self) -> None:
        """Show that the holder lives, by the place's clock; nothing where it is shown anyway.
        Raises OSError."""

    def committing(self, version: int) -> None:
        """Atomic. Say that the holder tries to commit that version of its table next. Raises
        TransientError where another process took the marker for abandoned meanwhile: then the
        holder commits nothing."""


@dataclass(frozen=True)
class LockedMarker:
    """A marker that the kernel holds for this process, as an open file."""

    descriptor: int

    def __call__(self, is_deleted: bool = False) -> None:
        """Give it up. Not idempotent."""
        os.close(self.descriptor)

    def beat(self) -> None:
        """As the port says."""
        # To the time of whoever keeps the file, which may be another machine.
        os.utime(self.descriptor)

    def committing(self, version: int) -> None:
        """Nothing: the kernel knows whether this process lives."""


class Place(Protocol):
    """A lake's folder, or one below it. Equal places are equal values. What fills it inherits it,
    and with it the verbs that follow from others.

    A name is relative, with `/` between its parts; or the whole address of an object in a bucket,
    which `at`, `token`, `open`, `uri` and `local` take, too, and find where it lies: what others
    wrote is named so. Every verb may raise OSError where the place does not answer; one that is
    given a name of no file raises `Gone`, unless it says otherwise.
    """

    def __hash__(self) -> int:
        """Equal places have equal addresses."""
        return hash(self.uri())

    @property
    def name(self) -> str:
        """The last part of the place's own name, e.g. of a table."""

    @property
    def is_store(self) -> bool:
        """Whether files are objects: nobody can write into one, so that naming it keeps its content
        until it goes."""

    @property
    def client(self) -> object:
        """What this process asks a store by, to be compared: another object once the store denied
        its credentials. None of a folder."""
        return None

    @property
    def may_be_of_others(self) -> bool:
        """Whether others may have made what lies here: of a folder, which a link can stand for, its
        files alone tell; in a store a lake names the address."""
        return True

    def at(self, name: str) -> Self:
        """The place below this one; it need not exist."""

    def names(self, folder: str = "") -> list[str]:
        """Not atomic: what comes or goes meanwhile may be among them or not. The names of files and
        folders directly in a folder, in no order; empty if there is no such folder."""

    def below(self, folder: str = "") -> list[str]:
        """Not atomic, as `names`. The files at any depth below a folder, ascending, named from this
        place."""

    def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
        """Not atomic, as `names`. The tokens of the files at any depth below a folder, by their
        names from this place; only of names behind `after`, if it is given."""

    def token(self, name: str) -> Token | None:
        """Atomic. The token of a file; None if it is gone."""

    def open(self, name: str, *, at_end: bool = False, at_hand: bool = False) -> BufferedReader:
        """Not atomic: only a file that is never written to in its place reads as one content. A
        file to read and seek in. `at_end`: its last bytes are read first, mostly alone, so that a
        store sends no others unasked. `at_hand`: where this machine has a copy of an object, which
        is never replaced, that is read, and says nothing of what the store has."""

    def write(
        self,
        name: str,
        content: bytes,
        *,
        if_absent: bool = False,
        if_unchanged: Token | None = None,
        is_private: bool = False,
    ) -> Token:
        """Atomic: readers see the content before or this one, whole. Returns its token.
        `is_private`: only the owner of the lake reads it.

        With a condition it is also safe against a power cut when this returns, and of many that try
        at once one does it: `if_absent` raises AlreadyThere if there is a file; `if_unchanged`
        raises Changed if its token is another.
        """

    def put(self, name: str, finished: Path, *, is_synced: bool = True) -> None:
        """Atomic, and safe against a power cut when this returns; unless `is_synced`, once
        `sync_new` names the file. Make a finished file below a folder that is `prepared` the
        content of a name; the file is gone afterwards."""

    def link(self, name: str, source: "Place", source_name: str) -> None:
        """Not atomic: the content may be copied. Give the content of a file, which is never written
        to, a further name, which keeps it when the other goes."""

    def copy(self, name: str, source: "Place", source_name: str) -> None:
        """Atomic. Write the content of a file of any place to a name, in bytes of its own: what a
        program writes into one of them does not reach the other. Raises Gone."""

    def point(self, name: str, theirs: Path) -> None:
        """Atomic. Let a file, or the files of a folder, elsewhere, which others write, be read by a
        name, unless it is taken."""

    def delete(self, name: str) -> None:
        """Atomic. Delete a file; harmless if it is gone."""

    def delete_all(self, names: Collection[str]) -> None:
        """Not atomic: stopped halfway, some files are left. As `delete`, of many files: of a store
        a thousand by each request."""
        for name in names:
            self.delete(name)

    def delete_below(self, folder: str) -> None:
        """Not atomic: stopped halfway, some files are left. Delete a folder with all its files;
        leaves what it may not delete."""

    def prune(self, folder: str) -> None:
        """Not atomic. Delete a folder if it is empty, and those above it, below this place, that
        are empty then."""

    def sync(self, *names: str) -> None:
        """Not atomic. What an engine wrote to these files, and the names in these folders, outlast
        a power cut when this returns."""

    def sync_new(self, names: Collection[str]) -> None:
        """Not atomic. As `sync`, with every folder from this place on that lists the files."""

    def lock(
        self, name: str, what: str, seconds: float = LOCK_SECONDS
    ) -> AbstractContextManager[None]:
        """Atomic: one holder at a time; it ends when its process dies. Waits for so many seconds
        (`math.inf`: without an end), then raises Held, naming `what`. It spares waiting and
        repeating: what is committed is safe without it."""

    def hold(self, name: str) -> WriteHold:
        """Atomic. Create a marker that this process holds until it gives it up, or dies."""

    def abandoned(self, folder: str, is_past: Callable[[str, int], bool]) -> Iterator[str]:
        """Atomic for each: the names in a folder of the markers that nobody holds. `is_past` says
        of a marker's name whether its table has the version that its holder tried last, so that the
        holder can no longer commit it. Where only time tells that nobody holds it, its holder never
        commits again; else each is held while the caller handles it."""

    def held(self, names: Iterable[str]) -> frozenset[str]:
        """Not atomic. Those of the markers of which whoever holds one, or writes it again and
        again, has shown itself for `SHOWN_SECONDS` by the place's clock, and is not known to be
        dead by the kernel of this process. Asks once for the place's time by writing; raises
        OSError where this process may not."""

    def refuse_link(self, folder: str) -> None:
        """Not atomic. Raise BackfillError if a folder leads out of this place by a symbolic
        link."""

    def file_fault(self, name: str) -> str:
        """Not atomic. Why a name leads to no regular file below this place unless a link is
        followed, as a part of a sentence about the file; "" if it does, or the file is gone."""

    def refuse_loss(self, error: Exception, expected: str = "") -> None:
        """Not atomic. Raise this place's own error where one of a program that reads files by `uri`
        says that the place did not answer, or that it lists no file `expected`, which is there:
        StoreRefused if a retry cannot help, else TransientError."""

    def keeping_copies(self, machine: str) -> Self:
        """The same place, whose copies of files on this machine lie in that folder; itself where it
        makes none."""

    @property
    def patience(self) -> float:
        """Seconds after which a lock is free whose holder died before, or that somebody only looked
        at."""
        return LOOK_SECONDS

    def clear_locks(self) -> None:
        """Not atomic. Delete the locks whose processes died, where the place does not free them
        itself; one whose holder shows itself meanwhile stays."""

    def uri(self, name: str = "") -> str:
        """The address of a file or folder that every engine takes."""

    def local(self, name: str = "") -> Path:
        """The path of a file or folder for programs of this machine that take no other address."""

    def prepared(self, folder: str) -> Path:
        """Atomic. As `local`, of a folder that exists, for an engine that fills it."""

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return self.token(name) is not None

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if it is gone. Raises OSError if the place does not say."""
        token = self.token(name)
        return None if token is None else token.size

    def sizes(self, names: Sequence[str]) -> dict[str, int | None]:
        """Bytes of files, as `size` gives them; of many in a store by one listing of what they have
        in common."""
        folder = os.path.commonprefix(names).rpartition("/")[0]  # noqa: RUF071  # an address keeps both its slashes
        if len(names) <= FEW or not self.at(folder).is_store:
            return {name: self.size(name) for name in names}
        below = {name: name.removeprefix(f"{folder}/") for name in names}
        # Without its last sign it lets the first name in; a log, which sorts before, is left out.
        tokens = self.at(folder).tokens(after=min(below.values())[:-1])
        return {name: token.size if (token := tokens.get(below[name])) else None for name in names}

    def read(self, name: str) -> bytes:
        """The bytes of a small file; raises Gone."""
        with self.open(name) as opened:
            return opened.read()

    def lines(self, name: str) -> Iterator[bytes]:
        """Lines of a file, one at a time: a commit of 3,650 days has 40 MiB. Raises Gone."""
        with self.open(name) as opened:
            yield from opened

    def ends(self, name: str, count: int) -> tuple[bytes, bytes]:
        """First and last `count` bytes of a file; raises Gone."""
        with self.open(name) as opened:
            head = opened.read(count)
            opened.seek(max(0, opened.seek(0, 2) - count))
            return head, opened.read()

    def sha256(self, name: str, *, at_hand: bool = False) -> str:
        """SHA-256 of a file's bytes, in hexadecimal, read in blocks as `open` has them; raises
        Gone."""
        with self.open(name, at_hand=at_hand) as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    def read_json(self, name: str) -> dict[str, Any]:
        """The object in a small JSON file; empty where there is no readable one. Raises what a
        store says that does not answer."""
        try:
            found = json.loads(self.read(name))
        except BackfillError:
            raise
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def read_record(self, name: str, read: Callable[[dict[str, Any]], R], fix: str) -> R:
        """What `read` makes of the object in a small JSON file, which is empty where there is no
        file. Raises BackfillError, with this `fix`, where the file holds anything else, or `read`
        raises one of `MISREAD`; what a store says that does not answer."""
        try:
            content = self.read(name)
        except Gone:
            content = b"{}"
        try:
            return read({**json.loads(content)})
        except BackfillError:
            raise
        except MISREAD:
            raise BackfillError(
                f"the file {self.uri(name)}", "it is not what was written", "It was not read", fix
            ) from None

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a small JSON file; readers see the one before or this one."""
        self.write(name, json.dumps(dict(content)).encode())


def table_lock(lake: Place, table: str) -> AbstractContextManager[None]:
    """The write lock of a table. The committer is this process, so nothing of it can still commit
    once it is dead."""
    return lake.lock(f"{LOCKS}/{table}.lock", f"the table {table}")


def load_lock(lake: Place, source: str = "") -> AbstractContextManager[None]:
    """The lock of loading a source's raw table and its ledgers, from the first read to the last
    commit."""
    if source:
        return lake.lock(f"{LOCKS}/load.{source}.lock", f"the load of the source {source}")
    return lake.lock(f"{LOCKS}/load.lock", "the load of raw")


def answers_of(place: Place, ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What `ask` gives for each of these items, in their order; of a store up to `MOST_AT_ONCE` are
    asked at once, in threads, so that `ask` must not depend on the order. Raises what `ask` raises
    for the first of them."""
    if len(items) < 2 or not place.is_store:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(items))) as pool:
        return list(pool.map(ask, items))
