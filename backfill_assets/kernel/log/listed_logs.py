"""What a process knows of the logs of tables in a store: the names by listings, the newest commit,
an opened table.

Not here: values that are folded from commits, and logs in a folder, which are looked at file by
file (`log_state`). A commit in a store never changes, so that each is read once; a log that took
the place of another is noticed by the token of its newest known commit.

A process that knows nothing of a log lists it from the newest kept state on (`state_files`). The
names of states are a hint: one whose commit is not there is passed over, and without any the log is
listed whole. Which commits there are, the listing decides.
"""

import hashlib
import itertools
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.view import NO_VERSION, exists_at
from backfill_assets.kernel.log.log import (
    LOG,
    Commit,
    commit_name,
    names_since,
    open_delta,
    read_commit,
    unbroken_versions,
    versions_in,
)
from backfill_assets.kernel.log.state_files import kept_versions
from backfill_assets.kernel.place.port import Gone, Place, Token

if TYPE_CHECKING:
    from deltalake import DeltaTable

KEPT_LOGS = 1024  # more than a lake has; a process that opens lake after lake does not grow


@dataclass
class _KnownLog:
    """What is known of one log."""

    names: dict[str, Token] = field(default_factory=dict)  # in the log, as of the last listing
    since: int = NO_VERSION  # the version from which on names are known; `NO_VERSION`: all are
    # The versions of kept states, if the first look at the log was the last one.
    kept: list[int] | None = None
    # The newest commit that was read, with the digest of its bytes.
    newest: tuple[Commit, str] | None = None
    opened: "DeltaTable | None" = None  # at the newest version that was opened
    readers: set[int] = field(default_factory=set)  # the threads that were given it
    # An object that no other thread has, which is moved on when it is needed.
    behind: "DeltaTable | None" = None
    head: int = NO_VERSION  # the newest version that was listed
    client: object = None  # of the place, as of the last look

    def forget_opened(self) -> None:
        """Forget objects of delta-rs, which keep the credentials that they were opened with."""
        self.opened = self.behind = None


