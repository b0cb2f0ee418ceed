"""Closing the days of tables up to one, and opening them again: a receipt without days each.

Not here: the commands (`closing_command`), what came late (`late_changes`), and the refusal of
writes (`kernel.write.replace.refuse_closed_days`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypedDict

from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.closures import closure_receipt
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY, inclusive_range, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.claims import days_of_active_plans

NOT_CLOSED = "Nothing was closed"
NOT_OPENED = "Nothing was opened"
# Days in these states do not hold what their inputs say, or will hold more.
UNFINISHED = (
    State.MISSING,
    State.STALE,
    State.INCOMPLETE,
    State.PENDING,
    State.UNPINNED,
    State.PROVISIONAL,
)


class MovedForm(TypedDict):
    """Up to which day a table was closed before, and is now; null: open from its first day."""

    table: str
    before: DayText | None
    now: DayText | None


@dataclass(frozen=True)
class MovedClosure:
    """Up to which day a table was closed before, and is now; None: open from its first day on."""

    table: str
    before: date | None
    now: date | None

    def to_dict(self) -> MovedForm:
        """The move as JSON values."""
        values: MovedForm = json_of(vars(self))
        return values

    def __str__(self) -> str:
        if self.now == self.before:
            return f"{self.table}: closed up to {self.now} already"
        if self.now is None:
            return f"{self.table}: open from its first day on"
        return f"{self.table}: closed up to {self.now}, nothing writes these days any more"


@dataclass(frozen=True)
class ClosingRequest:
    """Who closes or opens days of which tables, and why."""

    tables: Collection[str]  # none: all that are made from others
    note: str
    by: Mapping[str, str]  # tags of the receipts
    as_they_are: bool = False  # also days that do not hold what their inputs say


def close_tables(
    lake: Lake, pipeline: Pipeline, until: date, request: ClosingRequest
) -> list[MovedClosure]:
    """Close all days up to `until`, which is closed too. Done again after it was stopped, it closes
    the rest.

    Raises BackfillError, and closes nothing, where the day is not over, a table cannot be closed or
    is closed up to a later day, an active plan has such days, or, unless `as_they_are`, where a day
    does not hold what its inputs say.
    """
    contracts = _chosen_contracts(lake, pipeline, request.tables)
    _refuse_unfinished_day(until)
    _refuse_planned_days(lake, contracts, until)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    _refuse_later_closures(states, contracts, until)
    if not request.as_they_are:
        _refuse_unfinished_days(states, contracts, until)
    moved = []
    for contract in contracts:
        last = _last_of_whole(contract, until)
        with lake.store.lock(contract.name):
            before = _closed_until(lake, contract)
            if before is None or before < last:
                lake.store.commit_alone(_receipt(contract, last, request))
        moved.append(MovedClosure(contract.name, before, max(before or last, last)))
    record_versions(lake, pipeline.contracts, f"close up to {until}")
    return moved


def reopen_tables(
    lake: Lake, pipeline: Pipeline, first: date | None, request: ClosingRequest
) -> list[MovedClosure]:
    """Open the days from `first` on again (None: all days). Their inputs then decide which of them
    are stale.

    Raises BackfillError where no table has such a closed day.
    """
    chosen = _chosen_contracts(lake, pipeline, request.tables, NOT_OPENED)
    moved = list[MovedClosure]()
    for contract in chosen:
        now = _last_day_before(lake, contract, first)
        with lake.store.lock(contract.name):
            before = _closed_until(lake, contract)
            if before is None or (now is not None and before <= now):
                continue
            lake.store.commit_alone(_receipt(contract, now, request, opens=True))
        moved.append(MovedClosure(contract.name, before, now))
    if not moved:
        named = ", ".join(c.name for c in chosen)
        raise BackfillError(
            f"the table(s) {named}",
            f"no day{f' from {first} on' if first else ''} is closed",
            NOT_OPENED,
            "`backfill-assets closed` lists closed days",
        )
    record_versions(lake, pipeline.contracts, f"reopen from {first or 'the first day'}")
    return moved


def _last_day_before(lake: Lake, contract: Contract, first: date | None) -> date | None:
    """The day that stays closed last where days of a table are open from `first` on; None where all
    are open."""
    if first is None or first <= lake.settings.start_date:
        return None
    return _last_of_whole(contract, first - ONE_DAY)


def _last_of_whole(contract: Contract, until: date) -> date:
    """The last day of the partitions of a table that end by `until`: of months in the midst of
    March the last day of February."""
    return contract.calendar.key_at(until + ONE_DAY) - ONE_DAY


def _chosen_contracts(
    lake: Lake, pipeline: Pipeline, tables: Collection[str], undone: str = NOT_CLOSED
) -> list[Contract]:
    """The contracts of these tables; without names, of all that can be closed and are there."""
    if tables:
        chosen = [pipeline.contract(name, undone) for name in dict.fromkeys(tables)]
        for contract in chosen:
            _refuse_unclosable(lake, contract, undone)
        return chosen
    found = []
    for contract in pipeline.contracts:
        if not _why_not_closable(lake, contract):
            found.append(contract)
    if found:
        return found
    raise BackfillError(
        lake.address, "it has no table that can be closed", undone, "Make its tables first"
    )


def _refuse_unclosable(lake: Lake, contract: Contract, undone: str) -> None:
    """Raise BackfillError where a table cannot be closed."""
    if why := _why_not_closable(lake, contract):
        raise BackfillError(
            f"the table {contract.name}",
            f"it cannot be closed: {why}",
            undone,
            "Name tables that this lake makes and that hold days: `backfill-assets status`",
        )


def _why_not_closable(lake: Lake, contract: Contract) -> str:
    """Why a table cannot be closed, as the end of a sentence; "" where it can."""
    if contract.is_landed:
        return "it holds what landed, by the day of arrival"
    if contract.external:
        return "others write it"
    if not lake.writes(contract.name):
        return "another lake makes it"
    return "" if lake.store.exists(contract.name) else "it was never made"


def _refuse_unfinished_day(until: date) -> None:
    """Raise BackfillError for a day that is not over in UTC."""
    if until < utc_today():
        return
    raise BackfillError(
        f"the day {until}", "it is not over yet (UTC)", NOT_CLOSED, "Name an earlier day"
    )


def _refuse_planned_days(lake: Lake, contracts: Iterable[Contract], until: date) -> None:
    """Raise BackfillError where an active plan has days up to `until` of one of the tables."""
    planned = days_of_active_plans(lake)
    for contract in contracts:
        last = _last_of_whole(contract, until)
        early = sorted(d for d in planned.get(contract.name, ()) if d <= last)
        if early:
            raise BackfillError(
                f"the table {contract.name}",
                f"an active plan has {ranges_text(early)} of it",
                NOT_CLOSED,
                "Finish or cancel it: `backfill-assets plan list`",
            )


def _refuse_later_closures(states: States, contracts: Iterable[Contract], until: date) -> None:
    """Raise BackfillError where one of the tables is closed up to a later day."""
    for contract in contracts:
        closure = states.view.table(contract.name).closure
        if closure is not None and closure.until > until:
            first = until + ONE_DAY
            raise BackfillError(
                f"the table {contract.name}",
                f"it is closed up to {closure.until}, which is later",
                NOT_CLOSED,
                f"To open the days from {first} on: `backfill-assets reopen --tables "
                f"{contract.name} --from {first} --note WHY`",
            )


def _refuse_unfinished_days(states: States, contracts: Iterable[Contract], until: date) -> None:
    """Raise BackfillError where a day of one of the tables does not hold what its inputs say, or
    will hold more. A day counts from the table's first receipt on."""
    for contract in contracts:
        latest = states.view.table(contract.name).latest
        last = _last_of_whole(contract, until)
        first = min(latest, default=last)
        keys = contract.keys_in(inclusive_range(first, last)) if first <= last else []
        unfinished = [key for key in keys if states.of(contract.name, key) in UNFINISHED]
        if unfinished:
            raise BackfillError(
                f"the table {contract.name}",
                f"{ranges_text(unfinished)} is {_words_of_states(states, contract, unfinished)}",
                NOT_CLOSED,
                "Bring it up to date (`backfill-assets catch-up`), or close these days as they are "
                "(`--as-they-are`)",
            )


def _words_of_states(states: States, contract: Contract, days: Sequence[date]) -> str:
    """The states that these days are in, in the order of the rule."""
    found = {states.of(contract.name, day) for day in days}
    return " or ".join(state.value for state in State if state in found)


def _closed_until(lake: Lake, contract: Contract) -> date | None:
    """The last closed day of a table now; None where it is open from its first day on."""
    closure = lake.store.view(contract.name, contract.day_column).closure
    return None if closure is None else closure.until


def _receipt(
    contract: Contract, until: date | None, request: ClosingRequest, *, opens: bool = False
) -> Receipt:
    """The receipt that closes the table up to that day (None: it is open from its first day
    on)."""
    return closure_receipt(contract.name, until, request.note, request.by, opens=opens)
