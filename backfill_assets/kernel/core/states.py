"""The state of a day, from receipts and ledger alone, and why.

Not here: reading the lake (`kernel.tables.view`) and asking for runs (`dagster.adapter`).
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from backfill_assets.kernel.core.contracts import Contract, Input, InputKind
from backfill_assets.kernel.core.days import ONE_DAY, cut_has_passed
from backfill_assets.kernel.core.digests import Digests, awaited_days, days_of, is_required
from backfill_assets.kernel.core.frontier import Frontiers
from backfill_assets.kernel.core.readings import columns_again, lacking_columns
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.view import DayReceipt, LakeView
from backfill_assets.kernel.core.write_mode import OVERWRITE, WriteMode


class State(StrEnum):
    """Every day of every table is in exactly one of these; the order is the order of the rule."""

    HELD = "held"
    PENDING = "pending"
    MISSING = "missing"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    # Its step read from a lake what no receipt can name: nobody knows whether it changed since.
    UNPINNED = "unpinned"
    OUTDATED = "outdated"
    FRESH = "fresh"


@dataclass(frozen=True)
class Codes:
    """Today's digests of a table."""

    code_digest: str
    settings_digest: str  # of the settings that reach its content
    earlier: tuple[str, ...] = ()  # digests of code whose days are as good as today's

    def has_code_of(self, receipt: DayReceipt) -> bool:
        """Whether the day was made by this code, or is as good."""
        return receipt.code_digest in (self.code_digest, *self.earlier)

    def has_settings_of(self, receipt: DayReceipt) -> bool:
        """Whether the day was made with these settings."""
        return receipt.settings_digest == self.settings_digest

    def are_of(self, receipt: DayReceipt) -> bool:
        """Whether the day was made by this code with these settings, or is as good."""
        return self.has_code_of(receipt) and self.has_settings_of(receipt)


def written_as(built: Built) -> State:
    """The state that a write of this kind leaves: complete -> fresh, merged -> outdated, others by
    their name."""
    return {Built.COMPLETE: State.FRESH, Built.MERGED: State.OUTDATED}.get(built) or State(
        built.value
    )