class ListedLogs:
    """Logs of tables in stores. Threads may share them: at worst both ask the same."""

    def __init__(self) -> None:
        self._known: dict[Place, _KnownLog] = {}

    def _known_log(self, table: Place) -> _KnownLog:
        # Of a copy: other threads change it.
        while table not in self._known and len(self._known) >= KEPT_LOGS:
            self._known.pop(next(iter(self._known.copy())), None)
        known = self._known.setdefault(table, _KnownLog())
        if known.client is not table.client:
            known.forget_opened()
            known.client = table.client
        return known

    def head(self, table: Place) -> int:
        """The newest version (`NO_VERSION`: there is no table), by one listing from the newest
        known commit on."""
        known = self._known_log(table)
        if not exists_at(known.head):
            return self._first_look(table)
        known.kept = None
        found = names_since(table, known.head)
        name = _name_in_log(known.head)
        is_another_log = found.get(name) != known.names[name]
        if is_another_log:
            self._known.pop(table, None)
            return self._first_look(table)
        known.names |= found
        known.head = max(versions_in(found, 0))
        return known.head

    def _first_look(self, table: Place) -> int:
        """The newest version of a log of which nothing is known: by a listing from the newest kept
        state on whose commit is there, else by a whole one. A log that was not there before is
        listed whole."""
        known = self._known_log(table)
        was_absent = known.kept is not None
        kept = [] if was_absent else kept_versions(table)
        known.kept = kept
        for version in reversed(kept):
            found = names_since(table, version)
            if _name_in_log(version) in found:
                return _learn_names(known, found, version)
        head = _learn_names(known, names_since(table, NO_VERSION), NO_VERSION)
        if was_absent and exists_at(head):
            known.kept = None  # states may have been kept since
        return head

    def kept_versions(self, table: Place) -> list[int]:
        """The versions whose state is kept: right after the first look at the log as that saw them,
        else by a listing."""
        kept = self._known_log(table).kept
        return kept_versions(table) if kept is None else kept

    def known_head(self, table: Place) -> int:
        """The newest version that this process has listed or read; else by a listing."""
        known = self._known_log(table)
        if not exists_at(known.head):
            return self.head(table)
        if known.newest is None:
            return known.head
        return max(known.head, known.newest[0].version)

    def token(self, table: Place, version: int) -> Token | None:
        """The token of a commit: from the last listing if that has it, else asked of the place;
        None for `NO_VERSION`."""
        listed = self._known_log(table).names.get(_name_in_log(version))
        if listed is not None or not exists_at(version):
            return listed
        return table.token(commit_name(version))

    def commits(self, table: Place, after: int, last: int) -> Iterator[Commit]:
        """The commits with a version greater than `after`, up to the last one; raises as
        `log.read_commits` does."""
        if self._known_log(table).head < last:
            self.head(table)
        known = self._known_log(table)
        if after + 1 < known.since:
            _learn_names(known, names_since(table, NO_VERSION), NO_VERSION)
        for version in unbroken_versions(table, known.names, after, known.since):
            if version <= last:
                yield self.read(table, version)[0]

    def read(self, table: Place, version: int) -> tuple[Commit, str]:
        """A commit with the digest of its bytes; raises Gone."""
        known = self._known_log(table)
        if known.newest is not None and known.newest[0].version == version:
            return known.newest
        found = commit_with_digest(table, version)
        if known.newest is None or known.newest[0].version < version:
            known.newest = found
        return found

    def find_write(self, table: Place, write_id: str, after: int) -> int | None:
        """The version behind an existing one whose receipt names `write_id`, or None."""
        with suppress(Gone):
            for version in itertools.count(after + 1):
                commit, _ = self.read(table, version)
                if commit.is_of_write(write_id):
                    return version
        return None

    def opened(self, table: Place, version: int | None = None) -> "DeltaTable":
        """The table at a version (None: the newest). The newest one is kept: opening reads each
        commit twice."""
        last = self.head(table) if version is None else version
        known = self._known_log(table)
        if known.opened is not None and known.opened.version() == last:
            known.readers.add(threading.get_ident())
            return known.opened
        found = self._updated_table(table, last)
        if found is None:
            found = open_delta(table, last if exists_at(last) else None)
        if known.opened is None or known.opened.version() < last:
            known.opened, known.readers = found, {threading.get_ident()}
        return found

    def _updated_table(self, table: Place, version: int) -> "DeltaTable | None":
        """The object that lay behind (`_KnownLog.behind`), moved on to that version; None if there
        is none, or it does not get there."""
        from deltalake.exceptions import DeltaError

        known = self._known_log(table)
        behind, known.behind = known.behind, None
        if behind is None:
            return None
        with suppress(DeltaError, OSError):
            if behind.version() < version:
                behind.update_incremental()
        return behind if behind.version() == version else None

    def take_opened(self, table: Place) -> "DeltaTable":
        """The table, at the newest version that this process knows, for one commit; nobody else
        gets the object. If others committed meanwhile, its commit is refused."""
        opened = self.opened(table, self.known_head(table))
        self._known_log(table).opened = None
        return opened

    def return_opened(self, table: Place, opened: "DeltaTable") -> None:
        """Take back an object that `take_opened` gave, after a commit with it."""
        known = self._known_log(table)
        known.behind = opened if known.readers <= {threading.get_ident()} else None


def commit_with_digest(table: Place, version: int) -> tuple[Commit, str]:
    """A commit and the SHA-256 of its bytes, by one reading; raises as `log.read_commit` does."""
    content = table.read(commit_name(version))
    return read_commit(table, version, content.splitlines()), hashlib.sha256(content).hexdigest()


def _name_in_log(version: int) -> str:
    return commit_name(version).removeprefix(f"{LOG}/")


def _learn_names(known: _KnownLog, names: dict[str, Token], since: int) -> int:
    """Take what a listing from a version on (`NO_VERSION`: a whole one) gave for all that is known
    of the names in a log; gives the newest version."""
    known.names, known.since = names, since
    known.head = max(versions_in(names, 0), default=NO_VERSION)
    return known.head
