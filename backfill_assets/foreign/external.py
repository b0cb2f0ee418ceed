"""Tables that others write, as a lake takes them in: where they lie, what can be read of them,
their files by days.

Not here: which days changed since the lake last looked, and their receipts (`foreign.observing`).
The lake keeps a folder with a log of its own for such a table: it names the others' files, in a
bucket by their addresses, in a folder behind a symbolic link, so that readers read a version of it
as of any table, and receipts say which rows each day has. No file of the others is ever written.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_assets.assets.declared import catalog_places, declared_tables
from backfill_assets.cli.common import ObservationForm
from backfill_assets.kernel.core.addresses import table_address
from backfill_assets.kernel.core.calendars import Calendar
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import ONE_DAY, ranges_text
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.log.features import refused_features
from backfill_assets.kernel.log.file_names import OTHERS, file_fault, name_fault, printable_name
from backfill_assets.kernel.log.log import FileChange, LiveFile, commit_digest
from backfill_assets.kernel.log.log_bounds import log_fault
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.columns import column_types, footer_in
from backfill_assets.kernel.tables.embedded import is_delta, why_not_delta
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.tables.table_places import base_lake_folder
from backfill_assets.kernel.write.model import Table

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Of the digest of the folder: another place gets another link, and older versions keep theirs.
PLACE_CHARS = 8
UNKNOWN_TYPE = re.compile(r"Unsupported Delta table type: '([^']*)'")  # of delta-rs
STACK = re.compile(r" 0: <unknown>")  # begins the addresses of its stack, after its words
MOST_DAYS = 20_000  # of a file: with more it holds days that nobody counts, such as 9999-12-31
PLAIN = (
    "Have its owner write it as plain files (spark.read of it, written to another folder), or "
    "name another table"
)


@dataclass(frozen=True)
class ExternalTable:
    """A Delta table that others write, by days or longer partitions, as a pipeline declares it."""

    name: str
    table: (
        str  # its folder, relative to lake.toml, its address in a bucket, or its name in a catalog
    )
    day: str  # its column with the day, a DATE
    description: str = ""
    made_by: str = ""  # the key of the project's asset that stands for it
    first_day: date | None = None  # days before it are left out
    # Its partitions: the first day of each is in the column `day`.
    calendar: Calendar = field(default_factory=Calendar)

    def table_at(self, root: Path) -> Table:
        """The table of the lake at `root`. Raises SettingsError as `external_contract` does."""
        return Table(external_contract(root, self))


class UnreadableLog(BackfillError):
    """What others wrote to the log of their table cannot be read."""


def external_table(name: str, *, table: str, day: str, description: str = "") -> ExternalTable:
    """Declare a daily Delta table that others write as a table `name` of the lake, which others are
    made from: `Input("orders", before=6)`. Give it beside the Tables of a pipeline.

    table: its folder, relative to `lake.toml`, its address in a bucket (`s3://…`, `az://…`,
    `gs://…`), or its name in a
        catalog (`SCHEMA.TABLE`, `CATALOG.SCHEMA.TABLE`), whose place `backfill-assets locate` has
        recorded.
    day: its column with a row's day, of type DATE; rows without a day belong to none and are
    counted.
    """
    return ExternalTable(name, table, day, description)


@dataclass(frozen=True)
class Reference:
    """A data file of a table of others."""

    file: LiveFile  # as the lake's log names it
    rows: int | None  # None: not known
    first: date | None  # of the days that it may hold rows of; None: any
    last: date | None  # the last of them, included

    @property
    def days(self) -> Iterator[date] | None:
        """The days that it may hold rows of; None: any."""
        if self.first is None or self.last is None or (self.last - self.first).days > MOST_DAYS:
            return None
        return days_between(self.first, self.last)

    def stats(self, day_column: str) -> str:
        """Its statistics in Delta's JSON: rows, and the least and greatest day, no value of another
        column."""
        known: dict[str, Any] = {}
        if self.rows is not None:
            known["numRecords"] = self.rows
        if not self.file.partition and self.first is not None:
            known["minValues"] = {day_column: str(self.first)}
            known["maxValues"] = {day_column: str(self.last)}
        return json.dumps(known, separators=(",", ":"))


@dataclass(frozen=True)
class Observation:
    """What a look at a table of others found."""

    table: str
    version: int  # of the others' log
    days: tuple[date, ...] = ()  # whose rows are new, or others than before
    without_day: int = 0  # rows that have none
    is_adopted: bool = False  # others wrote to a table of the lake, and their days were judged

    def __str__(self) -> str:
        changed = (
            f"rows of {ranges_text(self.days)} are new or others" if self.days else "no row changed"
        )
        without = (
            f"; {self.without_day} row(s) without a day are left out" if self.without_day else ""
        )
        kind = "adopted " if self.is_adopted else "external"
        return f"{kind}   {self.table}: version {self.version} there, {changed}{without}"

    def to_dict(self) -> ObservationForm:
        """What was found as JSON values."""
        return {
            "version": self.version,
            "days": list(map(str, self.days)),
            "rows_without_day": self.without_day,
        }


def tables_of_others(root: Path, settings: LakeSettings) -> list[Table]:
    """The tables that others write and that `lake.toml` names."""
    found = []
    for name, table in settings.tables.items():
        if table.is_of_others:
            declared = ExternalTable(
                name,
                table.external,
                table.day,
                table.description,
                calendar=table.calendar or Calendar(),
            )
            found.append(declared.table_at(root))
    return found


def external_contract(root: Path, table: ExternalTable) -> Contract:
    """The contract of a declared table, with the columns that were last seen, or are there now if
    the lake never looked; of a log that cannot be read its day alone, so that the other tables can
    be. Raises SettingsError for a table that does not fit, and as `recorded_place` does."""
    place = recorded_place(root, table)
    wanted = (table.name, place, table.day)
    for known in declared_tables(root):  # of a candidate, those of the lake beside it
        contract = known.contract
        if (contract.name, contract.external, contract.day_column) == wanted:
            return replace(contract, calendar=table.calendar)
    try:
        return seen_contract(replace(table, table=place), open_external(table.name, place))
    except UnreadableLog:
        columns = (Column(table.day, "DATE", table.day, nullable=False),)
        about = f"A table of others, in {place}, whose log could not be read yet."
        return Contract(
            table.name,
            about,
            columns,
            table.day,
            key=(),
            inputs=(),
            partition_by="",
            external=place,
            calendar=table.calendar,
        )
    except BackfillError as error:
        raise SettingsError(*error.args) from error


def recorded_place(root: Path, table: ExternalTable) -> str:
    """The address, or the absolute folder, of a table of others that the lake at `root` reads: the
    recorded one of a name in a catalog, else as settings name it. Raises SettingsError for an
    address that none can have, and for a name whose place is not recorded."""
    return external_place(
        table.name, catalog_places(root).get(table.table, table.table), base_lake_folder(root)
    )


def external_place(name: str, table: str, base: Path) -> str:
    """The address of a table of others in a bucket, or its absolute folder; relative to `base`,
    which may be this machine's folder of a lake in a bucket. Raises SettingsError for an address
    that none can have."""
    address = table_address(table, base, f"the external table {name}")
    return address or str((base / Path(table).expanduser()).resolve())


def open_external(
    name: str, place: str, version: int | None = None, *, is_plain: bool = False
) -> "DeltaTable":
    """The table of others in a folder or a bucket, at a version (None: the newest). `is_plain`: its
    files must give its rows as they lie. Raises BackfillError, naming why, for one that is not
    there, for a feature that is not read and, if it `is_plain`, for deleted rows and renamed
    columns."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if not is_delta(there := place_of_others(place)):
        raise external_table_error(name, *why_not_delta(there))
    if why := log_fault(there, version):
        raise unreadable_log_error(name, why)
    try:
        opened = DeltaTable(there.uri(), version=version)
    except (DeltaError, OSError) as error:
        there.refuse_loss(error)
        if unknown := UNKNOWN_TYPE.search(str(error)):
            culprit = f"a column of it has the type {unknown[1]}, which is not known here"
            raise external_table_error(name, culprit, PLAIN) from error
        told = STACK.split(" ".join(str(error).split()))[0]
        raise unreadable_log_error(name, f"{place}: {told}") from error
    for feature in refused_features(opened.protocol().reader_features or (), "input"):
        raise external_table_error(name, f"its readers need the feature {feature}", PLAIN)
    if is_plain:
        _refuse_no_plain_files(name, opened)
    return opened


