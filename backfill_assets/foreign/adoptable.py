"""Which daily Delta tables of others a lake can adopt in their place, the contract that one gets,
and its files' days.

Not here: adopting one (`adopting`). What plain files and whole days do not carry is refused by
name, before anything is written: deleted rows beside their files, renamed columns, features that
ask more of a writer. Of a table that is laid out by nothing each file, of one day, gets a second
name in its day's folder, by a hard link, in a bucket by a copy that the store makes: no byte passes
this machine, and readers of earlier versions find the files by their first names.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from backfill_assets.foreign.external import (
    Reference,
    UnreadableLog,
    file_references,
    open_external,
)
from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.clock import utc_now, utc_today
from backfill_assets.kernel.core.column_types import ColumnType
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.adopted import flat_file_name
from backfill_assets.kernel.log.features import refused_features
from backfill_assets.kernel.log.log import ACTIONS, commit_name
from backfill_assets.kernel.log.log_bounds import data_fault
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.columns import column_types_by_day, file_statistics, footer_in
from backfill_assets.kernel.tables.data_files import gone_or_altered
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.table_places import table_at

if TYPE_CHECKING:
    from deltalake import DeltaTable


OF_WRITERS = {  # keys of the table, or of a column, by which a writer must do what nobody here does
    "delta.constraints.": "a CHECK constraint",
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated column",
    "delta.identity.": "an identity column",
    "delta.appendOnly": "delta.appendOnly, so that no day can be replaced",
}
COPIED = (
    "spark.read.format('delta').load(PLACE)"
    ".write.format('delta').partitionBy('{day}').save(ANOTHER), with "
    "delta.enableDeletionVectors and delta.columnMapping.mode as they are by default"
)
LONGEST_FIRST = (Unit.YEAR, Unit.QUARTER, Unit.MONTH, Unit.WEEK)
AHEAD = timedelta(days=366)  # a day of the year 9999 would make every list of days as long


@dataclass(frozen=True)
class Adoption:
    """A table to adopt, as a person names it: its partitions are days where nothing is said of
    them."""

    name: str  # in the lake
    place: str  # its folder, absolute, or its address in a bucket
    day: str  # its column with a row's day, which its files are laid out by
    key: tuple[str, ...] = ()  # unique within a day, never NULL; (): rows may repeat
    note: str = ""
    every: Calendar | None = None  # what each value of `day` stands for; None: nobody said

    @property
    def calendar(self) -> Calendar:
        """Its partitions."""
        return self.every or Calendar()

    @property
    def there(self) -> Place:
        """Its folder, or its prefix in a bucket."""
        return place_of_others(self.place)

    def opened(self) -> "DeltaTable":
        """The table as it lies there now. Raises BackfillError, naming why, for one that cannot be
        read."""
        try:
            return open_external(self.name, self.place, is_plain=True)
        except BackfillError as error:
            # Others are of a store, which may answer another time.
            if type(error) not in (BackfillError, UnreadableLog):
                raise
            raise adoption_error(self.name, error.culprit, error.fix) from error


def refuse_unfit(wanted: Adoption, opened: "DeltaTable") -> None:
    """Raise BackfillError, naming why, for a table that cannot be kept as it lies."""
    kinds = column_types_by_day(opened, wanted.day)
    reasons = (
        *_protocol_misfits(wanted, opened),
        *_layout_misfits(wanted, opened),
        *_column_misfits(wanted, kinds),
    )
    for culprit, fix in reasons:
        raise adoption_error(wanted.name, culprit, fix)


def refuse_known_table(
    lake: Lake, wanted: Adoption, opened: "DeltaTable", contracts: Sequence[Contract]
) -> None:
    """Raise BackfillError for a name or a folder that the lake knows as another table, and for a
    folder that more users may read than the lake lets read."""
    refuse_other_store(wanted, lake.address)
    table = table_at(lake.place, wanted.name)
    if _is_name_taken(wanted, table):
        raise adoption_error(
            wanted.name, f"the lake has a table {wanted.name}, in {table}", "Give it another name"
        )
    if _is_place_known(lake, wanted, contracts):
        raise adoption_error(
            wanted.name,
            f"{wanted.place} is a source or a table of this lake already",
            "Name another table",
        )
    kinds = {name: str(kind) for name, kind in column_types_by_day(opened, wanted.day).items()}
    for contract in contracts:
        is_own = contract.name == wanted.name and not contract.made_by
        if is_own and contract.calendar != wanted.calendar:
            culprit = f"the lake's table {wanted.name} has every {contract.calendar}"
            raise adoption_error(wanted.name, culprit, f'Say --every "{contract.calendar}"')
        if is_own and {c.name: c.type for c in contract.columns} != kinds:
            culprit = f"the lake's table {wanted.name} has other columns than {kinds}"
            raise adoption_error(wanted.name, culprit, "Give both the same columns and types")
    if not wanted.there.is_store:
        _refuse_other_readers(lake, wanted)


def _is_name_taken(wanted: Adoption, table: Place) -> bool:
    """Whether something else than the wanted table lies at `table`, where the lake's name leads."""
    if wanted.there.is_store:
        return bool(table.names()) and table.uri() != wanted.place
    return is_taken(table.local(), Path(wanted.place))


