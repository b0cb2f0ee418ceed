"""Delta log of a table, read without a JVM: commits, receipts, changes by other programs, digests,
and torn files.

Not here: the table state folded from it (`log_state`), what a damaged table means (`inspection`),
and writing (`kernel.tables.committer`). Every commit stays in the log for ever.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Receipt, parse_receipt
from backfill_assets.kernel.log.adopted import ADOPTION, adopted_files, first_version
from backfill_assets.kernel.log.adopted import LOG as LOG
from backfill_assets.kernel.log.file_names import is_adopted_there
from backfill_assets.kernel.log.log_bounds import log_fault
from backfill_assets.kernel.place.port import (
    MOST_AT_ONCE,
    Gone,
    Place,
    StoreRefused,
    Token,
    answers_of,
)

ACTIONS = "backfill_assets.actions"  # key of commitInfo: how many actions the commit holds
# Key of commitInfo: the digest of the commit before it, so that an edited past shows.
DIGEST_BEFORE = "backfill_assets.before"
# Key of commitInfo: digests of the files that it adds, joined, by ascending path.
FILE_DIGESTS = "backfill_assets.files"
# Of SHA-256 in hexadecimal: chance is to be found out, receipts hold the rows against intent.
FILE_DIGEST_CHARS = 16
HEAD = ".head"  # beside the commits: the newest version with its digest
MAGIC = b"PAR1"  # first and last bytes of a whole Parquet file
HINT = "_last_checkpoint"
# Whole, in numbered parts of so many, or (v2) under 36 signs, which delta-rs takes for a UUID.
CHECKPOINT = re.compile(
    r"([0-9]{20})\.checkpoint"
    r"(?:(?:\.[0-9]{10}\.([0-9]{10}))?\.parquet|\..{36}\.(?:parquet|json))"
)
COMMIT = re.compile(r"([0-9]{1,20})\.json")  # not by `isdigit`, which takes `²`, too
T = TypeVar("T")


class DamagedLog(BackfillError, DeltaError):
    """delta-rs cannot read a log whose newest commit and checkpoints are whole."""

    def __reduce__(self) -> tuple[type, tuple[str, ...]]:
        return type(self), (self.object, self.culprit, self.consequence, self.fix)


@dataclass(frozen=True)
class Commit:
    """One commit: its version, its receipt (None: not ours), and its time (milliseconds since 1970,
    UTC)."""

    version: int
    receipt: Receipt | None
    timestamp_ms: int
    operation: str

    @property
    def at(self) -> datetime:
        """Time of the commit, aware."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    def names(self, day: date) -> bool:
        """Whether its receipt names the day."""
        return self.receipt is not None and day in self.receipt.days

    def is_of_write(self, write_id: str) -> bool:
        """Whether its receipt is of that write."""
        return self.receipt is not None and self.receipt.write_id == write_id


@dataclass(slots=True, unsafe_hash=True)  # not frozen: a million are made, and nobody changes one
class LiveFile:
    """A data file of a table version: its path below the table as delta-rs gives it (quoted, as the
    log writes it), partition value and bytes."""

    path: str
    partition: str | None
    size: int

    @property
    def names(self) -> tuple[str, str]:
        """What a listing of the table may call it: its path as it is, and without quotes (`a b` for
        `a%20b`)."""
        return self.path, unquote(self.path)


def first_version_of(table: Place) -> int:
    """The version with which the lake's history of a table begins: 0 unless it was adopted."""
    return first_version(table.names(LOG)) if table.may_be_of_others else 0


def commit_versions(table: Place, *, whole: bool = False, since: int = 0) -> list[int]:
    """Commit versions of the lake's history of a table, ascending; empty if there is no table.
    `whole`: also those before the table was adopted. `since`: none before it, of which a store
    lists none."""
    names = names_since(table, since) if since else table.names(LOG)
    return versions_in(names, since if whole else max(since, first_version(names)))


def versions_in(names: Collection[str], first: int) -> list[int]:
    """The versions from the `first` on among the names in a log, ascending."""
    matches = [COMMIT.fullmatch(name) for name in names]
    found = [int(match[1]) for match in matches if match]
    return sorted(version for version in found if version >= first)


def names_since(table: Place, first: int) -> dict[str, Token]:
    """The names in a log, from a commit on (-1: all), without folders in it."""
    # Only names that come after this text are listed: without its last sign it lets `first` in.
    after = commit_name(first)[:-1] if first >= 0 else ""
    found = {}
    for path, token in table.tokens(LOG, after).items():
        name = path.removeprefix(f"{LOG}/")
        if "/" not in name:
            found[name] = token
    return found