def _refuse_no_plain_files(name: str, opened: "DeltaTable") -> None:
    """Raise BackfillError for renamed columns and deleted rows that plain files do not show."""
    mode = opened.metadata().configuration.get("delta.columnMapping.mode") or "none"
    if mode != "none":
        culprit = f"its columns are renamed by column mapping ({mode})"
        raise external_table_error(name, culprit, PLAIN)
    if _has_deleted_rows(opened):
        culprit = "it has deletion vectors, rows that are deleted beside their files"
        raise external_table_error(name, culprit, PLAIN)  # a purge leaves the feature itself


def _has_deleted_rows(opened: "DeltaTable") -> bool:
    """Whether rows of its files are deleted by deletion vectors, or one of these cannot be read."""
    from deltalake.exceptions import DeltaError

    if "deletionVectors" not in (opened.protocol().reader_features or ()):
        return False
    try:
        return any(batch.num_rows for batch in opened.deletion_vectors())
    except DeltaError:  # it has one that cannot be read
        return True


def seen_contract(table: ExternalTable, opened: "DeltaTable") -> Contract:
    """The contract of a table of others (in an absolute folder) as it was opened. Columns of types
    that no column of a lake has are left out. Raises BackfillError where its column with the day is
    no DATE, or its files are laid out by another column."""
    kinds = {column: str(kind) for column, kind in column_types(opened).items() if kind is not None}
    name, place, day = table.name, table.table, table.day
    if kinds.get(day) != "DATE":
        is_there = day in {f.name for f in opened.schema().fields}
        why = f"its column {day} is no DATE" if is_there else f"it has no column {day}"
        dates = [column for column, kind in kinds.items() if kind == "DATE"]
        has = ", ".join(dates) or "none: have its owner add one, of a month its first day"
        raise external_table_error(
            name, why, f"Name a column of type DATE as its day; it has {has}"
        )
    laid_out = opened.metadata().partition_columns
    if laid_out not in ([], [day]):
        culprit = (
            f"its files are laid out by {', '.join(laid_out)}: by {day} alone, or by nothing, can "
            "be read"
        )
        raise external_table_error(name, culprit, PLAIN)
    columns = [
        Column(column, kind, column, nullable=column != day) for column, kind in kinds.items()
    ]
    return Contract(
        name,
        table.description or f"A table of others, in {place}.",
        tuple(columns),
        day,
        key=(),
        inputs=(),
        partition_by=None if laid_out else "",
        made_by=table.made_by,
        first_day=table.first_day,
        external=place,
        calendar=table.calendar,
    )


