"""State of a table by its log: newest receipt of every day, versions, foreign days; and what a
process knows of logs.

Not here: the files of the log (`log`), states kept in files (`state_files`), and the state of a
whole lake (`view`).
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from operator import attrgetter
from typing import NamedTuple, TypeVar, cast

from deltalake import DeltaTable

from backfill_assets.kernel.core.closures import closure_of, moves_closure
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.engines import ENGINE, IRREPRODUCIBLE
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.frontier import frontiers_in
from backfill_assets.kernel.core.plans import REPLAY
from backfill_assets.kernel.core.readings import PARAMETERS
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.view import (
    NO_VERSION,
    DayReceipt,
    TableView,
    exists_at,
)
from backfill_assets.kernel.log import log
from backfill_assets.kernel.log.listed_logs import ListedLogs, commit_with_digest
from backfill_assets.kernel.log.log import (
    Commit,
    FileChange,
    commit_name,
    commit_versions,
    file_changes,
    open_delta,
    read_commits,
)
from backfill_assets.kernel.log.state_files import (
    delete_states,
    is_state_false,
    keep_state,
    kept_versions,
    newest_state,
    state_name,
)
from backfill_assets.kernel.place.port import Place, Token

T = TypeVar("T")
KEEP_EVERY = 20  # commits: so many are read beside a kept state, at most
HEAD, COMMITS = "head", "commits"  # names of values
# A lake of 200 tables has some 800; a process that opens lake after lake does not grow.
KEPT_VALUES = 2048


class _KeptValue(NamedTuple):
    """A value that was read from a log up to `version`, whose commit had this token then."""

    version: int = NO_VERSION
    token: Token | None = None  # None: there is no such commit, and the value fits no later look
    value: object = None


NOT_KEPT = _KeptValue()


class LogCache:
    """Values read from logs, each with the version and the commit file that it was read up to:
    inode, size, times.

    A look opens new commits only. A value is reused while its commit is the newest one and its file
    is the same; if commits were appended, it is continued. Threads may share it: at worst both read
    the same. Callers must not change the values.
    """

    def __init__(self) -> None:
        # By table and what is kept of it: `HEAD`, or the name of a value.
        self._kept: dict[tuple[Place, str], _KeptValue] = {}
        # By table and day column the version of the newest state file that fits, as last seen.
        self._states: dict[tuple[Place, str], int] = {}
        self._in_stores = ListedLogs()

    def head(self, table: Place) -> int:
        """The newest version; `NO_VERSION` where there is no table. A log without a commit after
        the one known is not listed."""
        if table.is_store:
            return self._in_stores.head(table)
        known = self._kept.get((table, HEAD), NOT_KEPT)
        is_same_log = known.token is not None and known.token == table.token(
            commit_name(known.version)
        )
        if is_same_log and not table.exists(commit_name(known.version + 1)):
            return known.version
        newest = max(commit_versions(table), default=NO_VERSION)
        self._kept[table, HEAD] = _KeptValue(newest, table.token(commit_name(newest)))
        return newest

    def _commit_token(self, table: Place, version: int) -> Token | None:
        """The token of a commit; None for `NO_VERSION`."""
        if table.is_store:
            return self._in_stores.token(table, version)
        if not exists_at(version):
            return None
        return table.token(commit_name(version))

    def _new_commits(self, table: Place, after: int, last: int) -> Iterator[Commit]:
        """The commits with a version greater than `after`, up to the last one."""
        if table.is_store:
            return self._in_stores.commits(table, after, last)
        return _commits_up_to(last, read_commits(table, after))

    def find_write(self, table: Place, write_id: str, after: int) -> int | None:
        """As `log.find_write`, behind an existing version."""
        if table.is_store:
            return self._in_stores.find_write(table, write_id, after)
        return log.find_write(table, write_id, after)

    def read(self, table: Place, version: int) -> tuple[Commit, str]:
        """A commit and its digest; the newest one that was read without asking a store again."""
        if table.is_store:
            return self._in_stores.read(table, version)
        return commit_with_digest(table, version)

    def value(
        self,
        table: Place,
        name: str,
        read: Callable[[T | None, int], T],
        version: int | None = None,
    ) -> T:
        """The value `name` of a table by its commits, up to `version` (None: the newest there is
        now).

        `read(before, last)` computes it from the commits up to version `last` (`NO_VERSION`: no
        commit); `before` is the value of an earlier version of the same log, or None."""
        last = self.head(table) if version is None else version
        token = self._commit_token(table, last)
        known = self._kept.pop((table, name), NOT_KEPT)
        value = known.value
        is_same_log = known.token is not None and known.token == self._commit_token(
            table, known.version
        )
        is_newest = known.version == last and token is not None and token == known.token
        if not is_newest:
            before = cast("T", value) if is_same_log and known.version < last else None
            value = read(before, last)
        # Of a copy: other threads change it.
        while len(self._kept) >= KEPT_VALUES:
            self._kept.pop(next(iter(self._kept.copy())), None)
        self._kept[table, name] = _KeptValue(last, token, value)
        return cast("T", value)

    def commits(self, table: Place, after: int = -1) -> list[Commit]:
        """The commits with a version greater than `after`, ascending; raises as `log.read_commits`
        does."""

        def read(before: tuple[int, list[Commit]] | None, last: int) -> tuple[int, list[Commit]]:
            """The version after which commits are known, and these."""
            first, known = after, list[Commit]()
            if before is not None and before[0] <= after:
                first, known = before
            newest = known[-1].version if known else first
            return first, [*known, *self._new_commits(table, newest, last)]

        first, found = self.value(table, COMMITS, read)
        if first > after:  # fewer were wanted before
            self._kept.pop((table, COMMITS), None)
            first, found = self.value(table, COMMITS, read)
        return found[bisect_right(found, after, key=attrgetter("version")) :]

    def state(self, table: Place, day_column: str, version: int | None = None) -> TableView:
        """The newest receipt of every day, up to a version (None: the newest), by the commits after
        the newest kept state; raises as `log.read_commits` does."""

        def read(before: TableView | None, last: int) -> TableView:
            """The state at the version `last`, from an earlier one or from a kept one."""
            if not exists_at(last):
                return TableView()
            start = self._start_of_fold(table, day_column, before, last)
            return _fold_commits(
                start, table, day_column, self._new_commits(table, start.version, last)
            )

        # Readers may stay behind writers, who look more often.
        kind = "state" if version is None else "earlier state"
        return self.value(table, f"{kind} by {day_column}", read, version)

    def _start_of_fold(
        self, table: Place, day_column: str, before: TableView | None, last: int
    ) -> TableView:
        """The state from which commits up to `last` are folded: `before`, or a kept one where that
        saves many commits."""
        start = before or TableView()
        is_near = before is not None and last - start.version < KEEP_EVERY
        if is_near or last < KEEP_EVERY - 1:
            return start
        kept_versions = self._in_stores.kept_versions(table) if table.is_store else None
        kept = newest_state(table, day_column, start.version, last, kept_versions)
        if kept is None:
            return start
        self._states[table, day_column] = kept.version
        return kept

    def opened(self, table: Place, version: int | None = None) -> "DeltaTable":
        """The table at a version (None: the newest), for reading only; raises as `open_delta` does.

        The newest is kept: opening reads the log whole, and a step looks several times."""
        if table.is_store:
            return self._in_stores.opened(table, version)

        def read(_: "DeltaTable | None", last: int) -> "DeltaTable":
            """The table as opened at its newest version."""
            return open_delta(table, last if exists_at(last) else None)

        newest = self.value(table, "opened", read)
        if version in (None, newest.version()):
            return newest
        return open_delta(table, version)

    def opened_once(self, table: Place, version: int) -> "DeltaTable":
        """As `opened`, for who looks at many tables once: those of folders are not kept by it, each
        a MiB of 3,650 files. Opening one of a store costs requests."""
        if table.is_store or (table, "opened") in self._kept:
            return self.opened(table, version)
        return open_delta(table, version)

    def opened_to_write(self, table: Place) -> "DeltaTable":
        """The newest version of a table for one commit, which changes the object: nobody else gets
        it."""
        if table.is_store:
            return self._in_stores.take_opened(table)
        self._kept.pop((table, "opened"), None)
        return open_delta(table)

    def return_opened(self, table: Place, opened: "DeltaTable") -> None:
        """Take back what `opened_to_write` gave, after its commit; in a store it is moved on to the
        next version."""
        if table.is_store:
            self._in_stores.return_opened(table, opened)

    def keep_newest_state(self, table: Place, day_column: str) -> None:
        """Keep the state at the newest version in a file, if the newest kept one that fits the log
        is `KEEP_EVERY` commits old. The caller holds the table's lock. A failure costs only time,
        and the next commit tries again."""
        with suppress(OSError, BackfillError):
            last = self._in_stores.known_head(table) if table.is_store else self.head(table)
            # One that was never seen counts as far away, whatever the last version is.
            kept_version = self._states.get((table, day_column), -KEEP_EVERY)
            is_near = 0 <= last - kept_version < KEEP_EVERY
            if is_near or last < KEEP_EVERY - 1:
                return
            kept = newest_state(table, day_column, last - KEEP_EVERY, last)
            if kept is None:
                kept = self.state(table, day_column)
                keep_state(table, day_column, kept)
            self._states[table, day_column] = kept.version

    def delete_kept_states(self, table: Place) -> None:
        """Delete the kept states of a table whose history begins anew: none of them is of that."""
        delete_states(table)


LOGS = LogCache()  # of this process


def states_at(table: Place, day_column: str, versions: Collection[int]) -> dict[int, TableView]:
    """The state as of each of these versions; an empty one for `NO_VERSION`.

    Raises as `log.read_commits` does. Versions that the log does not have are left out.
    """
    found = {}
    for version in sorted(versions):
        if not exists_at(version):
            found[version] = TableView()
            continue
        state = LOGS.state(table, day_column, version)
        if state.version == version:
            found[version] = state
    return found


def false_states(table: Place, day_column: str) -> list[str]:
    """The names in the table of kept states that readers take and that are not what the commits
    say. Raises as `log.read_commits` does."""
    state, history, found = TableView(), read_commits(table), list[str]()
    for version in kept_versions(table):
        state = _fold_commits(state, table, day_column, _commits_up_to(version, history))
        if is_state_false(table, day_column, state):
            found.append(state_name(version))
    return found


def _commits_up_to(version: int, history: Iterable[Commit]) -> Iterator[Commit]:
    """The next commits up to a version."""
    for commit in history:
        if commit.version <= version:
            yield commit
        if commit.version >= version:
            return


def _fold_commits(
    before: TableView, table: Place, day_column: str, history: Iterable[Commit]
) -> TableView:
    """State after the commits of `history`; `before` stays unchanged. A commit without a receipt
    makes the days foreign whose rows it moved; the next receipt of a day ends that."""
    version, frontier = before.version, before.frontier
    latest, inputs, frontiers = {**before.latest}, {**before.inputs}, {**before.frontiers}
    foreign = set(before.foreign)
    others = list(before.others)
    releases, closure = list(before.releases), before.closure
    for commit in history:
        version, receipt = commit.version, commit.receipt
        if receipt is None:
            changes = [c for c in file_changes(table, version) if c.moves_rows]
            if changes:
                others.append(version)
                foreign |= _days_touched(changes, day_column, latest)
            continue
        latest.update(_day_receipts(receipt, version))
        foreign.difference_update(receipt.days)
        inputs.update(receipt.inputs)
        if receipt.reason == REPLAY:
            releases.append(receipt.tags)
        if moves_closure(receipt):
            closure = closure_of(receipt, version)
        if receipt.frontier is not None:
            frontier = max(frontier or receipt.frontier, receipt.frontier)
        for source, moment in frontiers_in(receipt.tags).items():
            frontiers[source] = max(moment, frontiers.get(source, moment))
    return TableView(
        version=version,
        latest=latest,
        inputs=inputs,
        frontier=frontier,
        foreign=frozenset(foreign),
        frontiers=frontiers,
        others=tuple(others),
        releases=tuple(releases),
        closure=closure,
    )


def _day_receipts(receipt: Receipt, version: int) -> dict[date, DayReceipt]:
    """What a receipt, committed at `version`, says of each of its days."""
    irreproducible = receipt.tags.get(IRREPRODUCIBLE, "").split(",")
    return {
        day: DayReceipt(
            entry,
            version,
            receipt.write_id,
            receipt.code_digest,
            receipt.settings_digest,
            receipt.run_id,
            receipt.tags.get(PARAMETERS, ""),
            receipt.tags.get(ENGINE, ""),
            receipt.frontier,
            str(day) in irreproducible,
        )
        for day, entry in receipt.days.items()
    }


def _days_touched(
    changes: Iterable[FileChange], day_column: str, known: Iterable[date]
) -> set[date]:
    """Days of the files that changed; all `known` days if one does not say which."""
    touched: set[date] = set()
    for change in changes:
        days = _partition_days(change.values, day_column)
        if days is None:
            return set(known)
        touched |= days
    return touched


def _partition_days(values: Mapping[str, str | None], day_column: str) -> set[date] | None:
    """Days of a partition, laid out by the day or, as `arrivals` is, by its month (`x_month` for
    `x_date`); None where it names none."""
    month = values.get(f"{day_column.removesuffix('_date')}_month")
    named = values.get(day_column) if month is None else f"{month}-01"
    try:
        first = date.fromisoformat(named or "")
    except ValueError:
        return None
    if month is None:
        return {first}
    days = (first + ONE_DAY * n for n in range(31))
    return {day for day in days if day.month == first.month}
