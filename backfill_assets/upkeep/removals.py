"""Which files commits took out of a table, and when: read from where the last upkeep ended.

Each commit is read once in its life, and so is each listing that is not small. What is remembered
holds every replaced file that is not deleted yet, so that nothing of it is looked for again. Not
here: which of them may go, and deleting them (`upkeep.housekeeping`).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.view import NO_VERSION, exists_at
from backfill_assets.kernel.log.file_names import name_fault
from backfill_assets.kernel.log.log import (
    LOG,
    commit_contents,
    commit_digest,
    file_changes,
    first_version_of,
    read_commit,
)
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import Gone, Place, Token
from backfill_assets.kernel.tables.data_files import live_files
from backfill_assets.upkeep.remembered import recall

ONE_LISTING = 1000  # files that a store lists by one request
# A file that a killed write left goes after weeks in any case: nobody waits for this look.
LIST_AGAIN = timedelta(days=7)


@dataclass(frozen=True)
class Removal:
    """A file that a commit took out."""

    at: float  # seconds since 1970, no earlier than that of the commit
    size: int  # bytes; 0: the commit does not say


@dataclass(frozen=True)
class Removals:
    """What is known of a table's files by its commits up to a version."""

    version: int = NO_VERSION
    commit: str = ""  # the digest of that commit
    # The latest time of these commits (seconds since 1970): a clock that was set back makes no
    # later commit older.
    newest: float = 0.0
    # Files by their names in the table, which are not live and not deleted yet.
    waiting: Mapping[str, Removal] = field(default_factory=dict)
    checkpoint: int = 0  # the version of the oldest checkpoint that was kept
    # When the files were listed last; None: they are few, and are listed each time.
    listed_at: datetime | None = None

    def is_listing_due(self, now: datetime) -> bool:
        """Whether the table's files are to be listed again, to find what no commit names. Also
        after a clock that was ahead."""
        return self.listed_at is None or not timedelta() <= now - self.listed_at < LIST_AGAIN

    def listed(self, files: Mapping[str, Token], now: datetime) -> "Removals":
        """What is known after a listing of the table's `files` at `now`, which was made after the
        commits were read: files that it lacks are gone, because somebody else deleted them. The
        time of the listing is kept where it took more than one request."""
        there = {name: removal for name, removal in self.waiting.items() if name in files}
        return replace(self, waiting=there, listed_at=now if len(files) > ONE_LISTING else None)


def known_removals(lake: Place, table: Place) -> Removals | None:
    """What the last upkeep knew of a table; None where it does not fit the table's log."""
    known = recall(lake, table.name, Removals)
    if known is None or not exists_at(known.version):
        return None
    try:
        digest = commit_digest(table, known.version)
    except Gone:
        return None
    return known if digest == known.commit else None


def first_removals(table: Place, before: float) -> Removals:
    """What is known of a table of which nothing is remembered.

    All commits are read only where a file that is not live was written before a moment (seconds
    since 1970), so that it may have been taken out before it, and in adopted tables. Else no file
    can go yet, and each that is not live counts as taken out now.
    """
    files = data_file_tokens(table)  # before the version whose files are asked for
    head, first = LOGS.head(table), first_version_of(table)
    if not exists_at(head):
        return Removals()
    not_live = files.keys() - live_names(table, head) if files else set[str]()
    if first or any(files[name].changed_at < before for name in not_live):
        return follow_commits(Removals(first - 1), table, head)
    commit, digest = LOGS.read(table, head)
    now = max(utc_now().timestamp(), commit.timestamp_ms / 1000)
    waiting = {name: Removal(now, files[name].size) for name in not_live}
    return Removals(head, digest, now, waiting)


def follow_commits(known: Removals, table: Place, head: int) -> Removals:
    """What is known after the commits up to version `head`. Raises BackfillError if the log lacks
    one of them, or its newest one is torn."""
    if head <= known.version:
        return known
    waiting, newest, content = {**known.waiting}, known.newest, b""
    for version, content in commit_contents(table, known.version, head):
        lines = content.splitlines()
        newest = max(newest, read_commit(table, version, lines).timestamp_ms / 1000)
        for change in file_changes(table, version, lines):
            waiting.pop(change.path, None)
            if not change.is_added and not name_fault(change.path):
                waiting[change.path] = Removal(newest, change.size)
    digest = hashlib.sha256(content).hexdigest()
    return replace(known, version=head, commit=digest, newest=newest, waiting=waiting)


def data_file_tokens(table: Place) -> dict[str, Token]:
    """The data files below a table's folder, whatever version names them; links are left out. A
    store is not asked for the names in the log, which are more with each commit."""
    sorts_first = any(name < LOG for name in table.names())
    found = table.tokens() if sorts_first else table.tokens(after=f"{LOG}0")  # `0` follows `/`
    return {
        name: token
        for name, token in found.items()
        if name.endswith(".parquet") and LOG not in name.split("/")
    }


def live_names(table: Place, version: int) -> set[str]:
    """What a listing may call the files that a version of a table holds."""
    files = live_files(LOGS.opened(table, version), "")
    return {name for file in files for name in file.names}