def _is_place_known(lake: Lake, wanted: Adoption, contracts: Sequence[Contract]) -> bool:
    """Whether the wanted table is a source, an external table, or lies within the lake."""
    sources = [source.table for source in lake.settings.delivered.values() if source.table]
    known = {str((lake.root / table).resolve()) for table in sources}
    known |= {contract.external for contract in contracts}
    return wanted.place in known or f"{wanted.place}/".startswith(f"{lake.address}/")


def _refuse_other_readers(lake: Lake, wanted: Adoption) -> None:
    """Raise BackfillError for a folder that more users may read than the lake lets read."""
    if readers := readers_of(Path(wanted.place), lake.settings.access.umask):
        fix = (
            f'Write readers = "{readers}" below [access] in lake.toml, or close the folder to them'
        )
        culprit = "other users may read its folder, and could not read what this lake writes there"
        raise adoption_error(wanted.name, culprit, fix)


def refuse_other_store(wanted: Adoption, lake: str) -> None:
    """Raise BackfillError where one of a table and a lake, by its address, lies in a bucket and the
    other does not, or in a store of another kind."""
    scheme, _, _ = lake.rpartition("://")
    if wanted.place.rpartition("://")[0] == scheme:
        return
    if wanted.there.is_store:
        fix = f"Name a lake in that store: --lake {wanted.place.rpartition('/')[0]}/lake"
    else:
        fix = f"Adopt it into a lake in a folder, or copy it to {scheme}:// first"
    raise adoption_error(
        wanted.name, f"{wanted.place} does not lie where the lake {lake} can lead to it", fix
    )


def _protocol_misfits(wanted: Adoption, opened: "DeltaTable") -> Iterator[tuple[str, str]]:
    """What the table's protocol and properties ask of a writer and nobody here does, each with a
    way out."""
    protocol = opened.protocol()
    asked = (*(protocol.reader_features or ()), *(protocol.writer_features or ()))
    features = refused_features(asked, "adopted")
    if features or protocol.min_reader_version > 1:
        named = ", ".join(features) or f"reader version {protocol.min_reader_version}"
        drop = "have its owner take it away (ALTER TABLE … DROP FEATURE … TRUNCATE HISTORY)"
        copy = COPIED.format(day=wanted.day)
        yield (
            f"its protocol asks of every writer: {named}",
            f"Adopt a copy without it ({copy}), or {drop}",
        )
    configuration = opened.metadata().configuration
    keys = [("the table", key) for key, value in configuration.items() if value != "false"]
    for field in opened.schema().fields:
        keys += [(field.name, key) for key in field.metadata or {}]
    for where, key in keys:
        for prefix, what in OF_WRITERS.items():
            if key.startswith(prefix):
                yield f"{where} has {what} ({key})", "Have its owner take that away"


def _layout_misfits(wanted: Adoption, opened: "DeltaTable") -> Iterator[tuple[str, str]]:
    """That files are laid out by another column than the day, with a way out."""
    partition_columns = opened.metadata().partition_columns
    if partition_columns not in ([wanted.day], []):
        laid_out = ", ".join(partition_columns)
        yield (
            f"its files are laid out by {laid_out}: a day can be replaced, and put back, only "
            "where its files hold no "
            f"other, in folders {wanted.day}=…",
            "Name the column of its folders as the day, or write it anew, partitioned by "
            f"{wanted.day}",
        )


def _column_misfits(
    wanted: Adoption, kinds: Mapping[str, ColumnType | None]
) -> Iterator[tuple[str, str]]:
    """What of the columns, by their types here (None: none), cannot be kept, each with a way
    out."""
    if str(kinds.get(wanted.day)) != "DATE":
        yield (
            f"its column {wanted.day} is no DATE, and no STRING that names its folders",
            "Name another column as the day",
        )
    if strange := sorted(name for name, kind in kinds.items() if kind is None):
        yield (
            f"no column of a lake has the type of {', '.join(strange)}",
            "Have its owner cast it in the table",
        )
    if unknown := sorted({*wanted.key} - {*kinds}):
        yield f"it has no column {', '.join(unknown)}", f"Name key columns of {', '.join(kinds)}"