def declaration_of(contract: Contract) -> ExternalTable:
    """The declaration of a table of others that has this contract."""
    named = contract.name, contract.external, contract.day_column, contract.description
    return ExternalTable(*named, contract.made_by, contract.first_day, contract.calendar)


def days_between(first: date, last: date) -> Iterator[date]:
    """The days `first` through `last`, both included; none where `last` comes first."""
    return (first + ONE_DAY * n for n in range((last - first).days + 1))


def days_of_change(change: FileChange, contract: Contract) -> Iterable[date] | None:
    """The days that a file in a log of others may hold rows of, by its folder or its statistics;
    None: any."""
    day = contract.day_column
    if contract.partition_column and day in change.values:
        value = change.values[day]
        return [date.fromisoformat(value)] if value else []
    try:
        stats = json.loads(change.stats)
        first = date.fromisoformat(stats["minValues"][day])
        last = date.fromisoformat(stats["maxValues"][day])
    except (ValueError, KeyError, TypeError):
        return None
    file = LiveFile(change.path, partition=None, size=change.size)
    return Reference(file, rows=None, first=first, last=last).days


def digest_of_commit(contract: Contract, version: int) -> str:
    """The digest of a commit of a table of others; empty where its log does not have it."""
    try:
        return commit_digest(place_of_others(contract.external), version)
    except OSError:
        return ""


def file_prefix(table: Place, contract: Contract) -> str:
    """What the names of others' files begin with in the lake's log of their table: its address in a
    bucket, or a link to its folder, which is made here."""
    if "://" in contract.external:
        return f"{contract.external}/"
    link = f"{OTHERS}{digest_of(contract.external)[:PLACE_CHARS]}"
    table.point(link, Path(contract.external))
    return f"{link}/"


