"""The state of a day, from receipts and ledger alone, and why.

Not here: reading the lake (`lake.view`) and asking for runs (`orchestration`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.days import cut_has_passed
from backfill_assets.core.digests import Digests, days_of, is_required
from backfill_assets.core.frontier import Frontiers
from backfill_assets.core.readings import lacking_columns
from backfill_assets.core.receipts import Built
from backfill_assets.core.view import LakeView, Stamp


class State(StrEnum):
    """Every day of every table is in exactly one of these; the order is the order of the rule."""

    HELD = "held"
    PENDING = "pending"
    MISSING = "missing"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    OUTDATED = "outdated"
    FRESH = "fresh"


@dataclass(frozen=True)
class Codes:
    """Today's digests of a table's code and of the settings that reach its content; `earlier` are digests of code whose
    days are as good as today's."""

    code_digest: str
    settings_digest: str
    earlier: tuple[str, ...] = ()

    def has_code_of(self, stamp: Stamp) -> bool:
        """Whether the day was made by this code, or is as good."""
        return stamp.code_digest in (self.code_digest, *self.earlier)

    def has_settings_of(self, stamp: Stamp) -> bool:
        """Whether the day was made with these settings."""
        return stamp.settings_digest == self.settings_digest

    def are_of(self, stamp: Stamp) -> bool:
        """Whether the day was made by this code with these settings, or is as good."""
        return self.has_code_of(stamp) and self.has_settings_of(stamp)


def written_as(built: Built) -> State:
    """The state that a write of this kind leaves: complete -> fresh, merged -> outdated, others by their name."""
    return {Built.COMPLETE: State.FRESH, Built.MERGED: State.OUTDATED}.get(built) or State(built.value)


