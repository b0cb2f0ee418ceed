"""The state of every day of every table, and damage for a person to mend, without a JVM and without
Dagster.

Not here: drawing (`reports.status_command`), the rule of states (`kernel.core.states`), finding
alarms (`dagster.adapter.ticks`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

from backfill_assets.engines.loss import failing_alone
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import DayRange, from_inclusive, ranges
from backfill_assets.kernel.core.downstream import will_change
from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.tables.data_files import columns, refuse_altered_version
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import unfinished
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.claims import Hold, days_of_active_plans
from backfill_assets.reading.fitness import irreproducible_days
from backfill_assets.reading.readable import Unread, readable
from backfill_assets.reading.rejected import ledgers_of
from backfill_assets.reports.show import brief, holds, in_full

STUCK = "cannot be written: "  # the prefix of changes that only a new table can follow


@dataclass(frozen=True)
class InCell:
    """The text of a column in a cell of `status`, which holds one day or several of equal
    states."""

    title: str  # as the line below the table names it
    text: Callable[
        [Sequence[Any]], str
    ]  # of the column's values without None, of which there is one at least


def _span(versions: Sequence[int]) -> str:
    return "v" + "..".join(map(str, sorted({min(versions), max(versions)})))


@dataclass(frozen=True)
class DayStatus:
    """One day of one table: a row of `status` and of `system.days`. A field added here, with its
    value in `day_rows`, is a column of both, of `--json`, and with `InCell` of the terminal's
    table."""

    table: Annotated[str, "the table"]
    day: Annotated[date, "the day, by the table's day column"]
    state: Annotated[
        State, "fresh, stale, missing, pending, incomplete, unpinned, outdated or held"
    ]
    rows: Annotated[
        int | None,
        "rows by the newest receipt; NULL without one",
        InCell("the rows", lambda n: f"{sum(n):,}"),
    ] = None
    version: Annotated[
        int | None,
        "the table's version that wrote the day; NULL without a receipt",
        InCell("the table's version (v) that wrote them", _span),
    ] = None
    reason: Annotated[str, "why it is in that state; empty where it is fresh"] = ""
    culprits: tuple[
        str, ...
    ] = ()  # input days that made it stale, with `why`; no column of `system.days`
    will_change: Annotated[
        bool, "right today, and stale once the days that it reads are rebuilt"
    ] = False


@dataclass(frozen=True)
class StatusReport:
    """The states of all days of a lake."""

    lake: str
    days: DayRange | None  # None: the lake has none yet
    frontier: datetime | None  # the earliest of its sources
    as_of: datetime | None
    tables: Mapping[str, tuple[DayStatus, ...]] = field(default_factory=dict)
    # changes of the columns of tables with outdated days
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    frontiers: Mapping[str, datetime | None] = field(
        default_factory=dict
    )  # by source; "": the only one of a lake
    holds: tuple[Hold, ...] = ()  # the held days by the rollback that put them back
    wrong: tuple[str, ...] = ()  # damage for a person to mend, a line each
    unread: Mapping[str, str] = field(
        default_factory=dict
    )  # tables whose days are not known, and why
    # per table the days that `catch-up` would make, without days of unfinished plans
    needed: Mapping[str, Set[date]] = field(default_factory=dict)
    planned: Mapping[str, Set[date]] = field(
        default_factory=dict
    )  # per table the days of unfinished plans

    def __iter__(self) -> Iterator[DayStatus]:
        return (day for column in self.tables.values() for day in column)

    def is_wanting(self, day: DayStatus) -> bool:
        """Whether the day is stale, incomplete or unpinned, or missing and `catch-up` or an
        unfinished plan makes it: an arrival day on which no file landed is not."""
        made = day.day in self.needed.get(day.table, ()) or day.day in self.planned.get(
            day.table, ()
        )
        return day.state in (State.STALE, State.INCOMPLETE, State.UNPINNED) or (
            day.state is State.MISSING and made
        )

    def totals(self) -> dict[str, dict[State, int]]:
        """Count the days of each table by state, in the order of the rule."""
        counted = {name: Counter(d.state for d in column) for name, column in self.tables.items()}
        return {name: {s: found[s] for s in State if found[s]} for name, found in counted.items()}

    def following(self) -> dict[str, int]:
        """Count the days that will change, of each table that has any."""
        counted = {name: sum(d.will_change for d in column) for name, column in self.tables.items()}
        return {name: days for name, days in counted.items() if days}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        report = {
            "lake": self.lake,
            "from": self.days.start if self.days else None,
            "to": self.days.last if self.days else None,
            "frontier": self.frontier,
            **({"frontiers": self.frontiers} if any(self.frontiers) else {}),
            "as_of": self.as_of,
            "totals": self.totals(),
            "will_change": self.following(),
            "columns": self.columns,
            "held": self.holds,
            "days": [*self],
            **({"unread": self.unread} if self.unread else {}),
        }
        return {key: json_of(value) for key, value in report.items()}


@cache
def in_cells() -> Mapping[str, InCell]:
    """Return the columns that a cell of `status` shows beside the state, by name."""
    hints = get_type_hints(DayStatus, include_extras=True)
    return {
        name: shown
        for name, hint in hints.items()
        for shown in get_args(hint)
        if isinstance(shown, InCell)
    }


def status(
    lake: Lake, pipeline: Pipeline, days: DayRange | None = None, why: bool = False
) -> StatusReport:
    """Return the states of `days`, by default from the lake's first day to the last that a receipt
    or a delivery names.

    With `why`, also read the receipts of stale days and name the input days that were written
    since. Tables that cannot be read have no days, and are `unread`.
    """
    known, unread = readable(lake, pipeline)
    found = status_of(lake, known.states(read_view(lake, known.contracts)), days, why)
    return with_unread(found, unread)


def with_unread(found: StatusReport, unread: Unread) -> StatusReport:
    """Return the report of all other tables, which also says why these could not be read."""
    told = {name: str(error) for name, error in unread.items()}
    return replace(found, unread=told, wrong=(*told.values(), *found.wrong))


def status_of(
    lake: Lake, states: States, days: DayRange | None = None, why: bool = False
) -> StatusReport:
    """Return `status` of a lake with known states."""
    view, frontiers, wanted = states.view, states.frontiers, days or known_days(states.view)
    tables = day_rows(lake, states, wanted or (), why)
    outdated = [
        name for name, column in tables.items() if any(d.state is State.OUTDATED for d in column)
    ]
    known = (
        (c, columns(lake, c.name, c.day_column))
        for c in map(states.contracts.__getitem__, outdated)
    )
    changes = {contract.name: column_changes(contract, there) for contract, there in known}
    held = {
        name: [d.day for d in column if d.state is State.HELD] for name, column in tables.items()
    }
    planned = days_of_active_plans(lake)
    return StatusReport(
        lake=lake.address,
        days=wanted,
        frontier=frontiers.least,
        as_of=view.as_of,
        tables=tables,
        columns={name: found for name, found in changes.items() if found},
        frontiers={
            s.name: frontiers.of_source[t] for t, s in view.sources.items() if t in states.contracts
        },
        holds=holds(lake, states, held),
        needed={
            t: days - planned.get(t, set()) for t, days in needed_days(states, utc_today()).items()
        },
        planned=planned,
        wrong=(
            *_raised(states),
            *map(str, unfinished(lake)),
            *(line for _, line in irreproducible_days(view)),
            *_altered(lake, states),
        ),
    )


def day_rows(
    lake: Lake, states: States, days: Collection[date], why: bool = False
) -> dict[str, tuple[DayStatus, ...]]:
    """Return these days of every table, by table; `why` as for `status`."""
    changing = will_change(states)

    def row(table: str, day: date) -> DayStatus:
        state, day_receipt = states.of(table, day), states.latest(table, day)
        rows, version = (
            (day_receipt.entry.rows, day_receipt.version) if day_receipt else (None, None)
        )
        reason = brief(states, table, day, state)
        culprits: tuple[str, ...] = ()
        if why and day_receipt and state is State.STALE:
            receipt = lake.store.receipt(table, day_receipt.version)
            culprits = tuple(r for r in in_full(states, table, day, receipt) if r != reason)
        return DayStatus(table, day, state, rows, version, reason, culprits, day in changing[table])

    return {name: tuple(row(name, d) for d in days) for name in states.contracts}


def _raised(states: States) -> Iterator[str]:
    """Yield a line where `start_date` lies after days that tables hold."""
    if early := states.before_start():
        yield (
            f"start_date {states.view.start} lies after {ranges(early)}, which tables hold: "
            "readers see these days as "
            f"they were, and every load is refused until start_date is {early[0]} again"
        )


def _altered(lake: Lake, states: States) -> Iterator[str]:
    """Yield a line for each table or ledger with altered data files. One `stat` per live file."""
    contracts, known = states.contracts.values(), states.view.tables
    for contract in (*contracts, *ledgers_of(contracts)):
        version = known[contract.name].version if contract.name in known else None
        if text := altered_text(lake, contract, version):
            yield f"{contract.name}: {text}"


def altered_text(lake: Lake, contract: Contract, version: int | None = None) -> str:
    """Return which data files of a version (None: the newest) are gone or altered, and the remedy;
    empty if none is.

    Also empty if the log cannot be opened, which `inspection.inspect` reports.
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
    named = [d for table in view.tables.values() for d in table.latest]
    due = (d for source in view.sources.values() for d in source.landed if view.is_due(d))
    arrived = (d for source in view.sources.values() for d in source.arrivals)
    last = max((*named, *due, *arrived), default=None)
    return None if last is None or last < view.start else from_inclusive(view.start, last)


def column_changes(contract: Contract, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a table with the columns `known` (name: type) gets and loses when it is made
    again, and the columns whose types prevent that; nothing for a table that does not exist yet."""
    wanted = {c.name: c.type for c in contract.columns}
    if not known:
        return ()
    gets = [f"gets {name} {kind}" for name, kind in wanted.items() if name not in known]
    loses = [f"loses {name}" for name in known if name not in wanted]
    other = [
        f"widens {c.name} from {known[c.name]} to {c.type}"
        if _widens(c, known[c.name])
        else f"{STUCK}{c.name} is {known[c.name]}, not {c.type}"
        for c in contract.columns
        if known.get(c.name, c.type) != c.type
    ]
    return (*gets, *loses, *other)


def _widens(column: Column, known: str) -> bool:
    with suppress(ValueError):  # a type that no contract has
        return column.kind.holds(read_type(known))
    return False
