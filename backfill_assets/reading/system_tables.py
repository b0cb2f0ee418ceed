"""System tables: days, writes, checks, landed files and more of a lake, as Arrow tables of one look
at its state.

Not here: the queries over them (`sql`), and the figures of reports. A row is a record; a column is
a field of it, whose annotation holds its type and its description.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from backfill_assets.intake.ledger import read_files
from backfill_assets.kernel.core.ledgers import QUARANTINE, TOO_LATE, source_table_name
from backfill_assets.kernel.core.rooms import installed_rooms, resolve_reference
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline


@dataclass(frozen=True)
class LakeLook:
    """A lake with its states at one moment, from which all system tables of a query are made."""

    lake: Lake
    pipeline: Pipeline
    states: States

    def holds(self, table: str, version: int) -> bool:
        """Whether the look has this version of the table, or a later one."""
        return version <= self.states.view.table(table).version


@dataclass(frozen=True)
class SystemTable:
    """A table below `system.`: the kind of its records, and a function that gives them."""

    kind: type
    rows: Callable[[LakeLook], Iterable[Any]]


@dataclass(frozen=True)
class CheckedDay:
    """A standing check: a gate of today over the receipt of a written day, the newest proof of a
    day, or a control."""

    table: Annotated[str, "the table; empty for a control"]
    check: Annotated[
        str, "the gate (row_count, profile, …), `proof`, or the control as `control NAME`"
    ]
    day: Annotated[date | None, "the day; NULL for a control"]
    outcome: Annotated[str, "pass, warn, or fail: of a gate, a write of the day would be refused"]
    what: Annotated[str, "what the check found"]


@dataclass(frozen=True)
class RejectedRows:
    """Landed rows of one file and day that no table gets, for one reason."""

    source: Annotated[str, "the source; empty where the lake has one"]
    kind: Annotated[str, "quarantine (unusable), or too_late (waits for `replay-late`)"]
    arrival_day: Annotated[date, "the day on which they arrived"]
    sha256: Annotated[str, "the file's content, as in system.landed"]
    reason: Annotated[str, "why they are unusable, or that they came too late"]
    rows: Annotated[int, "how many they are"]


@dataclass(frozen=True)
class LandedRows:
    """The rows of one arrival day in one landed file."""

    source: Annotated[str, "the source; empty where the lake has one"]
    path: Annotated[str, "the file, below the landing folder or absolute"]
    sha256: Annotated[str, "the SHA-256 of its bytes"]
    day: Annotated[date, "the arrival day of the rows"]
    rows: Annotated[int, "its rows of that day"]
    bad_rows: Annotated[int, "of these the unusable ones"]
    bytes: Annotated[int, "the size of the whole file"]
    first_scan: Annotated[datetime, "when a scan first saw it"]
    withdrawn: Annotated[bool, "whether it was taken out since"]
    refused: Annotated[str, "why no row of it can be judged; empty where rows can"]


@dataclass(frozen=True)
class DescribedColumn:
    """A column of a system table."""

    table: Annotated[str, "the system table, without `system.`"]
    column: Annotated[str, "its column"]
    type: Annotated[str, "its Arrow type"]
    about: Annotated[str, "what it holds"]


def _standing_checks(look: LakeLook) -> Iterator[CheckedDay]:
    for room in installed_rooms():
        for checked in room.checks:
            yield from resolve_reference(checked)(look)


def _rejected_rows(look: LakeLook) -> Iterator[RejectedRows]:
    late = "'it came too late'"
    for source in look.states.view.sources.values():
        for ledger, reason in ((QUARANTINE, "reason"), (TOO_LATE, late)):
            name = source_table_name(ledger, source.name)
            ledger_view = look.states.view.table(name)
            query = (
                f"SELECT arrival_date, source_file, {reason} AS why, count(*) AS n FROM t GROUP "
                "BY 1, 2, 3"
            )
            if not ledger_view.exists:
                continue
            for batch in look.lake.store.query(query, {"t": (name, ledger_view.version)}):
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield RejectedRows(source.name, ledger, *row)


def _landed_rows(look: LakeLook) -> Iterator[LandedRows]:
    for source in look.states.view.sources.values():
        for r in read_files(look.lake.store, source.name):
            for day, (rows, bad_rows, *_) in r.days.items():
                counts = day, rows, bad_rows, r.size, r.first_scan, r.withdrawn, r.refused or ""
                yield LandedRows(source.name, r.path, r.sha256, *counts)


def _described_columns(_: LakeLook) -> Iterator[DescribedColumn]:
    for name, table in system_tables().items():
        for column, (type_, about) in columns_of(table.kind).items():
            yield DescribedColumn(name, column, str(type_), about)


CHECKS = SystemTable(CheckedDay, _standing_checks)
REJECTED = SystemTable(RejectedRows, _rejected_rows)
LANDED = SystemTable(LandedRows, _landed_rows)
COLUMNS = SystemTable(DescribedColumn, _described_columns)


def system_tables() -> dict[str, SystemTable]:
    """Return the system tables of all rooms by their names, without `system.`."""
    named = {
        name: reference for room in installed_rooms() for name, reference in room.tables.items()
    }
    return {name: resolve_reference(reference) for name, reference in named.items()}


def system_table(look: LakeLook, name: str) -> Any:
    """Return the system table of that name as a `pyarrow.Table`. Raises KeyError for an unknown
    name."""
    table = system_tables()[name]
    return arrow_table(table.kind, table.rows(look))


def columns_of(kind: type) -> dict[str, tuple[Any, str]]:
    """Return the Arrow type and the description of each column of a kind of record: of fields that
    have one."""
    hints = get_type_hints(kind, include_extras=True)
    described = {
        f.name: get_args(hints[f.name])
        for f in fields(kind)
        if get_origin(hints[f.name]) is Annotated
    }
    return {name: (_arrow_type(hint), about) for name, (hint, about, *_) in described.items()}


def arrow_table(kind: type, rows: Iterable[Any]) -> Any:
    """Return records of one kind as a `pyarrow.Table`: enumerations and ranges of days as text,
    instants in UTC."""
    import pyarrow as pa

    schema, records = (
        pa.schema([(name, type_) for name, (type_, _) in columns_of(kind).items()]),
        list(rows),
    )
    columns = [[_arrow_value(getattr(record, name)) for record in records] for name in schema.names]
    return pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def write_parquet(kind: type, rows: Iterable[Any], file: Path) -> int:
    """Write records of one kind as a Parquet file, for any engine; return their number. Raises
    OSError where that fails."""
    import pyarrow.parquet as pq

    table = arrow_table(kind, rows)
    pq.write_table(table, file)
    return int(table.num_rows)


def _arrow_type(hint: Any) -> Any:
    """Return the Arrow type of an annotation; `X | None` counts as X."""
    import pyarrow as pa

    if get_origin(hint) is UnionType:
        return _arrow_type(get_args(hint)[0])
    if get_origin(hint) is tuple:
        return pa.list_(pa.string())
    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), date: pa.date32()}
    return kinds.get(hint) or (pa.timestamp("us", "UTC") if hint is datetime else pa.string())


def _arrow_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [str(v) for v in value]
    return value.value if isinstance(value, Enum) else value
