"""The state of every day of every table, and damage for a person to mend, without a JVM and without
Dagster.

Not here: drawing (`reports.status_command`), the rule of states (`kernel.core.states`), finding
alarms (`dagster.adapter.ticks`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cache
from typing import Annotated, Any, NotRequired, TypedDict, get_args, get_type_hints

from backfill_assets.engines.loss import failing_alone
from backfill_assets.kernel.core.answers import DayText, InstantText
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, inclusive_range, ranges_text
from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.place.port import answers_of
from backfill_assets.kernel.tables.data_files import column_type_names, refuse_altered_version
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import unfinished_switches
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.claims import Hold, HoldForm, days_of_active_plans
from backfill_assets.reading.downstream import stale_after_needed
from backfill_assets.reading.fitness import irreproducible_days
from backfill_assets.reading.readable import Unread, readable_tables
from backfill_assets.reading.rejected import ledgers_of
from backfill_assets.reports.show import brief_reason, full_reasons, rollback_holds

STUCK = "cannot be written: "  # the prefix of changes that only a new table can follow


@dataclass(frozen=True)
class CellColumn:
    """The text of a column in a cell of `lake_status`, which holds one day or several of equal
    states."""

    title: str  # as the line below the table names it
    # Of the column's values without None, of which there is one at least.
    text: Callable[[Sequence[Any]], str]


def _version_span(versions: Sequence[int]) -> str:
    """Return the least and the greatest version, e.g. `v3..7`; `v3` where they are one."""
    least, greatest = min(versions), max(versions)
    return f"v{least}" if least == greatest else f"v{least}..{greatest}"


@dataclass(slots=True)  # not frozen: a million are made, that takes five times as long
class DayStatus:
    """One day of one table: a row of `lake_status` and of `system.days`. A field added here, with
    its value in `day_rows`, is a column of both, of `--json`, and with `CellColumn` of the
    terminal's table."""

    table: Annotated[str, "the table"]
    day: Annotated[date, "the day, by the table's day column"]
    state: Annotated[
        State,
        "fresh, provisional, stale, missing, pending, incomplete, unpinned, outdated, held or "
        "closed",
    ]
    rows: Annotated[
        int | None,
        "rows by the newest receipt; NULL without one",
        CellColumn("the rows", lambda n: f"{sum(n):,}"),
    ] = None
    version: Annotated[
        int | None,
        "the table's version that wrote the day; NULL without a receipt",
        CellColumn("the table's version (v) that wrote them", _version_span),
    ] = None
    reason: Annotated[str, "why it is in that state; empty where it is fresh"] = ""
    # Input days that made it stale, with `why`; no column of `system.days`.
    culprits: tuple[str, ...] = ()
    will_change: Annotated[
        bool, "right today, and stale once the days that it reads are rebuilt"
    ] = False


_SomeSpan = TypedDict("_SomeSpan", {"from": DayText | None, "to": DayText | None})


class StatusForm(_SomeSpan):
    """The states of all days; null: the lake has no days, or no delivery yet."""

    lake: str
    frontier: InstantText | None
    frontiers: NotRequired[Mapping[str, InstantText | None]]  # by source, where it has several
    as_of: InstantText | None
    totals: Mapping[str, Mapping[str, int]]  # days per table and state
    will_change: Mapping[str, int]  # days per table
    columns: Mapping[str, Sequence[str]]  # changes per table
    held: Sequence[HoldForm]
    days: Sequence[DayStatus]
    unread: NotRequired[Mapping[str, str]]  # why, by table


