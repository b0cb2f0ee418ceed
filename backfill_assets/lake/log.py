"""A table's Delta log, read without a JVM: receipts, heads, and commits that are not ours.

Lives here: reading `_delta_log/*.json` of a table on a file system. Does not live here: table data, and writing.
Commit files are kept for ever (`delta.enableExpiredLogCleanup = false`), so the log alone holds every write; with
in-commit timestamps `commitInfo` is a commit's first line (Delta protocol), so that one line per commit is read.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.engines import ENGINE, UNLIKE
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.frontier import told_frontiers
from backfill_assets.core.parameters import PARAMETERS
from backfill_assets.core.receipts import parse_receipt
from backfill_assets.core.view import Stamp, TableView
from backfill_assets.lake.store import Commit

ACTIONS = "backfill_assets.actions"  # in the commit's information: how many actions follow it
T = TypeVar("T")
CommitFile = tuple[int, int, int, int, int]  # version, inode, size, time of content, time of any change


def versions(table: Path) -> list[int]:
    """The commit versions that lie in the log, ascending; empty where there is no table."""
    try:
        names = os.listdir(table / "_delta_log")  # noqa: PTH208  # a log of years: names are enough
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(n[:-5]) for n in names if n.endswith(".json") and n[:-5].isdigit())


def commits(table: Path, after: int = -1) -> Iterator[Commit]:
    """The commits with a version greater than `after`, ascending; raises BackfillError where the log has a gap."""
    present = versions(table)
    for expected, version in enumerate(present):
        if version != expected:
            raise BackfillError(
                f"the table {table.name}",
                f"its log lacks version {expected}",
                "It was not read",
                "Restore the file from a backup, or move the table away and rebuild it; see `backfill-assets doctor`",
            )
    refuse_torn(table, *present[-1:])
    yield from (read_commit(table, version) for version in present if version > after)


def refuse_torn(table: Path, *found: int) -> None:
    """Raise BackfillError where one of these commits is not whole: a power cut can leave the newest so."""
    for version in found:
        if not is_whole(commit_file(table, version)):
            raise _torn(table, version)


def is_whole(file: Path) -> bool:
    """Whether a commit can be read to its end. The committer's name how many actions they hold, so that a file which
    was cut off between two lines is found, too."""
    found, named, wanted = 0, 0, None
    try:
        with file.open("rb") as lines:
            for action in map(json.loads, lines):  # one at a time: all of a commit of 3,650 days are 40 MiB
                if not isinstance(action, dict):
                    return False
                found, named = found + 1, named + ("commitInfo" in action)
                info = action.get("commitInfo")
                wanted = info.get(ACTIONS) if wanted is None and isinstance(info, dict) else wanted
    except (ValueError, OSError):
        return False
    return found > 0 and (wanted is None or found - named == int(wanted))


def read_commit(table: Path, version: int) -> Commit:
    """One commit; raises BackfillError where its file is empty or torn (a power cut can do that)."""
    path = commit_file(table, version)
    try:
        with path.open(encoding="utf-8") as lines:
            info = json.loads(next(lines)).get("commitInfo")
        if info is None:
            info = next((a["commitInfo"] for a in actions(table, version) if "commitInfo" in a), {})
    except (ValueError, StopIteration):
        raise _torn(table, version) from None
    stamp = int(info.get("inCommitTimestamp", info.get("timestamp", 0)))
    return Commit(version, parse_receipt(info.get("userMetadata")), stamp, str(info.get("operation", "")))


def commit_file(table: Path, version: int) -> Path:
    """The file of one commit."""
    return table / "_delta_log" / f"{version:020d}.json"


def actions(table: Path, version: int) -> Iterator[dict[str, Any]]:
    """All actions of one commit, as Delta's protocol writes them."""
    with commit_file(table, version).open(encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                raise _torn(table, version) from None


def _torn(table: Path, version: int) -> BackfillError:
    file = commit_file(table, version)
    return BackfillError(
        f"the table {table.name}",
        f"version {version} of its log is torn ({file.name})",
        "It was not read",
        f"If it is the newest, a power cut tore it before it was reported: set it aside with {mend_command(table)}, "
        "then run `backfill-assets catch-up`. Else restore it from a backup",
    )


def mend_command(table: Path) -> str:
    """What an operator types to have a table's log mended."""
    return f"`backfill-assets mend {table.name} --yes`"


def find_write(table: Path, write_id: str, after: int = -1) -> int | None:
    """The version whose receipt names `write_id`, or None: the answer to 'did my commit happen?'."""
    found = commits(table) if after < 0 else _following(table, after)
    return next((c.version for c in found if c.receipt and c.receipt.write_id == write_id), None)


def _following(table: Path, after: int) -> Iterator[Commit]:
    """The commits after a version that is there, without a look at the others: after a commit that is one file."""
    while commit_file(table, after := after + 1).exists():
        yield read_commit(table, after)


def table_view(table: Path, day_column: str) -> TableView:
    """The newest receipt of every day, in one pass over the log."""
    return Logs().view(table, day_column)


@dataclass
class _Fold:
    """What a log holds up to `version`. `files` are its commit files as they were before they were read."""

    files: list[CommitFile] = field(default_factory=list)
    version: int = -1
    stamps: dict[date, Stamp] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    frontier: datetime | None = None
    foreign: set[date] = field(default_factory=set)
    frontiers: dict[str, datetime] = field(default_factory=dict)

    def copy(self) -> "_Fold":
        """One that can be added to."""
        known = {**self.stamps}, {**self.inputs}, self.frontier, {*self.foreign}, {**self.frontiers}
        return _Fold([*self.files], self.version, *known)

    def add(self, table: Path, day_column: str, commit: Commit) -> None:
        """One more commit."""
        self.version, receipt = commit.version, commit.receipt
        if receipt is None:
            self.foreign |= _days_touched(table, commit.version, day_column, set(self.stamps))
            return
        unlike = receipt.tags.get(UNLIKE, "").split(",")
        for day, entry in receipt.days.items():
            self.stamps[day] = Stamp(
                entry,
                commit.version,
                receipt.write_id,
                receipt.code_digest,
                receipt.settings_digest,
                receipt.run_id,
                receipt.tags.get(PARAMETERS, ""),
                receipt.tags.get(ENGINE, ""),
                str(day) in unlike,
            )
            self.foreign.discard(day)
        self.inputs.update(receipt.inputs)
        if receipt.frontier is not None and (self.frontier is None or receipt.frontier > self.frontier):
            self.frontier = receipt.frontier
        for source, frontier in told_frontiers(receipt.tags).items():
            self.frontiers[source] = max(frontier, self.frontiers.get(source, frontier))

    def view(self) -> TableView:
        """The table as the log shows it."""
        foreign = frozenset(self.foreign)
        return TableView(self.version, self.stamps, self.inputs, self.frontier, foreign, self.frontiers)


def views_at(table: Path, day_column: str, versions: Collection[int]) -> dict[int, TableView]:
    """The newest receipt of every day as of each of these versions, in one pass; an empty view below version 0.

    Raises as `commits` does. Versions that the log does not have yet are left out.
    """
    found = {version: TableView() for version in versions if version < 0}
    fold, last = _Fold(), max(versions, default=-1)
    for commit in commits(table):
        if commit.version > last:
            break
        fold.add(table, day_column, commit)
        if commit.version in versions:
            found[commit.version] = fold.copy().view()
    return found


class Logs:
    """Views of logs as this process read them before, for those who look again and again: only commits that are new are
    read. Proven at every look: the files of all commits are the ones that were read (number, size, times); else all of
    it is read again. Holds one view per table; may be shared by threads, which at worst read the same twice. Small
    tables are kept whole by `unmoved`."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, str], _Fold] = {}
        self._commits: dict[Path, tuple[list[CommitFile], list[Commit]]] = {}
        self._read: dict[tuple[Path, str], tuple[list[CommitFile], Any]] = {}

    def unmoved(self, table: Path, what: str, read: Callable[[], T], version: int | None = None) -> T:
        """What `read` gives of a table, named `what`; the same object again as long as its commits are the same: those
        up to `version` where `read` reads that one, else all."""
        files, kept = commit_files(table), self._read.get((table, what))
        if version is not None:  # a commit that came since the caller learnt of the version is not in what `read` gives
            files = files[: version + 1]
        if kept is None or kept[0] != files:
            kept = self._read[table, what] = files, read()
        found: T = kept[1]
        return found

    def commits(self, table: Path) -> list[Commit]:
        """All commits, ascending, for tables with few; raises as `view` does."""
        files, (before, known) = commit_files(table), self._commits.get(table, ([], []))
        if files[: len(before)] != before:
            known = []
        found = [*known, *(c for c in commits(table, len(known) - 1) if c.version < len(files))]
        self._commits[table] = files, found
        return found

    def view(self, table: Path, day_column: str) -> TableView:
        """The newest receipt of every day; raises BackfillError where the log has a gap or a torn commit."""
        files = commit_files(table)
        kept = self._kept.get((table, day_column), _Fold())
        if kept.files == files:
            return kept.view()
        fold = kept.copy() if kept.files and files[: len(kept.files)] == kept.files else _Fold()
        for commit in commits(table, fold.version):
            if commit.version < len(files):  # what came since is read at the next look
                fold.add(table, day_column, commit)
        fold.files = files
        self._kept[table, day_column] = fold
        return fold.view()


def commit_files(table: Path) -> list[CommitFile]:
    """Every commit file as it is now, by version: inode, size, times of change."""
    log = table / "_delta_log"
    if not log.is_dir():
        return []
    found = []
    with os.scandir(log) as entries:
        for entry in entries:
            stem, _, suffix = entry.name.rpartition(".")
            if suffix == "json" and stem.isdigit():
                stat = entry.stat()
                found.append((int(stem), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return sorted(found)


def _days_touched(table: Path, version: int, day_column: str, known: set[date]) -> set[date]:
    """The days whose data a foreign commit changed; all known days where it does not say which."""
    touched: set[date] = set()
    for action in actions(table, version):
        change = action.get("add") or action.get("remove")
        if change and change.get("dataChange", True):
            days = _days_named(change.get("partitionValues") or {}, day_column)
            if days is None:
                return known
            touched |= days
    return touched


def _days_named(values: Mapping[str, str | None], day_column: str) -> set[date] | None:
    """The days of a partition, laid out by the day or, as `arrivals` is, by its month (`x_month` for `x_date`)."""
    month = values.get(f"{day_column.removesuffix('_date')}_month")
    try:
        if month is None:
            return {date.fromisoformat(values.get(day_column) or "")}
        first = date.fromisoformat(f"{month}-01")
    except ValueError:
        return None
    days = (first + ONE_DAY * n for n in range(31))
    return {day for day in days if day.month == first.month}
