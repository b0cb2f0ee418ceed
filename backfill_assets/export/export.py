"""Export: days of a table in a place elsewhere, each replaced as a whole, and only if it changed
since.

A place changes its notes together with the rows: an export that was stopped goes on, one done twice
does nothing. Not here: the places (`export_sinks`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from backfill_assets.export.export_sinks import ExportedDay, Sink, sink_of
from backfill_assets.export.settings import exports_of
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import settled_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.fitness import unfit_days_now, unfit_text
from backfill_assets.reading.readable import readable_with

BATCH_DAYS = 31  # in one transaction, and between two notes of what a folder holds


@dataclass(frozen=True)
class Exported:
    """An export of a table."""

    table: str
    to: str
    version: int
    replaced: tuple[date, ...]
    rows: int
    same: int  # number of days that the place held already
    unfit: str  # unfit days left there as they are, in words
    newer: int  # number of days of which the place holds a newer version
    known: int = 0  # number of days that it held before
    unit: str = "day"  # what each of these days is, e.g. `month`

    def __str__(self) -> str:
        """The export as one line."""
        verb = "replaced" if self.same or self.known else "written"
        days = (
            f"{ranges_text(self.replaced)} {verb} ({self.rows} rows)"
            if self.replaced
            else "nothing changed"
        )
        more = f"; left as it is there: {self.unfit}" if self.unfit else ""
        more += f"; {self.newer} {self.unit}(s) there are of a newer version" if self.newer else ""
        return f"{self.table} to {self.to}: {days}, {self.same} {self.unit}(s) as they were{more}"


def export_days(
    lake: Lake,
    pipeline: Pipeline,
    table: str,
    to: str,
    days: DayRange | None = None,
    newest: bool = False,
) -> Exported:
    """Bring the days (None: all) of a table to the place `to`, as the newest lake version has them,
    or with `newest` the newest commit.

    Days that are missing, stale, incomplete or pending stay there as they are. Raises BackfillError
    for an unknown table, and a place that cannot be written, which then holds whole days, old or
    new.
    """
    contract = pipeline.contract(table, "Nothing was exported")
    known = readable_with(lake, pipeline, [table])
    states = known.states(settled_view(lake, known.contracts, newest))
    view = states.view.table(table)
    wanted = sorted(view.latest)
    if days is not None:
        wanted = [day for day in contract.keys_in(days) if day in view.latest]
    if not wanted:
        where = f" from {days.start} to {days.last}" if days else ""
        raise BackfillError(
            f"the table {table}",
            f"it has no day{where}",
            "Nothing was exported",
            "`backfill-assets status` lists them",
        )
    with sink_of(lake, contract, to) as sink:
        return _export_changed_days(lake, contract, states, wanted, sink)


def _export_changed_days(
    lake: Lake, contract: Contract, states: States, wanted: Sequence[date], sink: Sink
) -> Exported:
    """Replace in the sink, some days at once, the wanted days that it lacks or holds with other
    content. It keeps days that it has of a newer version, and days that are not fit for export now
    (missing, stale, incomplete, pending)."""
    table, view = contract.name, states.view.table(contract.name)
    unfit, kept = unfit_days_now(states, table, wanted), sink.held()
    marks = lake.store.marks(contract, view.version)
    ours = {
        d: ExportedDay.of(view.version, view.latest[d].entry, *marks)
        for d in wanted
        if d not in unfit
    }
    newer = {d for d in ours if d in kept and kept[d].is_newer_than(ours[d])}
    changed = [
        d
        for d, held in ours.items()
        if d not in newer and (d not in kept or not kept[d].equals(held))
    ]
    for first in range(0, len(changed), BATCH_DAYS):
        days = changed[first : first + BATCH_DAYS]
        files = lake.store.data_files(contract, view.version, days)
        try:
            sink.replace({d: ours[d] for d in days}, files)
        except Exception as error:  # of DuckDB, or of the database's driver
            if all(Path(file).exists() for file in files):
                raise
            culprit = "an erasure or upkeep took files of the exported version away meanwhile"
            undone, fix = (
                f"Of {days[0]} to {days[-1]} not all was exported",
                "Export again: it brings these days anew",
            )
            raise BackfillError(f"the table {table}", culprit, undone, fix) from error
    same, rows = len(ours) - len(changed) - len(newer), sum(ours[d].rows for d in changed)
    left = unfit_text(unfit), len(newer), len(kept), contract.calendar.unit
    return Exported(table, sink.name, view.version, tuple(changed), rows, same, *left)


def export_all(
    lake: Lake, pipeline: Pipeline, names: Sequence[str] = (), newest: bool = False
) -> list[Exported]:
    """Do the exports of `[exports]` in lake.toml (names: empty = all). Raises as `export_days`, at
    the first that fails."""
    known = exports_of(lake.settings)
    if unknown := [n for n in names if n not in known]:
        raise BackfillError(
            f"the export {unknown[0]}",
            "lake.toml has no such export",
            "Nothing was exported",
            f"Known are {', '.join(known) or 'none: see [exports] in lake.toml'}; or name a table "
            "and --to",
        )
    return [
        export_days(lake, pipeline, e.table, e.to, newest=newest)
        for n, e in known.items()
        if not names or n in names
    ]
