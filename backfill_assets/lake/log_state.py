"""State of a table by its log: newest receipt of every day, versions, foreign days; and the one cache of logs.

Not here: the files of the log (`log`), and the state of a whole lake (`view`).
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.engines import ENGINE, UNLIKE
from backfill_assets.core.frontier import frontiers_in
from backfill_assets.core.parameters import PARAMETERS
from backfill_assets.core.profiles import counted_nulls
from backfill_assets.core.receipts import Columns, DayEntry, Receipt, kept_columns
from backfill_assets.core.view import Stamp, TableView
from backfill_assets.lake import files
from backfill_assets.lake.log import LOG, Commit, commits, file_changes, open_delta

if TYPE_CHECKING:
    from deltalake import DeltaTable

T = TypeVar("T")
CommitFile = tuple[int, files.FileStamp]  # version and stamp
KEPT_VALUES = 128  # a lake of ten tables has about twenty; a process that opens lake after lake does not grow


def _commit_files(table: Path) -> list[CommitFile]:
    """Every commit file as it is now, by version."""
    named = ((*name.rpartition("."), stamp) for name, stamp in files.stamps(table / LOG).items())
    return sorted((int(stem), stamp) for stem, _, suffix, stamp in named if suffix == "json" and stem.isdigit())


class LogCache:
    """Values read from logs, each with the commit files that it was read from: version, inode, size, times.

    A value is reused only while exactly these files are there; if commits were only appended, it is continued. Threads
    may share it: at worst both read the same. Callers must not change the values.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, str], tuple[list[CommitFile], object]] = {}

    def value(self, table: Path, name: str, read: Callable[[T | None, int], T], version: int | None = None) -> T:
        """The value `name` of a table by its commits, up to `version` (None: the newest there is now).

        `read(before, last)` computes it from the commits up to version `last` (-1: no commit); `before` is the value
        of an earlier version of the same log, or None.
        """
        current = _commit_files(table)
        if version is not None:  # commits that came since the caller learnt of the version are not in the value
            current = [f for f in current if f[0] <= version]
        cached_files, value = self._kept.get((table, name), ([], None))
        if cached_files == current and cached_files:
            return cast("T", value)
        continued = cast("T", value) if cached_files and current[: len(cached_files)] == cached_files else None
        self._kept.pop((table, name), None)
        new = read(continued, current[-1][0] if current else -1)
        while len(self._kept) >= KEPT_VALUES:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[table, name] = current, new
        return new

    def commits(self, table: Path) -> list[Commit]:
        """All commits, ascending; raises as `log.commits` does."""

        def read(before: list[Commit] | None, last: int) -> list[Commit]:
            known = before or []
            return [*known, *(c for c in commits(table, len(known) - 1) if c.version <= last)]

        return self.value(table, "commits", read)

    def state(self, table: Path, day_column: str, version: int | None = None) -> TableView:
        """The newest receipt of every day, up to a version (None: the newest); raises as `log.commits` does."""

        def read(before: TableView | None, last: int) -> TableView:
            start = before or TableView()
            return _fold(start, table, day_column, (c for c in commits(table, start.version) if c.version <= last))

        kind = "state" if version is None else "earlier state"  # readers may stay behind writers, who look more often
        return self.value(table, f"{kind} by {day_column}", read, version)

    def opened(self, table: Path, version: int | None = None) -> "DeltaTable":
        """The table at a version (None: the newest), for reading only; raises as `open_delta` does.

        The newest is kept, because opening reads the log whole and a step looks at it several times.
        """
        newest: DeltaTable = self.value(table, "opened", lambda _, last: open_delta(table, last if last >= 0 else None))
        return newest if version in (None, newest.version()) else open_delta(table, version)


LOGS = LogCache()  # of this process


def states_at(table: Path, day_column: str, versions: Collection[int]) -> dict[int, TableView]:
    """The state as of each of these versions, in one pass; an empty one below version 0.

    Raises as `log.commits` does. Versions that the log does not have are left out.
    """
    state, history = TableView(), commits(table)
    states = {version: state for version in versions if version < 0}
    for version in sorted(v for v in versions if v >= 0):
        state = _fold(state, table, day_column, _through(history, version))
        if state.version == version:
            states[version] = state
    return states


def _through(history: Iterable[Commit], version: int) -> Iterable[Commit]:
    """The next commits up to a version."""
    for commit in history:
        yield commit
        if commit.version == version:
            return