class States:
    """The states of a view's days. `codes` are today's digests per table (a table it lacks is never outdated)."""

    def __init__(self, contracts: Iterable[Contract], view: LakeView, codes: Mapping[str, Codes]) -> None:
        self.contracts = {c.name: c for c in contracts}
        self.view, self.codes = view, codes
        self.frontiers = Frontiers(self.contracts.values(), view)
        self.digests = Digests(self.contracts.values(), view, self.frontiers.of_inputs, self._is_of_old_code)
        self._found: dict[tuple[str, date], State] = {}

    def of(self, table: str, day: date) -> State:
        """The state of a day: held, pending, missing, stale, incomplete, outdated, else fresh (first match)."""
        key = (table, day)
        if key not in self._found:
            self._found[key] = self._of(table, day)
        return self._found[key]

    def _of(self, table: str, day: date) -> State:
        contract, stamp = self.contracts[table], self.stamp(table, day)
        if stamp is not None and stamp.entry.built is Built.HELD:
            return State.HELD
        if self.is_pending(contract, day) or (contract.first_day is not None and day < contract.first_day):
            return State.PENDING
        if stamp is None:
            return State.PENDING if contract.is_landed and not self.view.is_due(day) else State.MISSING
        if self._is_stale(table, day, stamp):
            return State.STALE
        if stamp.entry.built is Built.INCOMPLETE:
            return State.INCOMPLETE
        # A merged day holds more than its inputs give: a rebuild gives something else, as other code would.
        merged = stamp.entry.built is Built.MERGED
        return State.OUTDATED if merged or self._is_outdated(table, day, stamp) else State.FRESH

    def frontier(self, table: str) -> datetime | None:
        """The frontier that decides the table's cuts and maturity."""
        return self.frontiers.of_table(table)

    def stamp(self, table: str, day: date) -> Stamp | None:
        """The newest receipt of the day, or None."""
        return self.view.table(table).stamps.get(day)

    def is_pending(self, contract: Contract, day: date) -> bool:
        """Whether the day waits for the frontier to pass its cut."""
        return contract.waits_for_cut and not cut_has_passed(day, self.view.grace, self.frontier(contract.name))

    def is_settled(self, table: str, day: date, merging: bool = False) -> bool:
        """Whether a rebuild of the day is known to change nothing: it has today's inputs, code and settings, and no
        other program touched it. A merged day is settled only for a write that merges again (`merging`)."""
        stamp = self.stamp(table, day)
        return (
            stamp is not None
            and stamp.entry.built is not Built.HELD
            and (merging or stamp.entry.built is not Built.MERGED)
            and not self._is_stale(table, day, stamp)
            and not self._is_outdated(table, day, stamp)
        )

    def absent(self, table: str, day: date) -> list[tuple[str, date]]:
        """The required input days of `day` that do not exist, as (table, day)."""
        missing, frontier = [], self.frontier(table)
        for wanted in self.contracts[table].inputs:
            if wanted.basis in (Basis.ARRIVALS, Basis.FILES):
                continue
            stamps = self.view.table(wanted.table).stamps
            missing += [
                (wanted.table, d)
                for d in days_of(wanted, day, self.view)
                if d not in stamps and is_required(d, day, frontier)
            ]
        return missing

    def lacking(self, table: str, day: date) -> list[tuple[str, date]]:
        """The input days of `day` whose files lack a column that is read, as (table, day): rows of it would be NULL,
        though deliveries may hold values."""
        found = []
        for wanted in (i for i in self.contracts[table].inputs if i.basis not in (Basis.ARRIVALS, Basis.FILES)):
            upstream, stamps = self.contracts[wanted.table], self.view.table(wanted.table).stamps
            read = [c for c in upstream.columns if wanted.columns is None or c.name in wanted.columns]
            days = (d for d in days_of(wanted, day, self.view) if d in stamps)
            found += [(wanted.table, d) for d in days if lacking_columns(stamps[d].entry, read)]
        return found

    def lacks(self, table: str, day: date) -> list[str]:
        """The columns of today's contract that the files of the day lack, such as those that were renamed since."""
        stamp = self.stamp(table, day)
        return lacking_columns(stamp.entry, self.contracts[table].columns) if stamp else []

    def undelivered(self, table: str, day: date) -> set[str]:
        """The columns that deliveries for `day` were loaded without, of those that `table` takes from deliveries."""
        found = set[str]()
        for wanted in (i for i in self.contracts[table].inputs if i.basis is Basis.ARRIVALS):
            source, columns = self.view.source(wanted.table), self.contracts[wanted.table].columns
            arrived = (source.loaded.stamps.get(a) for a, _ in source.arrivals.get(day, ()))
            found |= {c for s in arrived if s is not None for c in lacking_columns(s.entry, columns)}
        return found

    def before_start(self) -> list[date]:
        """The days before the lake's first day that its tables hold rows of: `start_date` was raised over them."""
        tables = (self.view.table(name).stamps.items() for name in self.contracts)
        return sorted({d for stamps in tables for d, s in stamps if d < self.view.start and s.entry.rows})

    def built_as(self, table: str, day: date) -> Built:
        """The kind of a write of the day now: pending, incomplete (an input is missing, incomplete, or was made without
        a column that is read) or complete."""
        contract = self.contracts[table]
        if self.is_pending(contract, day):
            return Built.PENDING
        if self.absent(table, day) or self.lacking(table, day):
            return Built.INCOMPLETE
        for wanted in contract.inputs:
            stamps = self.view.table(wanted.table).stamps
            if wanted.basis is Basis.CONTENT and any(
                d in stamps and stamps[d].entry.built is Built.INCOMPLETE for d in days_of(wanted, day, self.view)
            ):
                return Built.INCOMPLETE
        return Built.COMPLETE

    def _is_stale(self, table: str, day: date, stamp: Stamp) -> bool:
        """Whether its inputs changed: judged by the windows, cut and maturity that the day was made with."""
        if not self.is_whole(table, day, stamp):
            return True
        if stamp.entry.built is Built.INCOMPLETE and self.built_as(table, day) is Built.COMPLETE:
            return True
        if self.digests.is_current(table, day, stamp):
            return False
        if self.contracts[table].is_landed:
            return True  # the files of a day depend on no setting
        if self.digests.knows_parameters(stamp) or stamp.entry.built is Built.PENDING:
            return True
        # Made from tables that are no more, or before receipts named parameters: under other settings nothing says
        # that inputs changed.
        today = self.codes.get(table)
        return not stamp.parameters and (today is None or today.has_settings_of(stamp))

    def is_whole(self, table: str, day: date, stamp: Stamp) -> bool:
        """Whether the receipt's write was completed and no other program touched its day (or ledgers) since."""
        if day in self.view.table(table).foreign:
            return False
        if not self.contracts[table].is_landed:
            return True
        source = self.view.source(table)
        return stamp.version <= source.loaded_version and not source.is_doubted(day)

    def _is_of_old_code(self, table: str, stamp: Stamp) -> bool:
        today = self.codes.get(table)
        return today is not None and not today.are_of(stamp)

    def _is_outdated(self, table: str, day: date, stamp: Stamp) -> bool:
        """Whether today's code, settings, windows, cut or maturity differ from those of the write."""
        if self.codes.get(table) is None:
            return False
        return self._is_of_old_code(table, stamp) or not self.digests.is_todays(table, day, stamp)