@dataclass(frozen=True)
class StatusReport:
    """The states of all days of a lake."""

    lake: str
    days: DayRange | None  # None: the lake has none yet
    frontier: datetime | None  # the earliest of its sources
    as_of: datetime | None
    tables: Mapping[str, tuple[DayStatus, ...]] = field(default_factory=dict)
    # Changes of the columns of tables with outdated days.
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # By source; "": the only one of a lake.
    frontiers: Mapping[str, datetime | None] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()  # the held days by the rollback that put them back
    # Damage for a person to mend, and what came late for closed days, a line each.
    wrong: tuple[str, ...] = ()
    # Tables whose days are not known, and why.
    unread: Mapping[str, str] = field(default_factory=dict)
    # Per table the days that `catch-up` would make, without days of unfinished plans.
    needed: Mapping[str, Set[date]] = field(default_factory=dict)
    # Per table the days of unfinished plans.
    planned: Mapping[str, Set[date]] = field(default_factory=dict)
    # Of tables that have not a partition for every day: what they have, e.g. `month`.
    every: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[DayStatus]:
        return (day for column in self.tables.values() for day in column)

    def is_wanting(self, day: DayStatus) -> bool:
        """Whether the day is stale, incomplete or unpinned, or missing and `catch-up` or an
        unfinished plan makes it: an arrival day on which no file landed is not."""
        if day.state is State.MISSING:
            needed, planned = self.needed.get(day.table, ()), self.planned.get(day.table, ())
            return day.day in needed or day.day in planned
        return day.state in (State.STALE, State.INCOMPLETE, State.UNPINNED)

    def totals(self) -> dict[str, dict[State, int]]:
        """Count the days of each table by state, in the order of the rule."""
        totals = {}
        for name, column in self.tables.items():
            counts = Counter(day.state for day in column)
            totals[name] = {state: counts[state] for state in State if counts[state]}
        return totals

    def following(self) -> dict[str, int]:
        """Count the days that will change, of each table that has any."""
        counted = {name: sum(d.will_change for d in column) for name, column in self.tables.items()}
        return {name: days for name, days in counted.items() if days}

    def to_dict(self) -> StatusForm:
        """Return the report as JSON values."""
        values: StatusForm = json_of(self.values())
        return values

    def values(self) -> dict[str, Any]:
        """Return what `to_dict` makes JSON values of, by the keys of `StatusForm`: days are
        `DayStatus`."""
        report: dict[str, Any] = {
            "lake": self.lake,
            "from": self.days.start if self.days else None,
            "to": self.days.last if self.days else None,
            "frontier": self.frontier,
        }
        has_named_sources = any(self.frontiers)
        if has_named_sources:
            report["frontiers"] = self.frontiers
        report |= {
            "as_of": self.as_of,
            "totals": self.totals(),
            "will_change": self.following(),
            "columns": self.columns,
            "held": self.holds,
            "days": [*self],
        }
        if self.unread:
            report["unread"] = self.unread
        return report


@cache
def cell_columns() -> Mapping[str, CellColumn]:
    """Return the columns that a cell of `lake_status` shows beside the state, by name."""
    found = {}
    for name, hint in get_type_hints(DayStatus, include_extras=True).items():
        for note in get_args(hint):
            if isinstance(note, CellColumn):
                found[name] = note
    return found


def lake_status(
    lake: Lake, pipeline: Pipeline, days: DayRange | None = None, why: bool = False
) -> StatusReport:
    """Return the states of `days`, by default from the lake's first day to the last that a receipt
    or a delivery names.

    With `why`, also read the receipts of stale days and name the input days that were written
    since. Tables that cannot be read have no days, and are `unread`.
    """
    known, unread = readable_tables(lake, pipeline)
    found = status_of_states(lake, known.states(read_view(lake, known.contracts)), days, why)
    return with_unread(found, unread)


def with_unread(found: StatusReport, unread: Unread) -> StatusReport:
    """Return the report of all other tables, which also says why these could not be read."""
    reasons = {name: str(error) for name, error in unread.items()}
    return replace(found, unread=reasons, wrong=(*reasons.values(), *found.wrong))


def status_of_states(
    lake: Lake, states: States, days: DayRange | None = None, why: bool = False
) -> StatusReport:
    """Return `lake_status` of a lake with known states."""
    view, frontiers = states.view, states.frontiers
    wanted = days or known_days(view)
    tables = day_rows(lake, states, wanted or (), why)
    planned = days_of_active_plans(lake)
    needed = needed_days(states, utc_today())
    sources = [(s.name, table) for table, s in view.sources.items() if table in states.contracts]
    return StatusReport(
        lake=lake.address,
        days=wanted,
        frontier=frontiers.least,
        as_of=view.as_of,
        tables=tables,
        columns=_changes_of_outdated(lake, states, tables),
        frontiers={name: frontiers.of_source[table] for name, table in sources},
        holds=rollback_holds(lake, states, _days_in_state(tables, State.HELD)),
        needed={table: days - planned.get(table, set()) for table, days in needed.items()},
        planned=planned,
        every={
            c.name: str(c.calendar) for c in states.contracts.values() if not c.calendar.is_daily
        },
        wrong=(*_damage_lines(lake, states), *_late_lines(lake, states)),
    )


def _late_lines(lake: Lake, states: States) -> Iterable[str]:
    """Return what came late for closed days, a line per table."""
    find: Callable[[Lake, States], Iterable[str]] | None = offered_function("late_lines")
    return find(lake, states) if find is not None else ()


def _days_in_state(
    tables: Mapping[str, Sequence[DayStatus]], state: State
) -> dict[str, list[date]]:
    """Return the days of each table that are in a state."""
    return {name: [d.day for d in column if d.state is state] for name, column in tables.items()}


def _changes_of_outdated(
    lake: Lake, states: States, tables: Mapping[str, Sequence[DayStatus]]
) -> dict[str, tuple[str, ...]]:
    """Return the changes of columns of each table with outdated days that has any."""
    changes = {}
    for name, outdated in _days_in_state(tables, State.OUTDATED).items():
        if outdated:
            contract = states.contracts[name]
            written = column_type_names(lake, name, contract.day_column)
            if found := column_changes(contract, written):
                changes[name] = found
    return changes