def data_file_names(table: Place) -> list[str]:
    """The names in a table of all its data files, whatever version names them."""
    return [n for n in table.below() if n.endswith(".parquet") and LOG not in n.split("/")]


def commit_name(version: int) -> str:
    """The name of one commit in its table."""
    return f"{LOG}/{version:020d}.json"


def read_commits(table: Place, after: int = -1) -> Iterator[Commit]:
    """Commits with a version greater than `after`, ascending.

    Raises BackfillError if the log has a gap or its newest commit is torn.
    """
    for version in unbroken_versions(table, table.names(LOG), after):
        yield read_commit(table, version)


def unbroken_versions(
    table: Place, names: Collection[str], after: int, since: int = 0
) -> list[int]:
    """The versions greater than `after` among the names in a log, ascending; raises as
    `read_commits` does. `since`: the names are those of the log from that version on alone."""
    first = max(first_version(names), since)
    present = versions_in(names, first)
    for expected, version in enumerate(present, first):
        if version != expected:
            raise _missing_version_error(table, expected)
    if present and present[-1] > after:
        refuse_torn(table, present)
    return [version for version in present if version > after]


def commit_contents(table: Place, after: int, last: int) -> Iterator[tuple[int, bytes]]:
    """The bytes of the commits with a version greater than `after`, up to the last one, ascending,
    without listing the log; of a store some at once. Raises as `read_commits` does."""
    refuse_torn(table, [last])
    for first in range(after + 1, last + 1, MOST_AT_ONCE):
        versions = range(first, min(first + MOST_AT_ONCE, last + 1))
        contents = answers_of(table, partial(_commit_content, table), versions)
        yield from zip(versions, contents, strict=True)


def _commit_content(table: Place, version: int) -> bytes:
    try:
        return table.read(commit_name(version))
    except Gone:
        raise _missing_version_error(table, version) from None


def _missing_version_error(table: Place, version: int) -> BackfillError:
    fix = (
        "Restore the file from a backup, or move the table away and rebuild it; see "
        "`backfill-assets doctor`"
    )
    return BackfillError(
        f"the table {table.name}", f"its log lacks version {version}", "It was not read", fix
    )


def refuse_torn(table: Place, present: list[int]) -> None:
    """Raise BackfillError if the newest of these versions is not whole: a power cut can leave it
    so, but in a store."""
    if present and not table.is_store and not is_commit_whole(table, present[-1]):
        raise _torn_commit_error(table, present[-1])


def is_commit_whole(table: Place, version: int) -> bool:
    """Whether a commit can be read to its end.

    Our commits say how many actions they hold, which also shows a file cut off between two lines.
    """
    count, infos, expected = 0, 0, None
    try:
        for line in table.lines(commit_name(version)):
            action = json.loads(line)
            if not isinstance(action, dict):
                return False
            count, infos = count + 1, infos + ("commitInfo" in action)
            info = action.get("commitInfo")
            if expected is None and isinstance(info, dict):
                expected = info.get(ACTIONS)
        return count > 0 and (expected is None or count - infos == int(expected))
    except BackfillError:  # a store that does not answer says nothing of a commit
        raise
    except (ValueError, TypeError, RecursionError, OSError):
        return False


def read_commit(table: Place, version: int, content: Iterable[bytes] | None = None) -> Commit:
    """Read one commit, mostly its first line only, unless its lines are given (`content`). Raises
    Gone; BackfillError if it is empty or torn."""
    info = commit_info(table, version, content)
    try:
        time = int(info.get("inCommitTimestamp", info.get("timestamp", 0)))
    except (ValueError, TypeError, OverflowError):
        raise _torn_commit_error(table, version) from None
    return Commit(
        version, parse_receipt(info.get("userMetadata")), time, str(info.get("operation", ""))
    )


def commit_info(
    table: Place, version: int, content: Iterable[bytes] | None = None
) -> dict[str, Any]:
    """The action `commitInfo` of a commit; as `read_commit`."""
    action = None
    for action in commit_actions(table, version, content):
        if isinstance(info := action.get("commitInfo"), dict):
            return info
    if action is None:
        raise _torn_commit_error(table, version)
    return {}