def adopted_contract(wanted: Adoption, opened: "DeltaTable") -> Contract:
    """The contract of the table as it lies there."""
    kinds, columns = column_types_by_day(opened, wanted.day), list[Column]()
    for field in opened.schema().fields:
        comment = str((field.metadata or {}).get("comment", ""))
        is_nullable = field.nullable and field.name not in (wanted.day, *wanted.key)
        columns.append(Column(field.name, str(kinds[field.name]), comment, nullable=is_nullable))
    about = opened.metadata().description or f"Adopted, in {wanted.place}."
    made_by = "/".join(wanted.name.split("__"))
    return Contract(
        name=wanted.name,
        description=about,
        columns=tuple(columns),
        day_column=wanted.day,
        key=wanted.key,
        inputs=(),
        made_by=made_by,
        calendar=wanted.calendar,
    )


def refuse_wrong_days(wanted: Adoption, there: Sequence[Reference]) -> None:
    """Raise BackfillError for files of rows without a day, of what is none, and of what names no
    partition."""
    for reference in there:
        path, value = reference.file.path, reference.file.partition
        if value is None:
            rows = sum(r.rows or 0 for r in there if r.file.partition is None)
            raise adoption_error(
                wanted.name,
                f"{rows} row(s) have no day, in {path}",
                "Give them a day there, or delete them",
            )
        if not _is_near_day(value):
            raise adoption_error(
                wanted.name,
                f"the file {path} is of {value!r}, which is no day until next year",
                "Delete it, or have its owner write the table anew with a DATE there, of a month "
                "its first day (and say --every month)",
            )
    _refuse_other_periods(wanted, sorted({r.file.partition for r in there if r.file.partition}))


def _refuse_other_periods(wanted: Adoption, days: Sequence[str]) -> None:
    """Raise BackfillError for days that are no partitions, and where nobody said whether each of
    them stands for a longer period, as all of them could."""
    keys = [*map(date.fromisoformat, days)]
    for key in keys:
        if not wanted.calendar.is_key(key):
            raise adoption_error(
                wanted.name,
                f"it has rows of {key}, which names no partition: every {wanted.calendar}",
                "Say --every as it is, or have its owner move the rows",
            )
    unit = next((unit for unit in LONGEST_FIRST if all(map(Calendar(unit).is_key, keys))), None)
    if wanted.every is None and unit is not None and len(keys) > 1:
        raise adoption_error(
            wanted.name,
            f"each of its {len(keys)} days is the first of a {unit}, and may stand for all of it",
            f"Say --every {unit} if it does, else --every day",
        )


def _is_near_day(value: str) -> bool:
    """Whether a text is a day as folders name it, at most a year ahead."""
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return False
    return str(day) == value and day <= utc_today() + AHEAD


def adoption_error(table: str, culprit: str, fix: str, done: str = "adopted") -> BackfillError:
    """The refusal to adopt a table, or to judge what others wrote to it."""
    return BackfillError(f"the table {table}", culprit, f"It was not {done}", fix)


ANEW = (
    "Name another column, or have its owner write it anew: "
    "spark.read.format('delta').load(PLACE).write.format('delta')"
    ".mode('overwrite').option('overwriteSchema', 'true').partitionBy('{day}').save(PLACE)"
)


def contract_of_files(wanted: Adoption, opened: "DeltaTable") -> Contract:
    """The contract by which the table's files can be read as they lie."""
    contract = adopted_contract(wanted, opened)
    if opened.metadata().partition_columns:
        return contract
    return replace(contract, partition_by="", made_by="")


def files_with_days(wanted: Adoption, opened: "DeltaTable") -> list[Reference]:
    """The data files of a table, each with its day as its partition. Raises BackfillError for files
    that are gone, and where nothing lays them out for a file that holds several days, or rows
    without one."""
    contract = contract_of_files(wanted, opened)
    there = file_references(opened, contract, wanted.there)
    if lost := gone_or_altered(wanted.there, [r.file for r in there]):
        named = f"its log names {len(lost)} file(s) that are gone, first {lost[0].path}"
        raise adoption_error(wanted.name, named, "Restore them")
    if why := data_fault(wanted.there, (r.file.path for r in there)):
        raise adoption_error(wanted.name, why, ANEW.format(day=wanted.day))
    if contract.partition_column:
        return there
    return [_with_day(wanted, reference) for reference in there]


def first_day(wanted: Adoption) -> date:
    """The first day of a table to adopt, today for one without rows. Raises BackfillError for one
    that does not fit."""
    opened = wanted.opened()
    refuse_unfit(wanted, opened)
    files = files_with_days(wanted, opened)
    refuse_wrong_days(wanted, files)
    days = [date.fromisoformat(r.file.partition) for r in files if r.file.partition]
    return min(days, default=utc_today())


