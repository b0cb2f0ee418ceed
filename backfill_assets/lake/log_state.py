"""The state of a table by its log: newest receipt of every day, versions, foreign days; and the one cache of logs.

Lives here: folding commits into a `TableView`, and what this process has read of logs. Does not live here: the files
(`log`), and the state of a whole lake (`view`).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from backfill_assets.core.digests import PARAMETERS
from backfill_assets.core.engines import ENGINE, UNLIKE
from backfill_assets.core.frontier import told_frontiers
from backfill_assets.core.view import Stamp, TableView
from backfill_assets.lake.checkpoints import open_delta
from backfill_assets.lake.log import Commit, CommitFile, commit_files, commits, days_touched

if TYPE_CHECKING:
    from deltalake import DeltaTable

T = TypeVar("T")
KEPT_VALUES = 128  # a lake of ten tables has about twenty; a process that opens lake after lake does not grow


class LogCache:
    """Values read from logs, each with the commit files that it was read from: version, inode, size, times.

    A value is handed out again only while exactly these files are there; else it is read again, or continued from the
    kept value if only commits were appended. Threads may share it: at worst both read the same. Callers must not
    change what they are given.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, str], tuple[list[CommitFile], object]] = {}

    def value(self, table: Path, name: str, read: Callable[[T | None, int], T], version: int | None = None) -> T:
        """The value `name` of a table by its commits, up to `version` (None: the newest there is now).

        `read(before, last)` computes it from the commits up to version `last` (-1: no commit); `before` is the value
        of an earlier version of the same log, or None.
        """
        found = commit_files(table)
        if version is not None:  # commits that came since the caller learnt of the version are not in the value
            found = [f for f in found if f[0] <= version]
        known, value = self._kept.get((table, name), ([], None))
        if known == found and known:
            return cast("T", value)
        continued = cast("T", value) if known and found[: len(known)] == known else None
        value = None
        self._kept.pop((table, name), None)
        new = read(continued, found[-1][0] if found else -1)
        while len(self._kept) >= KEPT_VALUES:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[table, name] = found, new
        return new

    def commits(self, table: Path) -> list[Commit]:
        """All commits, ascending, for tables of few days; raises as `log.commits` does."""
        return self.value(table, "commits", lambda before, last: [*(before or []), *_between(table, before, last)])

    def state(self, table: Path, day_column: str) -> TableView:
        """The newest receipt of every day; raises as `log.commits` does."""

        def read(before: TableView | None, last: int) -> TableView:
            fold = _Fold.of(before or TableView())
            for commit in commits(table, fold.version):
                if commit.version <= last:  # later ones are read at the next look
                    fold.add(table, day_column, commit)
            return fold.state()

        return self.value(table, f"state by {day_column}", read)

    def opened(self, table: Path, version: int | None = None) -> "DeltaTable":
        """The table at a version (None: the newest), for reading only; raises as `open_delta` does.

        Kept, because opening reads the log whole and a step looks at a table's newest version several times.
        """
        newest: DeltaTable = self.value(table, "opened", lambda _, last: open_delta(table, last if last >= 0 else None))
        return newest if version in (None, newest.version()) else open_delta(table, version)


LOGS = LogCache()  # of this process


def _between(table: Path, before: list[Commit] | None, last: int) -> list[Commit]:
    return [c for c in commits(table, len(before or []) - 1) if c.version <= last]


def state_at(table: Path, day_column: str, version: int) -> TableView:
    """The state as of a version that the log has; an empty one below version 0."""
    return states_at(table, day_column, [version])[version]


def states_at(table: Path, day_column: str, versions: Collection[int]) -> dict[int, TableView]:
    """The state as of each of these versions, in one pass; an empty one below version 0.

    Raises as `log.commits` does. Versions that the log does not have yet are left out.
    """
    found = {version: TableView() for version in versions if version < 0}
    fold, last = _Fold(), max(versions, default=-1)
    for commit in commits(table):
        if commit.version > last:
            break
        fold.add(table, day_column, commit)
        if commit.version in versions:
            found[commit.version] = fold.state()
    return found


@dataclass
class _Fold:
    """The state up to `version`, to which commits are added."""

    version: int = -1
    stamps: dict[date, Stamp] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    frontier: datetime | None = None
    foreign: set[date] = field(default_factory=set)
    frontiers: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, state: TableView) -> "_Fold":
        """Continue from a state, which stays as it is."""
        known = {**state.stamps}, {**state.inputs}, state.frontier, {*state.foreign}, {**state.frontiers}
        return cls(state.version, *known)

    def state(self) -> TableView:
        """The state so far; later commits do not change it."""
        inputs, foreign = {**self.inputs}, frozenset(self.foreign)
        return TableView(self.version, {**self.stamps}, inputs, self.frontier, foreign, {**self.frontiers})

    def add(self, table: Path, day_column: str, commit: Commit) -> None:
        """Add the next commit."""
        self.version, receipt = commit.version, commit.receipt
        if receipt is None:
            self.foreign |= days_touched(table, commit.version, day_column, self.stamps)
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