def commit_actions(
    table: Place, version: int, content: Iterable[bytes] | None = None
) -> Iterator[dict[str, Any]]:
    """All actions of one commit, as Delta's protocol writes them; raises BackfillError at a line
    that is none."""
    if content is None:
        content = table.lines(commit_name(version))
    try:
        for line in content:
            action = json.loads(line)
            if not isinstance(action, dict):
                raise _torn_commit_error(table, version)
            yield action
    except (ValueError, RecursionError):
        raise _torn_commit_error(table, version) from None


@dataclass(frozen=True)
class FileChange:
    """A data file that a commit added or removed."""

    path: str  # below the table
    is_added: bool  # False: it was removed
    size: int
    values: Mapping[str, str | None]  # of the partition columns
    moves_rows: bool  # whether rows changed by it
    stats: str  # as JSON


def file_changes(
    table: Place, version: int, content: Iterable[bytes] | None = None
) -> Iterator[FileChange]:
    """Changes of data files by one commit, in its order, whose lines may be given (`content`); the
    one that adopted a table brings the files that it had. Raises BackfillError at a torn line, and
    for a change that is none."""
    found: Iterable[Mapping[str, Any]] = [*commit_actions(table, version, content)]
    if any(ADOPTION in (action.get("commitInfo") or ()) for action in found):
        found = adopted_files(table.uri(), version)
    for action in found:
        added = action.get("add")
        change = added or action.get("remove")
        if change:
            try:
                yield _parse_file_change(change, is_added=added is not None)
            except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
                raise _torn_commit_error(table, version) from None


def _parse_file_change(change: Mapping[str, Any], *, is_added: bool) -> FileChange:
    values = change.get("partitionValues") or {}
    stats = change.get("stats") or ""
    path = unquote(change["path"])
    moves_rows = bool(change.get("dataChange", True))
    return FileChange(path, is_added, int(change.get("size") or 0), values, moves_rows, stats)


def _torn_commit_error(table: Place, version: int) -> BackfillError:
    return BackfillError(
        f"the table {table.name}",
        f"version {version} of its log is torn ({version:020d}.json)",
        "It was not read",
        "If it is the newest, a power cut tore it before it was reported: set it aside with "
        f"{mend_command(table)}, "
        "then run `backfill-assets catch-up`. Else restore it from a backup",
    )


def mend_command(table: Place) -> str:
    """The command that mends a table's log."""
    return f"`backfill-assets mend {table.name} --yes`"


def find_write(table: Place, write_id: str, after: int = -1) -> int | None:
    """The version whose receipt names `write_id`, or None: the answer to 'did my commit
    happen?'."""
    following = read_commits(table) if after < 0 else _commits_after(table, after)
    for commit in following:
        if commit.is_of_write(write_id):
            return commit.version
    return None


class CommittedWrites:
    """Which commits of a log are of which writes, for who asks for several: it reads a commit once,
    and before each answer those that came since."""

    def __init__(self, table: Place) -> None:
        self._table, self._last = table, -1
        self._version_of = dict[str, int]()

    def version_of(self, write_id: str) -> int | None:
        """As `find_write`; raises as `read_commits` does."""
        following = read_commits(self._table)
        if self._last >= 0:
            following = _commits_after(self._table, self._last)
        for commit in following:
            self._last = commit.version
            if commit.receipt is not None:
                self._version_of.setdefault(commit.receipt.write_id, commit.version)
        return self._version_of.get(write_id)


def _commits_after(table: Place, after: int) -> Iterator[Commit]:
    """Commits after an existing version, without listing the log."""
    with suppress(Gone):
        for version in itertools.count(after + 1):
            yield read_commit(table, version)


def commit_digest(table: Place, version: int) -> str:
    """SHA-256 of the bytes of one commit. Raises OSError."""
    return table.sha256(commit_name(version))


def note_head(table: Place, version: int, digest: str = "") -> None:
    """Note the digest of the newest commit ("": it is read), which no later one names yet. A kill
    leaves the older note: harmless."""
    table.write_json(
        f"{LOG}/{HEAD}",
        {"version": version, "sha256": digest or commit_digest(table, version)},
    )


def read_head(table: Place) -> Mapping[str, Any]:
    """The note that `note_head` left; empty where there is none."""
    return table.read_json(f"{LOG}/{HEAD}")


def asked_again(table: Place, ask: Callable[[], T]) -> T:
    """What `ask` gives, which has delta-rs open or make a table; asked once more where the store
    denied its credentials: each opening reads those of a role anew."""
    try:
        return ask()
    except Exception as error:
        if not is_denied(table, error):
            raise
    return ask()


