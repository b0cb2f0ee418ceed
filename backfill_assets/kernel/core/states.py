"""The state of a day, from receipts and ledger alone, and why.

Not here: reading the lake (`kernel.tables.view`) and asking for runs (`dagster.adapter`).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import partial

from backfill_assets.kernel.core.contracts import Column, Contract, Input, InputKind
from backfill_assets.kernel.core.days import cut_has_passed, is_mature
from backfill_assets.kernel.core.digests import (
    Computed,
    Digests,
    awaited_days,
    days_to_come,
    input_days_of,
    is_required,
)
from backfill_assets.kernel.core.frontier import Frontiers
from backfill_assets.kernel.core.readings import days_with_columns_again, lacking_columns
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.view import DayReceipt, LakeView
from backfill_assets.kernel.core.write_mode import OVERWRITE, WriteMode


class State(StrEnum):
    """Every day of every table is in exactly one of these; the order is the order of the rule."""

    CLOSED = "closed"  # nobody may write it any more
    HELD = "held"
    PENDING = "pending"
    MISSING = "missing"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    # Its step read from a lake what no receipt can name: nobody knows whether it changed since.
    UNPINNED = "unpinned"
    OUTDATED = "outdated"
    PROVISIONAL = "provisional"  # a period of several days that is right, and not over
    FRESH = "fresh"

    @property
    def is_left_alone(self) -> bool:
        """Whether no run may write such a day before a person says so."""
        return self in (State.CLOSED, State.HELD)

    @property
    def holds_all_known(self) -> bool:
        """Whether such a day claims to hold all that its inputs said when it was made."""
        return self in (State.FRESH, State.PROVISIONAL, State.OUTDATED)


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
        self._known = {
            name: Computed[date, State](partial(self._state_of, name)) for name in self.contracts
        }
        # Nothing but its inputs decides a day of these: they neither wait for time, nor are closed.
        self._plain_tables = {c.name for c in self.contracts.values() if self._is_plain(c)}
        # By table, and by parameters, code and settings of a write: as `_deciding_digests`.
        self._deciding: dict[str, dict[tuple[str, str, str], Mapping[date, str] | None]] = {
            name: {} for name in self.contracts
        }

    def of(self, table: str, day: date) -> State:
        """The state of a day: closed, held, pending, missing, stale, incomplete, unpinned,
        outdated, provisional, else fresh (first match)."""
        return self._known[table][day]

    def of_days(self, table: str, days: Iterable[date]) -> Iterable[tuple[date, State]]:
        """Days of a table, each with its state, in the order in which they are given."""
        given = [*days]
        return zip(given, map(self._known[table].__getitem__, given), strict=True)

    def _state_of(self, table: str, day: date) -> State:
        """The state of a day, which `of` keeps."""
        if table in self._plain_tables:
            receipt = self.view.tables[table].latest.get(day)
            if receipt is not None and self._is_plainly_right(table, day, receipt):
                return State.FRESH
        is_closed = self.view.table(table).is_closed(day)
        return State.CLOSED if is_closed else self._judge_day(table, day)

    def _is_plain(self, contract: Contract) -> bool:
        """Whether a written table's days are all partitions of a day, and none of them is closed or
        waits for a cut."""
        known = self.view.tables.get(contract.name)
        if known is None or known.closure is not None or contract.waits_for_cut:
            return False
        has_every_day = contract.calendar.is_daily and not contract.left_out
        return has_every_day and contract.first_day is None

    def of_open(self, table: str, day: date) -> State:
        """The state that a day has where its table is open, and that a closed day would have."""
        state = self.of(table, day)
        return self._judge_day(table, day) if state is State.CLOSED else state

    def _judge_day(self, table: str, day: date) -> State:
        """The state by receipt and inputs of a day that is not closed."""
        contract, receipt = self.contracts[table], self.latest(table, day)
        if receipt is not None and receipt.entry.built is Built.HELD:
            return State.HELD
        if self.is_pending(contract, day):
            return State.PENDING
        if not contract.has_partition(day):
            # Nothing makes it: it stays as it was made.
            return State.PENDING if receipt is None else State.FRESH
        if receipt is None:
            is_due = self.view.is_due(day) or not contract.is_landed
            return State.MISSING if is_due else State.PENDING
        return self._judge_written(table, day, receipt)

    def _judge_written(self, table: str, day: date, receipt: DayReceipt) -> State:
        """The state of a day with this newest receipt, which is neither held nor pending."""
        if not self._is_plainly_right(table, day, receipt):
            wrong = self._wrong_state(table, day, receipt)
            if wrong is not None:
                return wrong
        return State.PROVISIONAL if self.is_open(table, day) else State.FRESH

    def _wrong_state(self, table: str, day: date, receipt: DayReceipt) -> State | None:
        """The state of a written day that a rebuild would make otherwise; None where it would
        not."""
        if self.is_stale(table, day, receipt):
            return State.STALE
        if receipt.entry.built is Built.INCOMPLETE:
            return State.INCOMPLETE
        if self.digests.unpinned(receipt):
            return State.UNPINNED
        # A merged day holds more than its inputs give: a rebuild gives something else, as other
        # code would.
        is_merged = receipt.entry.built is Built.MERGED
        if is_merged or self._is_outdated(table, day, receipt):
            return State.OUTDATED
        return None

    def is_open(self, table: str, day: date) -> bool:
        """Whether days of the period that begins on `day` are still to come: by the frontier, of an
        asset by the keys in its receipt, of a lake that loads no files by the newest days of the
        inputs. Never of a day, and of what others write."""
        contract = self.contracts[table]
        if contract.calendar.is_of_days or contract.external:
            return False
        if contract.made_by:
            return bool(self.days_to_come(table, day))
        ripens, frontier = contract.matures_after_days or 0, self.frontier(table)
        if frontier is None:
            return any(self._is_input_to_come(read, day) for read in contract.inputs)
        return not is_mature(contract.calendar.last_of(day), ripens, frontier)

    def _is_input_to_come(self, wanted: Input, day: date) -> bool:
        """Whether an input has no day yet that is as late as its last one within the period that
        begins on `day`."""
        keys = wanted.calendar.keys_in(wanted.made_in.span(day))
        newest = max(self.view.table(wanted.table).latest, default=date.min)
        if not keys or newest > keys[-1]:
            return False
        return newest < keys[-1] or self.is_open(wanted.table, newest)

    def days_to_come(self, table: str, day: date) -> list[tuple[str, date]]:
        """The input days of the asset's period that begins on `day` that are still to come, and
        periods of inputs that are not over themselves, as (table, day)."""
        found = list[tuple[str, date]]()
        for wanted in self.digests.inputs_of(table, day):
            found += [(wanted.table, d) for d in days_to_come(wanted, day, self.view)]
            if wanted.table != table and not wanted.calendar.is_of_days:
                keys = wanted.calendar.keys_in(wanted.made_in.span(day))
                found += [(wanted.table, key) for key in keys if self._is_made_open(wanted, key)]
        return found

    def _is_made_open(self, wanted: Input, key: date) -> bool:
        """Whether a written period of an input is not over."""
        return self.latest(wanted.table, key) is not None and self.is_open(wanted.table, key)

    def _is_plainly_right(self, table: str, day: date, receipt: DayReceipt) -> bool:
        """Whether the inputs of the day say alone that a rebuild would give the same: so they do of
        nearly all days, which are then not asked the questions of the other states."""
        if receipt.entry.built is not Built.COMPLETE or day in self.view.table(table).foreign:
            return False
        digests = self._deciding_digests(table, receipt)
        return digests is not None and digests[day] == receipt.entry.input_digest

    def _deciding_digests(self, table: str, receipt: DayReceipt) -> Mapping[date, str] | None:
        """Today's digests by which complete days of this receipt's write are fresh; None where more
        decides. The same for all days of the write."""
        known = self._deciding[table]
        write = (receipt.parameters, receipt.code_digest, receipt.settings_digest)
        if write not in known:
            # Whether a load came to its end decides, too; and what old code made is outdated.
            more_decides = self.contracts[table].is_landed or self._is_of_old_code(table, receipt)
            known[write] = None if more_decides else self.digests.deciding(table, receipt)
        return known[write]

    def frontier(self, table: str) -> datetime | None:
        """The frontier that decides the table's cuts and maturity."""
        return self.frontiers.of_table(table)

    def latest(self, table: str, day: date) -> DayReceipt | None:
        """The newest receipt of the day, or None."""
        return self.view.table(table).latest.get(day)

    def is_pending(self, contract: Contract, day: date) -> bool:
        """Whether the day waits for the frontier to pass its cut."""
        if not contract.waits_for_cut:
            return False
        return not cut_has_passed(day, self.view.grace, self.frontier(contract.name))

    def is_settled(self, table: str, day: date, mode: WriteMode = OVERWRITE) -> bool:
        """Whether a rebuild of the day is known to change nothing: it has today's inputs, code and
        settings, and no other program touched it; and a write of this `mode` leaves what stands in
        a day so built."""
        receipt = self.latest(table, day)
        if receipt is None or receipt.entry.built is Built.HELD:
            return False
        if not mode.settles(receipt.entry.built) or self.is_stale(table, day, receipt):
            return False
        return not (self._is_outdated(table, day, receipt) or self.digests.unpinned(receipt))

    def days_made_from(self, table: str, wanted: Input, days: Set[date]) -> set[date]:
        """The days of a table that are made from some of these days of an input: by windows, and by
        the keys that receipts name."""
        found = set[date]()
        for day in days:
            found.update(wanted.days_reading(day))
            found |= self.digests.reading_by_keys(table, wanted.table, day)
        return found

    def missing_inputs(self, table: str, day: date) -> list[tuple[str, date]]:
        """The required input days of `day` that do not exist, and those that were no partitions
        when it was made and have rows, as (table, day)."""
        found, frontier = list[tuple[str, date]](), self.frontier(table)
        for wanted in self.digests.inputs_of(table, day):
            if not wanted.reads_days:
                continue
            latest = self.view.table(wanted.table).latest
            for input_day in input_days_of(wanted, day, self.view):
                if input_day not in latest and is_required(input_day, day, frontier):
                    found.append((wanted.table, input_day))
            found += [(wanted.table, d) for d in awaited_days(wanted, day, self.view)]
        return found

    def inputs_lacking_columns(self, table: str, day: date) -> list[tuple[str, date]]:
        """The input days of `day` whose files lack a column that is read, as (table, day): rows of
        it would be NULL, though deliveries may hold values."""
        found = []
        for wanted in self.digests.inputs_of(table, day):
            # Of a table of others, NULL is what a column holds that came after the day's files.
            if not wanted.reads_days or self.contracts[wanted.table].external:
                continue
            columns = self._columns_read(wanted)
            for input_day in input_days_of(wanted, day, self.view):
                receipt = self.latest(wanted.table, input_day)
                if receipt is not None and lacking_columns(receipt.entry, columns):
                    found.append((wanted.table, input_day))
        return found

    def _columns_read(self, wanted: Input) -> Sequence[Column]:
        """The columns of its table that an input reads."""
        columns = self.contracts[wanted.table].columns
        if wanted.columns is None:
            return columns
        return [column for column in columns if column.name in wanted.columns]

    def lacking_columns(self, table: str, day: date) -> list[str]:
        """The columns of today's contract that the files of the day lack, such as columns renamed
        since."""
        receipt = self.latest(table, day)
        if receipt is None:
            return []
        return lacking_columns(receipt.entry, self.contracts[table].columns)

    def undelivered_columns(self, table: str, day: date) -> set[str]:
        """The columns that `table` takes from deliveries, and that the deliveries for `day` were
        loaded without."""
        found = set[str]()
        for wanted in self.contracts[table].inputs:
            if wanted.kind is InputKind.ARRIVALS:
                for arrival_day, _ in self.view.source(wanted.table).arrivals.get(day, ()):
                    found.update(self.lacking_columns(wanted.table, arrival_day))
        return found

    def awaits_repair(self, landed: str) -> bool:
        """Whether any load of this landed table repairs its ledger `arrivals`: another program
        changed it, or it was computed while files lacked a column that they have now."""
        source = self.view.source(landed)
        return bool(
            source.doubted_arrivals() or days_with_columns_again(source, self.contracts[landed])
        )

    def keys_in(self, table: str, days: Iterable[date]) -> list[date]:
        """The days of a table that stand for these days: each of them, or the partitions that cover
        one."""
        return self.contracts[table].keys_in(days)

    def before_start(self) -> list[date]:
        """The days before the lake's first day that its tables hold rows of: `start_date` was
        raised over them."""
        found = set[date]()
        for name in self.contracts:
            for day, receipt in self.view.table(name).latest.items():
                if day < self.view.start and receipt.entry.rows:
                    found.add(day)
        return sorted(found)

    def built_as(self, table: str, day: date) -> Built:
        """The kind of a write of the day now: pending, incomplete (an input is missing, incomplete,
        or was made without a column that is read) or complete."""
        if self.is_pending(self.contracts[table], day):
            return Built.PENDING
        if self.missing_inputs(table, day) or self.inputs_lacking_columns(table, day):
            return Built.INCOMPLETE
        for wanted in self.digests.inputs_of(table, day):
            if wanted.kind is InputKind.CONTENT and self._has_incomplete_days(wanted, day):
                return Built.INCOMPLETE
        return Built.COMPLETE

    def _has_incomplete_days(self, wanted: Input, day: date) -> bool:
        """Whether `day` reads a day of the input that was written incomplete."""
        latest = self.view.table(wanted.table).latest
        receipts = (latest.get(input_day) for input_day in input_days_of(wanted, day, self.view))
        return any(r is not None and r.entry.built is Built.INCOMPLETE for r in receipts)

    def is_stale(self, table: str, day: date, receipt: DayReceipt) -> bool:
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
        """Whether other code or settings than today's made the day; of tables whose rows others
        write nobody knows their code."""
        today = self.codes.get(table)
        if today is None or self.contracts[table].external:
            return False
        return not today.are_of(receipt)

    def _is_outdated(self, table: str, day: date, receipt: DayReceipt) -> bool:
        """Whether code, settings, windows, cut or maturity differ between today and the write."""
        if self.codes.get(table) is None:
            return False
        if self._is_of_old_code(table, receipt):
            return True
        return not self.digests.is_todays(table, day, receipt)