def _damage_lines(lake: Lake, states: States) -> Iterator[str]:
    """Yield a line per damage for a person to mend."""
    yield from _raised_start(states)
    yield from map(str, unfinished_switches(lake))
    yield from (line for _, line in irreproducible_days(states.view))
    yield from _altered_tables(lake, states)


def day_rows(
    lake: Lake, states: States, days: Collection[date], why: bool = False
) -> dict[str, tuple[DayStatus, ...]]:
    """Return these days of every table, by table; `why` as for `lake_status`."""
    changing = stale_after_needed(states)
    return {
        name: tuple(_rows_of_table(lake, states, name, days, changing[name], why))
        for name in states.contracts
    }


def _rows_of_table(
    lake: Lake,
    states: States,
    table: str,
    days: Collection[date],
    changing: Set[date],
    why: bool,
) -> Iterator[DayStatus]:
    """Yield these days of a table; those of `changing` will change. `why` as for `lake_status`."""
    latest = states.view.table(table).latest
    for day, state in states.of_days(table, states.keys_in(table, days)):
        receipt, found = latest.get(day), DayStatus(table, day, state, will_change=day in changing)
        if state is not State.FRESH:
            found.reason = brief_reason(states, table, day, state)
        if receipt is not None:
            found.rows, found.version = receipt.entry.rows, receipt.version
            if why and state is State.STALE:
                found.culprits = _culprits_of(lake, states, found, receipt.version)
        yield found


def _culprits_of(lake: Lake, states: States, stale: DayStatus, version: int) -> tuple[str, ...]:
    """What `why` names of a `stale` day, which this version wrote, beside the reason: what the view
    keeps of a receipt does not name the versions of its inputs."""
    receipt = lake.store.receipt(stale.table, version)
    reasons = full_reasons(states, stale.table, stale.day, receipt)
    return tuple(text for text in reasons if text != stale.reason)


def _raised_start(states: States) -> Iterator[str]:
    """Yield a line where `start_date` lies after days that tables hold."""
    if early := states.before_start():
        yield (
            f"start_date {states.view.start} lies after {ranges_text(early)}, which tables hold: "
            "readers see these days as "
            f"they were, and every load is refused until start_date is {early[0]} again"
        )


def _altered_tables(lake: Lake, states: States) -> Iterator[str]:
    """Yield a line for each table or ledger with altered data files. One `stat` per live file."""
    contracts, known = states.contracts.values(), states.view.tables

    def text_of(contract: Contract) -> str:
        """The text of a table's version that the states are of."""
        version = known[contract.name].version if contract.name in known else None
        return altered_text(lake, contract, version)

    looked_at = (*contracts, *ledgers_of(contracts))
    for contract, text in zip(looked_at, answers_of(lake.place, text_of, looked_at), strict=True):
        if text:
            yield f"{contract.name}: {text}"


def altered_text(lake: Lake, contract: Contract, version: int | None = None) -> str:
    """Return which data files of a version (None: the newest) are gone or altered, and the remedy;
    empty if none is.

    Also empty if the log cannot be opened, which `inspection.inspect_table` reports.
    """
    try:
        with failing_alone(f"the table {contract.name}"):
            refuse_altered_version(lake, contract, version)
    except TransientError:
        raise
    except BackfillError as error:
        # Also of names and logs that others wrote: the other tables are told of, too.
        return f"{error.culprit}. {error.fix}"
    return ""


def known_days(view: LakeView) -> DayRange | None:
    """Return the days from the lake's first to the last that a receipt or a delivery names; None
    without any. Deliveries at or after `as_of` do not count: they wait until `as_of` is raised."""
    named = {day for table in view.tables.values() for day in table.latest}
    for source in view.sources.values():
        named.update(day for day in source.landed if view.is_due(day))
        named.update(source.arrivals)
    last = max(named, default=view.start - ONE_DAY)
    return None if last < view.start else inclusive_range(view.start, last)


def column_changes(contract: Contract, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a table with the columns `known` (name: type) gets and loses when it is made
    again, and the columns whose types prevent that; nothing for a table that does not exist yet."""
    if not known:
        return ()
    gets, loses, other_types = list[str](), list[str](), list[str]()
    for column in contract.columns:
        written_type = known.get(column.name)
        if written_type is None:
            gets.append(f"gets {column.name} {column.type}")
        elif written_type == column.type:
            continue
        elif _is_widening(column, written_type):
            other_types.append(f"widens {column.name} from {written_type} to {column.type}")
        else:
            other_types.append(f"{STUCK}{column.name} is {written_type}, not {column.type}")
    for name in known:
        if name not in contract.column_names:
            loses.append(f"loses {name}")
    return (*gets, *loses, *other_types)


def _is_widening(column: Column, written_type: str) -> bool:
    """Whether the column's type of today holds every value of the type that was written."""
    with suppress(ValueError):  # a type that no contract has
        return column.kind.is_wider_than(read_type(written_type))
    return False