def file_references(
    opened: "DeltaTable",
    contract: Contract,
    place: Place,
    prefix: str | None = "",
    day_in_files: str = "",
) -> list[Reference]:
    """The data files of an opened table of others, which lies at `place`, those of rows without a
    day included. `prefix`: what their names begin with in the lake's log of the table (""; None:
    `opened` is that log, whose names have it already, and are trusted). `day_in_files`: what the
    day is called in files whose folders do not name it ("": as in the table). Raises BackfillError
    for names that are no files of the table, and for paths that do not name their day."""
    added = opened.get_add_actions(flatten=True)
    day = contract.day_column
    found = list[Reference]()
    columns = {name: added.column(name).to_pylist() for name in added.schema.names}
    unknown = [None] * added.num_rows  # of a column that the log does not have
    laid_out = contract.partition_column == day
    is_theirs = prefix is not None
    for path, size, rows, value, least, most in zip(
        columns["path"],
        columns["size_bytes"],
        columns.get("num_records", unknown),
        columns.get(f"partition.{day}", unknown),
        columns.get(f"min.{day_in_files or day}", unknown),
        columns.get(f"max.{day_in_files or day}", unknown),
        strict=True,
    ):
        if is_theirs:
            _refuse_name(contract, path)
        if laid_out and value and not day_in_files and f"{day}={value}/" not in path:
            raise _named_file_error(contract, path, "which is not named by its folder and day")
        first, last = (value, value) if laid_out else (least, most)
        file = LiveFile(f"{prefix or ''}{path}", str(value) if value else None, size)
        found.append(Reference(file, rows, first, last))
    if is_theirs and (why := file_fault(place, columns["path"])):
        raise external_table_error(contract.name, f"its log {why}", PLAIN)
    return found


def _refuse_name(contract: Contract, path: str) -> None:
    """Raise BackfillError for a name that is none of a file of a table, as the log writes it or
    decoded."""
    if why := name_fault(path) or name_fault(unquote(path)):
        raise _named_file_error(contract, path, why)


def _named_file_error(contract: Contract, path: str, why: str) -> BackfillError:
    return external_table_error(
        contract.name, f"its log names the file {printable_name(path)}, {why}", PLAIN
    )


def days_by_footer(reference: Reference, place: Place, contract: Contract) -> Reference:
    """The reference with the days that its file's own footer tells, as `place` names it; unchanged
    where it tells none. Raises OSError for a file that is gone."""
    metadata = footer_in(place, reference.file.path).metadata
    day_column = contract.day_column
    days: list[date] = []
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        chunks = (row_group.column(n) for n in range(metadata.num_columns))
        known = next((c.statistics for c in chunks if c.path_in_schema == day_column), None)
        if known is None or not known.has_min_max:
            return reference
        days += [known.min, known.max]
    span = (min(days), max(days)) if days else (None, None)
    return Reference(reference.file, metadata.num_rows, *span)


def refuse_other_layout(contract: Contract, own: "DeltaTable", where: Place) -> None:
    """Raise BackfillError where others made a table anew that other columns lay out than the lake's
    `own` log of it, at `where`, which cannot change them."""
    before = own.metadata().partition_columns
    now = [contract.partition_column] if contract.partition_column else []
    if before != now:
        by, was = ", ".join(now) or "no column", ", ".join(before) or "no column"
        raise external_table_error(
            contract.name,
            f"it was made anew: {by} lays it out, and {was} did when it was first seen",
            f"Move {where}, which holds what was seen of it and no rows, away, and look again: "
            "what was made from days that have the same rows stays fresh",
        )


def unreadable_log_error(name: str, culprit: str) -> UnreadableLog:
    """The error about the log of a table of others."""
    fix = "Have its owner restore its log, or write the table anew as plain files"
    return UnreadableLog(f"the external table {name}", culprit, "Nothing was read or recorded", fix)


def external_table_error(name: str, culprit: str, fix: str) -> BackfillError:
    """The refusal of a table of others."""
    return BackfillError(f"the external table {name}", culprit, "Nothing was read or recorded", fix)
