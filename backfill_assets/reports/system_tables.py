"""The system tables `days`, `writes`, `day_writes`, `runs` and `lateness`, and the rows of gates in
`system.checks`.

Not here: how records become columns (`reading.system_tables`), and the figures themselves
(`status`, `report`, `lateness`, `check_history`).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated

from backfill_assets.reading.check_history import checked_days
from backfill_assets.reading.system_tables import CheckedDay, LakeLook, SystemTable
from backfill_assets.reading.writes import DayAudit, TableWrite, day_audits, table_writes
from backfill_assets.reports.lateness import read_lateness
from backfill_assets.reports.status import DayStatus, day_rows, known_days


@dataclass(frozen=True)
class LateRows:
    """Loaded upserts of one source, by the day on which they arrived and the day of their
    events."""

    source: Annotated[str, "the source; empty where the lake has one"]
    arrival_day: Annotated[date, "the day on which they arrived (UTC)"]
    event_day: Annotated[date, "the day of their events (UTC)"]
    days_late: Annotated[int, "arrival day minus event day; 0 where they came before their day"]
    rows: Annotated[int, "how many they are"]


@dataclass(frozen=True)
class TableRun:
    """A run that committed something, by the receipts that name it. Of other runs only Dagster
    knows."""

    run_id: Annotated[str, "the run of Dagster, or of a command"]
    by: Annotated[str, "who asked for it"]
    reason: Annotated[str, "why: manual, landing, late_data, plan, rollback, …"]
    first: Annotated[datetime, "its first commit"]
    last: Annotated[datetime, "its last commit"]
    tables: Annotated[tuple[str, ...], "the tables that it wrote, in that order"]
    days: Annotated[int, "days of tables that it wrote"]
    changed: Annotated[int, "of these the ones whose rows changed"]
    rows: Annotated[int, "rows of these days"]


def _day_statuses(look: LakeLook) -> Iterator[DayStatus]:
    days = known_days(look.states.view) or ()
    for rows in day_rows(look.lake, look.states, days).values():
        yield from rows


def _table_writes(look: LakeLook) -> Iterator[TableWrite]:
    return (w for w in table_writes(look.lake, look.pipeline) if look.holds(w.table, w.version))


def _day_writes(look: LakeLook) -> Iterator[DayAudit]:
    return (w for w in day_audits(look.lake, look.pipeline) if look.holds(w.table, w.version))


def _late_rows(look: LakeLook) -> Iterator[LateRows]:
    for source in look.states.view.sources.values():
        if source.is_loaded:
            for c in read_lateness(look.lake.store, source.table, source.loaded_version).cells:
                yield LateRows(source.name, c.arrival_day, c.event_day, c.age_days, c.rows)


def _table_runs(look: LakeLook) -> Iterator[TableRun]:
    """Yield the runs that receipts name, the newest first, each summed over the days it wrote."""
    writes_of: dict[str, list[DayAudit]] = defaultdict(list)
    for write in _day_writes(look):
        if write.run_id:
            writes_of[write.run_id].append(write)
    for run_id, found in writes_of.items():  # newest first
        yield TableRun(
            run_id,
            found[0].by,
            found[0].reason,
            first=min(w.at for w in found),
            last=max(w.at for w in found),
            tables=tuple(dict.fromkeys(w.table for w in reversed(found))),
            days=len(found),
            changed=sum(w.changed for w in found),
            rows=sum(w.rows or 0 for w in found),
        )


def checked_gates(look: LakeLook) -> Iterator[CheckedDay]:
    """Yield a row of `system.checks` per gate of today over each written day."""
    for table, found in checked_days(look.lake, look.states):
        outcome = "fail" if found.refuses else "warn"
        if found.passed:
            outcome = "pass"
        yield CheckedDay(table, found.check, found.day, outcome, found.message)


DAYS = SystemTable(DayStatus, _day_statuses)
WRITES = SystemTable(TableWrite, _table_writes)
DAY_WRITES = SystemTable(DayAudit, _day_writes)
LATENESS = SystemTable(LateRows, _late_rows)
RUNS = SystemTable(TableRun, _table_runs)