def _with_day(wanted: Adoption, reference: Reference) -> Reference:
    """The file with the one day of its rows as its partition. Raises BackfillError for rows without
    a day, for several days, and for a name that a log would write otherwise."""
    path = reference.file.path
    first, last, without = _day_bounds(wanted.there, path, wanted.day)
    if without:
        raise adoption_error(
            wanted.name,
            f"{without} row(s) have no day, in {path}",
            "Give them a day there, or delete them",
        )
    if first != last:
        culprit = (
            f"its file {path} holds days from {first} to {last}: a day can be replaced only where "
            "files hold one"
        )
        raise adoption_error(wanted.name, culprit, ANEW.format(day=wanted.day))
    if quote(path, safe="/=") != path:
        raise adoption_error(
            wanted.name, f"its log writes the name of {path} otherwise", ANEW.format(day=wanted.day)
        )
    return replace(reference, file=replace(reference.file, partition=str(first)))


def _day_bounds(place: Place, name: str, day: str) -> tuple[date | None, date | None, int]:
    """The least and greatest day in a file, and how many rows have none: by the rows, since a log
    may be wrong."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with place.open(name) as content:
        opened = pq.ParquetFile(content)
        if day not in opened.schema_arrow.names:
            return None, None, opened.metadata.num_rows
        days = opened.read([day]).column(0)
    found = pc.min_max(days).as_py()
    return found["min"], found["max"], days.null_count


def commit_second_names(
    table: Place,
    wanted: Adoption,
    opened: "DeltaTable",
    properties: Mapping[str, str],
    info: Mapping[str, Any],
) -> None:
    """Give each file its second name, in the folder of its day, and commit these in place of the
    first ones, in the version after the one that is opened. The table gets the `properties` and is
    laid out by its day; the commit says `info`. Raises AlreadyThere where others committed
    meanwhile."""
    now = int(utc_now().timestamp() * 1000)
    actions = [_laid_out_metadata(wanted, opened, properties)]
    for reference in files_with_days(wanted, opened):
        actions += _second_name_actions(table, wanted, reference, now)
    table.sync_new([action["add"]["path"] for action in actions if "add" in action])
    commit_info = {
        "timestamp": now,
        "operation": "ADOPT",
        "operationParameters": {},
        **info,
        ACTIONS: str(len(actions)),
    }
    commit = [{"commitInfo": commit_info}, *actions]
    lines = [json.dumps(action, separators=(",", ":")) for action in commit]
    table.write(commit_name(opened.version() + 1), "\n".join(lines).encode(), if_absent=True)


def _laid_out_metadata(
    wanted: Adoption, opened: "DeltaTable", properties: Mapping[str, str]
) -> dict[str, Any]:
    """The action that lays the table out by its day, with further properties."""
    metadata = opened.metadata()
    return {
        "metaData": {
            "id": str(metadata.id),
            "name": metadata.name,
            "description": metadata.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": opened.schema().to_json(),
            "partitionColumns": [wanted.day],
            "configuration": {**metadata.configuration, **properties},
            "createdTime": metadata.created_time,
        }
    }


def _second_name_actions(
    place: Place, wanted: Adoption, reference: Reference, now: int
) -> Sequence[dict[str, Any]]:
    """Give a file its second name; the actions that take the first one out and add the second."""
    file = reference.file
    name = f"{wanted.day}={file.partition}/{flat_file_name(file.path)}"
    # A call that was killed may have given it already; of another size it was stopped halfway.
    present_size = place.size(name)
    if present_size != file.size:
        if present_size is not None:
            place.delete(name)
        place.link(name, place, file.path)
    stats = file_statistics(footer_in(place, name))
    gone = {"path": file.path, "deletionTimestamp": now, "partitionValues": {}, "size": file.size}
    added = {
        "path": name,
        "partitionValues": {wanted.day: file.partition},
        "size": file.size,
        "stats": stats,
    }
    return (
        {"remove": {**gone, "dataChange": False, "extendedFileMetadata": True}},
        {"add": {**added, "modificationTime": now, "dataChange": False}},
    )


def readers_of(place: Path, umask: int) -> str:
    """The users that may read a folder, and not what is written there with that umask, in the words
    of `[access]`; empty for none."""
    hidden = place.stat().st_mode & umask & 0o055
    return "everyone" if hidden & 0o005 else "group" if hidden else ""


def is_taken(folder: Path, place: Path) -> bool:
    """Whether a folder exists that is not that place, to which it may be a link."""
    return folder.exists() and folder.resolve() != place
