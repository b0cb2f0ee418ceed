"""Observing the tables that others write: which of their days changed since the lake last looked,
as receipts.

Not here: what can be read of such a table, and its files (`foreign.external`). An observation is
one commit to the lake's own log of the table: it names the files of the newest version there, and a
receipt has rows and fingerprint of each day whose rows are others than before. Files that were only
written again (a compaction, a day rewritten as it was) make no day stale. Days before the lake's
first day are left out; others without rows, before the last one that has some, exist and are empty.
Of a table of months a day is the first one of a month, and rows of another day are refused.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta

from deltalake import DeltaTable

from backfill_assets.assets.declared import DeclaredTable, declare_table
from backfill_assets.engines.loss import failing_alone
from backfill_assets.foreign.adopting import (
    entity_in_logs,
    is_followed,
    judge_foreign_days,
    observed_entry,
)
from backfill_assets.foreign.external import (
    PLAIN,
    Observation,
    Reference,
    days_between,
    days_by_footer,
    days_of_change,
    declaration_of,
    digest_of_commit,
    external_table_error,
    file_prefix,
    file_references,
    open_external,
    refuse_other_layout,
    seen_contract,
)
from backfill_assets.foreign.plain_copies import PlainCopies
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import BY, whoami
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.readings import column_sets_read
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.log.log import FileChange, commit_versions, file_changes
from backfill_assets.kernel.log.log_bounds import data_fault
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.tables.committer import commit_references
from backfill_assets.kernel.tables.data_files import gone_or_altered
from backfill_assets.kernel.tables.embedded import duckdb_cursor, rows_query
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.store import ensure_table
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.reading.fitness import earlier_column_sets, has_same_rows

OBSERVE_REASON = "observe"
# The tag of a receipt: version, table id, folder and first day of what was read.
EXTERNAL = "external"
# The tag with the digest of that version's commit: a copy put back has other commits.
COMMIT = "external commit"
WITHOUT_DAY = "rows without a day"  # the tag with their number, where there are any
FIRST_LATER_DAY = (
    "first later day"  # the tag with the first day that lies too far ahead, where there is one
)
WHICH_CHARS = 8  # of the digest of what tells calendars of one unit apart
# Later days wait: a day of the year 9999 would make every list of days as long.
AHEAD = timedelta(days=366)


def unseen_version(lake: Lake, contract: Contract) -> str:
    """What the newest version of a table of others is called, if the lake has not seen it; else "",
    as of a table that is not followed. Opens its newest commit, and its log where that is news;
    raises BackfillError where that cannot be read."""
    if not is_followed(lake, contract):
        return ""
    with failing_alone(_table_in_words(contract)):
        if not contract.external:
            view = lake.store.view(contract.name, contract.day_column)
            return f"version {view.version}, by others" if view.foreign else ""
        if _is_seen(lake, contract):
            return ""
        return _version_text(lake, contract, open_external(contract.name, contract.external))


def observe_tables(
    lake: Lake, contracts: Sequence[Contract]
) -> tuple[list[Observation], list[BackfillError]]:
    """Observe every table of others, and each that others may write, too; an error for each that
    cannot be. Readers see what was observed, as after a run. A candidate sees what the lake beside
    it has observed."""
    found, failed = list[Observation](), list[BackfillError]()
    has_moved = False
    for contract in contracts:
        if not (is_followed(lake, contract) and lake.writes(contract.name)):
            continue
        before = lake.store.head(contract.name)
        try:
            with failing_alone(_table_in_words(contract)):
                found.append(observe_table(lake, contracts, contract))
        except BackfillError as error:
            failed.append(error)
        has_moved |= lake.store.head(contract.name) != before
    if has_moved:
        record_versions(lake, contracts, OBSERVE_REASON)
    return found, failed


def observe_table(lake: Lake, contracts: Sequence[Contract], contract: Contract) -> Observation:
    """Take in the newest version of a table of others, under its lock, in at most one commit.
    Raises BackfillError for a table that cannot be read, and a column that has another type now."""
    if not contract.external:
        days = judge_foreign_days(lake, contracts, contract)
        return Observation(contract.name, lake.store.head(contract.name), days, is_adopted=True)
    with lake.store.lock(contract.name):
        if _is_seen(lake, contract):
            version, _ = _split_version(_seen_tags(lake, contract)[EXTERNAL])
            return Observation(contract.name, int(version))
        opened = open_external(contract.name, contract.external)
        now = seen_contract(declaration_of(contract), opened)
        path = lake.table_place(contract.name)
        if lake.store.exists(now.name):
            refuse_other_layout(now, LOGS.opened(path), path)
        asset_key = tuple(now.made_by.split("/")) if now.made_by else ()
        declare_table(lake.place, DeclaredTable(now, asset_key, code=""))
        by_name = {c.name: c for c in contracts} | {now.name: now}
        return _Look(lake, now, opened, [*by_name.values()]).commit()


def entity_in_external(
    lake: Lake, contracts: Sequence[Contract], columns: Collection[str], condition: str
) -> Iterator[tuple[str, str]]:
    """For each table of others whose newest observed version has rows for which the condition on
    these columns holds: that they are there, and what to do about it; the same of logs of adopted
    tables. A table without one of the columns is left out.
    """
    for contract in contracts:
        has_columns = {*columns} <= {*contract.column_names}
        if not (contract.external and has_columns and lake.store.exists(contract.name)):
            continue
        rows = rows_query(lake.store.data_files(contract), contract)
        with duckdb_cursor(lake) as engine:
            query = f"SELECT count(*) FROM ({rows}) WHERE {condition}"
            (found,) = engine.execute(query).fetchone() or (0,)
        if found:
            fix = (
                f"Have its owner remove them in {contract.external}, then `backfill-assets "
                "catch-up`"
            )
            yield (
                f"{contract.name}, which others write, has {found} row(s) of it, and they come "
                "back",
                fix,
            )
    yield from entity_in_logs(lake, contracts, columns)


def _table_in_words(contract: Contract) -> str:
    """The table in an error, by how it came into the lake."""
    return f"the {'external' if contract.external else 'adopted'} table {contract.name}"


def _seen_tags(lake: Lake, contract: Contract) -> Mapping[str, str]:
    """The tags of the newest observation; empty before the first."""
    for commit in lake.store.newest_commits(contract.name):
        if commit.receipt is not None and EXTERNAL in commit.receipt.tags:
            return commit.receipt.tags
    return {}


def _is_seen(lake: Lake, contract: Contract) -> bool:
    """Whether the newest commit there is the one that the lake saw last, by its version, its table
    and its digest; not once a day that lay too far ahead then has come near."""
    seen = _seen_tags(lake, contract)
    has_come = (
        FIRST_LATER_DAY in seen and date.fromisoformat(seen[FIRST_LATER_DAY]) <= utc_today() + AHEAD
    )
    version, table = _split_version(seen.get(EXTERNAL, ""))
    is_same_table = table.endswith(f" in {_place_and_start(lake, contract)}")
    if has_come or not is_same_table:
        return False
    place, last = place_of_others(contract.external), int(version)
    newest = max(commit_versions(place, whole=True, since=last), default=-1)
    return newest == last and seen.get(COMMIT) == digest_of_commit(contract, newest)


def _first_day(lake: Lake, contract: Contract) -> date:
    return max(lake.settings.start_date, contract.first_day or lake.settings.start_date)


def _version_text(lake: Lake, contract: Contract, opened: "DeltaTable") -> str:
    return (
        f"version {opened.version()} of {opened.metadata().id} in "
        f"{_place_and_start(lake, contract)}"
    )


def _place_and_start(lake: Lake, contract: Contract) -> str:
    unit, _, rest = str(contract.calendar).partition(" ")
    # The weekday that weeks begin on, or the days left out, which may be many.
    which = f" ({digest_of(rest)[:WHICH_CHARS]})" if rest else ""
    return f"{contract.external}, {unit}s{which} from {_first_day(lake, contract)}"


def _split_version(text: str) -> tuple[str, str]:
    """The version of a version's text, and what says which table it is."""
    version, _, table = text.removeprefix("version ").partition(" ")
    return version, table


