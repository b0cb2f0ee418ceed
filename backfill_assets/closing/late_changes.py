"""What would have changed closed days: each with the rows that came for it since it was made.

Not here: closing days (`closing.closing`), and how late rows come in general (`reports.lateness`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, TypedDict

from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.contracts import Contract, InputKind
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.plans import restored_version
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import NO_VERSION, Source
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.system_tables import CheckedDay, LakeLook, SystemTable

CHECK = "closed"  # the name of the check


class LateForm(TypedDict):
    """A closed day whose inputs changed since it was made."""

    table: str
    day: DayText
    closed_until: DayText
    rows: int | None
    last_arrival: DayText | None


@dataclass(frozen=True)
class LateIntoClosed:
    """A closed day whose inputs changed since it was made."""

    table: Annotated[str, "the table"]
    day: Annotated[date, "the closed day"]
    closed_until: Annotated[date, "the last closed day of the table"]
    rows: Annotated[
        int | None,
        "deliveries for the day on arrival days that were loaded since it was made; NULL where the "
        "table is made from other tables",
    ]
    last_arrival: Annotated[date | None, "the newest of these arrival days"]

    def to_dict(self) -> LateForm:
        """The day as JSON values."""
        return {
            "table": self.table,
            "day": str(self.day),
            "closed_until": str(self.closed_until),
            "rows": self.rows,
            "last_arrival": None if self.last_arrival is None else str(self.last_arrival),
        }


def late_changes(lake: Lake, states: States) -> Iterator[LateIntoClosed]:
    """Yield the closed days that a rebuild would change, by table and day: that do not hold what
    their inputs say, also where a rollback holds them, or were never made and something arrived for
    them. Reads the ledgers of sources, no rows."""
    for contract in states.contracts.values():
        closure = states.view.table(contract.name).closure
        if closure is None:
            continue
        sources = _sources_read(states, contract)
        days = _changed_days(states, contract, sources)
        counted = _late_deliveries(lake, states, contract, sources, days)
        for day in days:
            rows, last = counted.get(day, (0 if sources else None, None))
            yield LateIntoClosed(contract.name, day, closure.until, rows, last)


def _sources_read(states: States, contract: Contract) -> list[Source]:
    """The sources whose deliveries the table is made from directly."""
    arrivals = [i.table for i in contract.inputs if i.kind is InputKind.ARRIVALS]
    return [states.view.source(table) for table in arrivals]


def _changed_days(states: States, contract: Contract, sources: Iterable[Source]) -> list[date]:
    """The closed days of the table that hold something else than their inputs say, or were never
    made and for which something arrived, ascending."""
    view = states.view.table(contract.name)
    arrived = set[date]().union(*(source.arrivals for source in sources))
    found = []
    for day in sorted({*view.latest, *arrived}):
        if day < states.view.start or not view.is_closed(day):
            continue
        state = states.of_open(contract.name, day)
        if state is State.HELD:  # its hold says nothing about what came since
            is_changed = states.is_stale(contract.name, day, view.latest[day])
        else:
            is_changed = state is State.STALE or (state is State.MISSING and day in arrived)
        if is_changed:
            found.append(day)
    return found


def _late_deliveries(
    lake: Lake,
    states: States,
    contract: Contract,
    sources: Sequence[Source],
    days: Sequence[date],
) -> dict[date, tuple[int, date]]:
    """By closed day the deliveries for it on arrival days that were loaded since it was made, and
    the newest of these."""
    found = dict[date, tuple[int, date]]()
    for source in sources:
        if not days or not source.ledger.exists:
            continue
        read = {day: _version_read(lake, states, contract, source, day) for day in days}
        for arrival, event, deliveries in _ledger_rows(lake, source, days):
            loaded = source.loaded.latest.get(arrival)
            if loaded is not None and loaded.version > read[event]:
                rows, last = found.get(event, (0, arrival))
                found[event] = rows + deliveries, max(last, arrival)
    return found


def _version_read(lake: Lake, states: States, contract: Contract, source: Source, day: date) -> int:
    """The version of the landed table from which the rows of a day were made, also where a rollback
    put them back; before the first where it was never made."""
    latest = states.latest(contract.name, day)
    while latest is not None:
        receipt = lake.store.receipt(contract.name, latest.version)
        if receipt is None:
            break
        put_back = restored_version(receipt, day)
        if put_back is None:
            return receipt.inputs.get(source.table, NO_VERSION)
        latest = lake.store.view(contract.name, contract.day_column, put_back).latest.get(day)
    return NO_VERSION


def _ledger_rows(
    lake: Lake, source: Source, days: Sequence[date]
) -> Iterator[tuple[date, date, int]]:
    """Yield the arrival day, the event day and the deliveries of each row of the ledger `arrivals`
    for these event days."""
    query = (
        "SELECT arrival_date, event_date, deliveries FROM t WHERE event_date BETWEEN "
        f"DATE '{days[0]}' AND DATE '{days[-1]}'"
    )
    wanted = {*days}
    tables = {"t": (source.ledger_name, source.ledger.version)}
    for batch in lake.store.query(query, tables):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if row[1] in wanted:
                yield row


def late_lines(lake: Lake, states: States) -> Iterator[str]:
    """Yield a line per closed table to which something came late, for `status`."""
    by_table = dict[str, list[LateIntoClosed]]()
    for change in late_changes(lake, states):
        by_table.setdefault(change.table, []).append(change)
    for table, changes in by_table.items():
        days = ranges_text(change.day for change in changes)
        yield (
            f"{table}: late into a closed period: {_rows_text(changes)}{days}, closed up to "
            f"{changes[0].closed_until}{_closer_text(states, table)}; `backfill-assets closed` "
            "lists them"
        )


def _rows_text(changes: Sequence[LateIntoClosed]) -> str:
    """How many rows came late, where that is known."""
    counts = [change.rows for change in changes if change.rows is not None]
    return f"{sum(counts)} row(s) for " if counts else ""


def _closer_text(states: States, table: str) -> str:
    """Who closed the table."""
    closure = states.view.table(table).closure
    return f" by {closure.by}" if closure is not None and closure.by else ""


def checked_closures(look: LakeLook) -> Iterator[CheckedDay]:
    """Yield a row of `system.checks` per closed day that a rebuild would change: a warning."""
    for change in late_changes(look.lake, look.states):
        rows = "" if change.rows is None else f"{change.rows} row(s) "
        yield CheckedDay(
            table=change.table,
            check=CHECK,
            day=change.day,
            outcome="warn",
            what=f"{rows}late into a closed period, which ends with {change.closed_until}",
        )


def _late_days(look: LakeLook) -> Iterator[LateIntoClosed]:
    """Yield the rows of the system table."""
    yield from late_changes(look.lake, look.states)


LATE_INTO_CLOSED = SystemTable(LateIntoClosed, _late_days)