def _fold(before: TableView, table: Path, day_column: str, history: Iterable[Commit]) -> TableView:
    """State after the commits of `history`; `before` stays unchanged."""
    version, frontier = before.version, before.frontier
    stamps, inputs, frontiers = {**before.stamps}, {**before.inputs}, {**before.frontiers}
    foreign = set(before.foreign)
    for commit in history:
        version, receipt = commit.version, commit.receipt
        if receipt is None:
            foreign |= days_touched(table, version, day_column, stamps)
            continue
        stamps.update(_with_columns(table, day_column, _stamps(receipt, version), stamps))
        foreign.difference_update(receipt.days)
        inputs.update(receipt.inputs)
        if receipt.frontier is not None:
            frontier = max(frontier or receipt.frontier, receipt.frontier)
        for source, moment in frontiers_in(receipt.tags).items():
            frontiers[source] = max(moment, frontiers.get(source, moment))
    return TableView(version, stamps, inputs, frontier, frozenset(foreign), frontiers)


def _stamps(receipt: Receipt, version: int) -> dict[date, Stamp]:
    unlike = receipt.tags.get(UNLIKE, "").split(",")
    code, settings = receipt.code_digest, receipt.settings_digest
    parameters, engine = receipt.tags.get(PARAMETERS, ""), receipt.tags.get(ENGINE, "")
    return {
        day: Stamp(
            entry, version, receipt.write_id, code, settings, receipt.run_id, parameters, engine, str(day) in unlike
        )
        for day, entry in receipt.days.items()
    }


def _with_columns(
    table: Path, day_column: str, new: Mapping[date, Stamp], before: Mapping[date, Stamp]
) -> Mapping[date, Stamp]:
    """The stamps of one commit with the columns of their files. Receipts of earlier versions name none: then it is the
    statistics of the files that the commit added; a day that got only a receipt kept its files."""
    unknown = {d: s for d, s in new.items() if s.entry.rows and s.entry.columns is None}
    if not unknown:
        return new
    added = _nulls_added(table, next(iter(unknown.values())).version, day_column)
    found = dict(new)
    for day, stamp in unknown.items():
        nulls = added.get(str(day), added.get("", {}))
        columns = (
            _columns_by_nulls(nulls, stamp.entry) if nulls else before[day].entry.columns if day in before else None
        )
        found[day] = replace(stamp, entry=replace(stamp.entry, columns=columns))
    return found


def _nulls_added(table: Path, version: int, day_column: str) -> Mapping[str, Mapping[str, int]]:
    """NULLs per column that all files of a day have which a commit added, by the day ("": of a table that is not laid
    out by days); nothing where a file names none."""
    found: dict[str, dict[str, int]] = {}
    for change in (c for c in file_changes(table, version) if c.is_added):
        nulls: dict[str, int] = json.loads(change.stats or "{}").get("nullCount")
        if not nulls:
            return {}
        nulls, day = {**nulls, **dict.fromkeys(change.values, 0)}, change.values.get(day_column) or ""
        known = found.get(day)
        found[day] = nulls if known is None else {c: n + known[c] for c, n in nulls.items() if c in known}
    return found


def _columns_by_nulls(nulls: Mapping[str, int], entry: DayEntry) -> Columns:
    """The columns of files, their types not known. Of a column whose values did not reach the day a receipt counts no
    NULLs, though there are some."""
    counted = counted_nulls(entry.counts)
    return kept_columns(tuple((c, "") for c, n in sorted(nulls.items()) if not (n and counted and c not in counted)))


def days_touched(table: Path, version: int, day_column: str, known: Iterable[date]) -> set[date]:
    """Days whose rows a commit changed; all `known` days if it does not say which."""
    touched: set[date] = set()
    for change in (c for c in file_changes(table, version) if c.moves_rows):
        days = _days_named(change.values, day_column)
        if days is None:
            return set(known)
        touched |= days
    return touched


def _days_named(values: Mapping[str, str | None], day_column: str) -> set[date] | None:
    """Days of a partition, laid out by the day or, as `arrivals` is, by its month (`x_month` for `x_date`)."""
    month = values.get(f"{day_column.removesuffix('_date')}_month")
    try:
        if month is None:
            return {date.fromisoformat(values.get(day_column) or "")}
        first = date.fromisoformat(f"{month}-01")
    except ValueError:
        return None
    days = (first + ONE_DAY * n for n in range(31))
    return {day for day in days if day.month == first.month}