class States:
    """The states of a view's days. `codes` are today's digests per table (a table it lacks is never
    outdated)."""

    def __init__(
        self, contracts: Iterable[Contract], view: LakeView, codes: Mapping[str, Codes]
    ) -> None:
        self.contracts = {c.name: c for c in contracts}
        self.view, self.codes = view, codes
        self.frontiers = Frontiers(self.contracts.values(), view)
        self.digests = Digests(
            self.contracts.values(), view, self.frontiers.of_inputs, self._is_of_old_code
        )
        self._known: dict[tuple[str, date], State] = {}

    def of(self, table: str, day: date) -> State:
        """The state of a day: held, pending, missing, stale, incomplete, unpinned, outdated, else
        fresh (first match)."""
        key = (table, day)
        if key not in self._known:
            self._known[key] = self._judge(table, day)
        return self._known[key]

    def _judge(self, table: str, day: date) -> State:
        contract, receipt = self.contracts[table], self.latest(table, day)
        if receipt is not None and receipt.entry.built is Built.HELD:
            return State.HELD
        if self.is_pending(contract, day):
            return State.PENDING
        if (
            contract.first_day is not None and day < contract.first_day
        ):  # nothing makes it: it stays as it was made
            return State.PENDING if receipt is None else State.FRESH
        if receipt is None:
            return (
                State.PENDING if contract.is_landed and not self.view.is_due(day) else State.MISSING
            )
        if self._is_stale(table, day, receipt):
            return State.STALE
        if receipt.entry.built is Built.INCOMPLETE:
            return State.INCOMPLETE
        if self.digests.unpinned(receipt):
            return State.UNPINNED
        # A merged day holds more than its inputs give: a rebuild gives something else, as other
        # code would.
        merged = receipt.entry.built is Built.MERGED
        return State.OUTDATED if merged or self._is_outdated(table, day, receipt) else State.FRESH

    def frontier(self, table: str) -> datetime | None:
        """The frontier that decides the table's cuts and maturity."""
        return self.frontiers.of_table(table)

    def latest(self, table: str, day: date) -> DayReceipt | None:
        """The newest receipt of the day, or None."""
        return self.view.table(table).latest.get(day)

    def is_pending(self, contract: Contract, day: date) -> bool:
        """Whether the day waits for the frontier to pass its cut."""
        return contract.waits_for_cut and not cut_has_passed(
            day, self.view.grace, self.frontier(contract.name)
        )

    def is_settled(self, table: str, day: date, mode: WriteMode = OVERWRITE) -> bool:
        """Whether a rebuild of the day is known to change nothing: it has today's inputs, code and
        settings, and no other program touched it; and a write of this `mode` leaves what stands in
        a day so built."""
        receipt = self.latest(table, day)
        return (
            receipt is not None
            and receipt.entry.built is not Built.HELD
            and mode.settles(receipt.entry.built)
            and not self._is_stale(table, day, receipt)
            and not self._is_outdated(table, day, receipt)
            and not self.digests.unpinned(receipt)
        )

    def reading(self, table: str, wanted: Input, days: Set[date]) -> set[date]:
        """The days of a table that are made from some of these days of an input: by windows, and by
        the keys that receipts name."""
        found = {d + ONE_DAY * n for d in days for n in range(-wanted.after, wanted.before + 1)}
        return found.union(
            *(self.digests.reading_by_keys(table, wanted.table, day) for day in days)
        )

    def absent(self, table: str, day: date) -> list[tuple[str, date]]:
        """The required input days of `day` that do not exist, and those that were no partitions
        when it was made and have rows, as (table, day)."""
        missing, frontier = [], self.frontier(table)
        for wanted in self.digests.inputs_of(table, day):
            if wanted.kind in (InputKind.ARRIVALS, InputKind.FILES):
                continue
            latest = self.view.table(wanted.table).latest
            missing += [
                (wanted.table, d)
                for d in days_of(wanted, day, self.view)
                if d not in latest and is_required(d, day, frontier)
            ]
            missing += [(wanted.table, d) for d in awaited_days(wanted, day, self.view)]
        return missing

    def lacking(self, table: str, day: date) -> list[tuple[str, date]]:
        """The input days of `day` whose files lack a column that is read, as (table, day): rows of
        it would be NULL, though deliveries may hold values."""
        found = []
        inputs = self.digests.inputs_of(table, day)
        for wanted in (i for i in inputs if i.kind not in (InputKind.ARRIVALS, InputKind.FILES)):
            if self.contracts[wanted.table].external:
                # Of a table of others, NULL is what a column holds that came after the day's files.
                continue
            upstream, latest = self.contracts[wanted.table], self.view.table(wanted.table).latest
            read = [
                c for c in upstream.columns if wanted.columns is None or c.name in wanted.columns
            ]
            days = (d for d in days_of(wanted, day, self.view) if d in latest)
            found += [(wanted.table, d) for d in days if lacking_columns(latest[d].entry, read)]
        return found

    def lacks(self, table: str, day: date) -> list[str]:
        """The columns of today's contract that the files of the day lack, such as columns renamed
        since."""
        receipt = self.latest(table, day)
        return lacking_columns(receipt.entry, self.contracts[table].columns) if receipt else []

    def undelivered(self, table: str, day: date) -> set[str]:
        """The columns that `table` takes from deliveries, and that the deliveries for `day` were
        loaded without."""
        found = set[str]()
        for wanted in (i for i in self.contracts[table].inputs if i.kind is InputKind.ARRIVALS):
            source, columns = self.view.source(wanted.table), self.contracts[wanted.table].columns
            arrived = (source.loaded.latest.get(a) for a, _ in source.arrivals.get(day, ()))
            found |= {
                c for s in arrived if s is not None for c in lacking_columns(s.entry, columns)
            }
        return found

    def awaits_repair(self, landed: str) -> bool:
        """Whether any load of this landed table repairs its ledger `arrivals`: another program
        changed it, or it was computed while files lacked a column that they have now."""
        source = self.view.source(landed)
        return bool(source.doubted_arrivals() or columns_again(source, self.contracts[landed]))

    def before_start(self) -> list[date]:
        """The days before the lake's first day that its tables hold rows of: `start_date` was
        raised over them."""
        tables = (self.view.table(name).latest.items() for name in self.contracts)
        return sorted(
            {d for latest in tables for d, s in latest if d < self.view.start and s.entry.rows}
        )

    def built_as(self, table: str, day: date) -> Built:
        """The kind of a write of the day now: pending, incomplete (an input is missing, incomplete,
        or was made without a column that is read) or complete."""
        contract = self.contracts[table]
        if self.is_pending(contract, day):
            return Built.PENDING
        if self.absent(table, day) or self.lacking(table, day):
            return Built.INCOMPLETE
        for wanted in self.digests.inputs_of(table, day):
            latest = self.view.table(wanted.table).latest
            if wanted.kind is InputKind.CONTENT and any(
                d in latest and latest[d].entry.built is Built.INCOMPLETE
                for d in days_of(wanted, day, self.view)
            ):
                return Built.INCOMPLETE
        return Built.COMPLETE

    def _is_stale(self, table: str, day: date, receipt: DayReceipt) -> bool:
        """Whether its inputs changed: judged by the windows, cut and maturity that the day was made
        with."""
        if not self.is_whole(table, day, receipt):
            return True
        if receipt.entry.built is Built.INCOMPLETE and self.built_as(table, day) is Built.COMPLETE:
            return True
        if self.digests.is_current(table, day, receipt):
            return False
        if self.contracts[table].is_landed:
            return True  # the files of a day depend on no setting
        if self.digests.knows_parameters(receipt) or receipt.entry.built is Built.PENDING:
            return True
        # Made from tables that are no more, or before receipts named parameters: under other
        # settings nothing says that inputs changed.
        today = self.codes.get(table)
        return not receipt.parameters and (today is None or today.has_settings_of(receipt))

    def is_whole(self, table: str, day: date, receipt: DayReceipt) -> bool:
        """Whether the receipt's write was completed and no other program touched its day (or
        ledgers) since."""
        if day in self.view.table(table).foreign:
            return False
        if not self.contracts[table].is_landed:
            return True
        source = self.view.source(table)
        return receipt.version <= source.loaded_version and not source.is_doubted(day)

    def _is_of_old_code(self, table: str, receipt: DayReceipt) -> bool:
        today = self.codes.get(table)
        return (
            today is not None and not self.contracts[table].external and not today.are_of(receipt)
        )

    def _is_outdated(self, table: str, day: date, receipt: DayReceipt) -> bool:
        """Whether code, settings, windows, cut or maturity differ between today and the write."""
        if self.codes.get(table) is None:
            return False
        return self._is_of_old_code(table, receipt) or not self.digests.is_todays(
            table, day, receipt
        )