class _Look:
    """One look at a table of others, at the version that is `opened`."""

    def __init__(
        self, lake: Lake, contract: Contract, opened: "DeltaTable", contracts: Sequence[Contract]
    ) -> None:
        self.lake, self.contract, self.opened, self.contracts = lake, contract, opened, contracts
        self.path = lake.table_place(contract.name)  # of the lake's own log of the table
        self.place = place_of_others(contract.external)
        self.start, self.end = _first_day(lake, contract), utc_today() + AHEAD
        self.before = lake.store.view(contract.name, contract.day_column)
        self.seen = _seen_tags(lake, contract)  # of the last look
        self.text = _version_text(lake, contract, opened)
        self.prefix = file_prefix(self.path, contract)
        # The files by their names in the lake's log: of others' version now, and of the last look.
        self.copies = PlainCopies(lake, contract, opened, self.path, self.prefix)
        found = file_references(opened, contract, self.place, self.prefix, self.copies.day_in_files)
        plain = [self.copies.plain_reference(r) for r in found if self._has_lake_days(r)]
        self.there = {r.file.path: self._with_days(r) for r in plain}
        self.here = {r.file.path: r for r in self._files_in_lake()}
        self.without_day = sum(self.copies.row_count(r) for r in found if self._has_no_day(r))
        self.later = self._first_later_day()

    def _first_later_day(self) -> date | None:
        """The first day that lies too far ahead; None where no file reaches there."""
        beyond = list[date]()
        for reference in self.there.values():
            if reference.last is not None and reference.last > self.end:
                beyond.append(reference.first or self.end)
        return max(min(beyond), self.end + ONE_DAY) if beyond else None

    def _has_no_day(self, reference: Reference) -> bool:
        """Whether the file is in the folder of rows without a day."""
        return bool(self.contract.partition_column) and reference.file.partition is None

    def commit(self) -> Observation:
        """Judge the days that may have changed, and commit the files with the receipts of those
        that did."""
        ensure_table(self.lake, self.contract)
        entries = self._changed_entries(self._touched_days())
        tags = {
            EXTERNAL: self.text,
            COMMIT: digest_of_commit(self.contract, self.opened.version()),
            BY: whoami(),
        }
        if self.without_day:
            tags[WITHOUT_DAY] = str(self.without_day)
        if self.later is not None:
            tags[FIRST_LATER_DAY] = str(self.later)
        receipt = Receipt(
            uuid.uuid4().hex,
            self.contract.name,
            OBSERVE_REASON,
            dict(sorted(entries.items())),
            tags=tags,
        )
        both = self._files_in_both()
        new = [r for path, r in self.there.items() if path not in both]
        gone = [r.file for path, r in self.here.items() if path not in both]
        stats = {r.file.path: r.stats(self.contract.day_column) for r in new}
        added = [r.file for r in new]
        version = commit_references(self.path, self.contract, receipt, added, stats, gone)
        self.copies.drop_old(self.there, version)
        return Observation(
            self.contract.name, self.opened.version(), tuple(receipt.days), self.without_day
        )

    def _files_in_both(self) -> set[str]:
        """The names of the files that the others' log and the lake's name alike."""
        names = self.here.keys() & self.there.keys()
        return {name for name in names if self.here[name].file == self.there[name].file}

    def _has_lake_days(self, reference: Reference) -> bool:
        """Whether the file may hold rows of days of the lake."""
        if self._has_no_day(reference):
            return False
        return reference.last is None or reference.last >= self.start

    def _with_days(self, reference: Reference) -> Reference:
        """The reference with its days, from the file's footer where the log does not say."""
        if reference.last is None:
            # A file that is gone is refused by name, if its rows are needed.
            with suppress(OSError):
                return days_by_footer(reference, self.path, self.contract)
        return reference

    def _files_in_lake(self) -> Iterable[Reference]:
        """The files that the lake's own log names now."""
        if not self.before.exists:
            return ()
        return file_references(
            LOGS.opened(self.path, self.before.version), self.contract, self.path, None
        )

    def _touched_days(self) -> set[date] | None:
        """The days that may hold other rows than when the lake last looked; None: any."""
        if not self._is_same_log():
            return None
        # A vector, or another name of a column, may have changed rows of a file that stays.
        moved = None if self.copies.are_used_by(self.there) else self._moved_days()
        if moved is None:  # then by the files that are new or gone
            both = self._files_in_both()
            files = (*self.here.items(), *self.there.items())
            moved = [reference.days for name, reference in files if name not in both]
        if FIRST_LATER_DAY in self.seen:
            moved.append(days_between(date.fromisoformat(self.seen[FIRST_LATER_DAY]), self.end))
        touched = set[date]()
        for days in moved:
            if days is None:
                return None
            touched.update(d for d in days if self.start <= d <= self.end)
        return touched

    def _is_same_log(self) -> bool:
        """Whether it is the table that was seen, from the same first day on, and its log was not
        put back since."""
        seen, table = _split_version(self.seen.get(EXTERNAL, ""))
        if table != _split_version(self.text)[1] or int(seen) > self.opened.version():
            return False
        digest = digest_of_commit(self.contract, int(seen))
        return digest in ("", self.seen.get(COMMIT))  # "": their log was cleaned

    def _moved_days(self) -> list[Iterable[date] | None] | None:
        """The days (None: any) of each file by which a commit since the last look moved rows; None
        where their log does not go back so far. A file may have come and gone in between."""
        changes = list[FileChange]()
        try:
            seen_version, _ = _split_version(self.seen[EXTERNAL])
            for version in range(int(seen_version) + 1, self.opened.version() + 1):
                changes += [c for c in file_changes(self.place, version) if c.moves_rows]
        except (OSError, ValueError, BackfillError):
            return None
        known = {**self.here, **self.there}
        found = list[Iterable[date] | None]()
        for change in changes:
            reference = known.get(f"{self.prefix}{change.path}")
            if reference is not None:
                found.append(reference.days)
            else:
                found.append(days_of_change(change, self.contract))
        return found

    def _changed_entries(self, touched: set[date] | None) -> Mapping[date, DayEntry]:
        """The entries of days whose rows, or columns, are others than their receipts say."""
        profiles = {**self._day_profiles(touched)}
        self.without_day += profiles.pop(None, DayProfile()).rows
        known = self.before.latest
        found = {d: p for d, p in profiles.items() if d and self.start <= d <= self.end}
        self._refuse_other_days(found)
        looked_at = known.keys() if touched is None else known.keys() & touched
        without_rows = (looked_at | self._empty_days({*known, *found})) - found.keys()
        read = column_sets_read(self.contracts, self.contract.name)
        entries = dict[date, DayEntry]()
        for day, profile in {**dict.fromkeys(without_rows, DayProfile()), **found}.items():
            if day in known and has_same_rows(self.contract, known[day].entry, profile):
                continue
            entries[day] = observed_entry(self.contract, profile, read)
        return entries

    def _refuse_other_days(self, days: Iterable[date]) -> None:
        """Raise BackfillError for rows of days that are no partitions."""
        calendar, name = self.contract.calendar, self.contract.name
        wrong = sorted(day for day in days if not calendar.is_key(day))
        if wrong:
            culprit = f"it has rows of {wrong[0]}, which names no partition: every {calendar}"
            where = f"[tables.{name}] in lake.toml"
            if self.contract.made_by:
                where = "its external_table"
            fix = f"Correct `every` of {where}, or have its owner move the rows"
            raise external_table_error(name, culprit, fix)

    def _empty_days(self, days: Collection[date]) -> set[date]:
        """The days without rows before the last one, that of today at most: the others' table is
        all there is."""
        last = min(max(days, default=date.min), utc_today())
        keys = self.contract.calendar.keys_in(days_between(self.start, last))
        return {key for key in keys if key >= self.start and key not in days}

    def _day_profiles(self, touched: set[date] | None) -> Mapping[date | None, DayProfile]:
        """The profiles of these days (None: all), and of rows without a day in the files that hold
        them."""
        if touched is not None and not touched:
            return {}
        read = self._files_to_read(touched)
        if lost := gone_or_altered(self.path, [r.file for r in read]):
            culprit = (
                f"version {self.opened.version()} names {len(lost)} file(s) that are gone, first "
                f"{lost[0].path}"
            )
            raise external_table_error(
                self.contract.name, culprit, "Have its owner restore them, or vacuum it less early"
            )
        unknown = [r.file.path for r in read if r.file.path not in self.here]
        if why := data_fault(self.path, unknown):
            raise external_table_error(self.contract.name, why, PLAIN)
        earlier = earlier_column_sets(self.contract, (r.entry for r in self.before.latest.values()))
        parts = {**column_sets_read(self.contracts, self.contract.name), **earlier}
        paths = [str(self.path.local(r.file.path)) for r in read]
        profiles = audit_files(self.lake, paths, self.contract, parts)
        if touched is None:
            return profiles
        wanted = {None, *touched}
        return {day: profile for day, profile in profiles.items() if day in wanted}

    def _files_to_read(self, touched: set[date] | None) -> list[Reference]:
        """The files that may hold rows of these days (None: all)."""
        if touched is None:
            return [*self.there.values()]
        found = []
        for reference in self.there.values():
            days = reference.days
            if days is None or not touched.isdisjoint(days):
                found.append(reference)
        return found