def is_denied(table: Place, error: Exception) -> bool:
    """Whether an error of delta-rs says that the store of a table denied its request, of which
    nothing was done."""
    try:
        table.refuse_loss(error)
    except BackfillError as refusal:
        return isinstance(refusal, StoreRefused)
    return False


def open_delta(table: Place, version: int | None = None) -> "DeltaTable":
    """Open the table at a version (None: the newest).

    Raises BackfillError with the command that mends it if the newest commit or a checkpoint is
    torn, TransientError for a store that does not answer or lists the log as it was before;
    BackfillError, too, for a table that others made and whose log delta-rs must not read;
    DamagedLog for other damage; else the error of delta-rs.
    """
    fault = log_fault(table, version) if is_adopted_there(table) else ""
    if fault:
        fix = "Have its owner take that out of its log, or restore the log from a backup"
        raise BackfillError(f"the table {table.name}", fault, "It was not read", fix)
    try:
        return asked_again(table, lambda: DeltaTable(table.uri(), version=version))
    except Exception as error:
        table.refuse_loss(error, commit_name(version or 0))
        refuse_torn(table, commit_versions(table))
        torn = torn_checkpoints(table)
        if not torn:
            raise _damaged_log_error(table, error) from error
        raise BackfillError(
            f"the table {table.name}",
            f"a checkpoint of its log is torn ({torn[0]}); a power cut does that",
            "It was not read",
            f"Set it aside with {mend_command(table)}: every commit is kept, and nothing is lost",
        ) from error


def _damaged_log_error(table: Place, error: Exception) -> Exception:
    """The error for one of delta-rs, which quotes its own program behind the first line; itself for
    a table that is not there."""
    if isinstance(error, TableNotFoundError) or not isinstance(error, DeltaError):
        return error
    return DamagedLog(
        f"the table {table.name}",
        f"its log cannot be read ({str(error).partition(chr(10))[0]})",
        "It was not read",
        "`backfill-assets doctor` names the damaged file: restore it from a backup",
    )


class CheckpointFile(NamedTuple):
    """A file of a checkpoint, by its name."""

    version: int
    parts: int  # how many such files make up the checkpoint


def parsed_checkpoint(name: str) -> CheckpointFile | None:
    """What a name in a log says of a checkpoint, in each form that Delta's protocol has; None of
    any other name."""
    found = CHECKPOINT.fullmatch(name)
    return CheckpointFile(int(found[1]), int(found[2] or 1)) if found else None


def checkpoint_name(version: int) -> str:
    """The name of the checkpoint at a version in its table; it need not exist."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def checkpoint_names(table: Place, version: int) -> list[str]:
    """The names of the checkpoint at a version and of the hint; empty if there is none."""
    name = checkpoint_name(version)
    return [name, f"{LOG}/{HINT}"] if table.exists(name) else []


def sync_log(table: Place, version: int) -> None:
    """Write a commit, its checkpoint and the names in the log to the disk; raises OSError."""
    if not table.is_store:  # nothing waits there to be written
        table.sync(commit_name(version), *checkpoint_names(table, version), LOG)


def torn_checkpoints(table: Place) -> list[str]:
    """Names in the log of checkpoints, or parts of them, that are no whole Parquet file, or whose
    version has no whole commit; and of a hint that names such a checkpoint or a missing one."""
    first = first_version_of(table)  # checkpoints before it are others'
    torn, whole = list[str](), Counter[CheckpointFile]()
    for name in sorted(table.names(LOG)):
        found = parsed_checkpoint(name)
        if found is None or found.version < first:
            continue
        if _is_whole_checkpoint(table, name, found.version):
            whole[found] += 1
        else:
            torn.append(name)
    there = {version for (version, parts), count in whole.items() if count >= parts}
    hint = table.read_json(f"{LOG}/{HINT}")  # readers ignore one that they cannot read
    named = hint.get("version")
    if isinstance(named, int) and named >= first and named not in there:
        torn.append(HINT)
    return torn


def _is_whole_checkpoint(table: Place, name: str, version: int) -> bool:
    is_json = name.endswith(".json")
    is_readable = is_json or table.ends(f"{LOG}/{name}", len(MAGIC)) == (MAGIC, MAGIC)
    return is_readable and is_commit_whole(table, version)
