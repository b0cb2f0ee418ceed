"""Which daily Delta tables of others a lake can adopt in their place, and the contract that such a table gets.

Not here: adopting one (`adopting`). What plain files and whole days do not carry is refused by name, before anything is
written: deleted rows beside their files, renamed columns, features that ask more of a writer, other layouts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.clock import utc_today
from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.place import Place
from backfill_assets.lake.columns import kinds_of
from backfill_assets.lake.declared import table_at
from backfill_assets.lake.external import Reference
from backfill_assets.lake.folder import is_taken, readers_of
from backfill_assets.lake.home import Lake
from backfill_assets.places.choice import others_at

if TYPE_CHECKING:
    from deltalake import DeltaTable

KNOWN_FEATURES = {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}
OF_WRITERS = {  # keys of the table, or of a column, by which a writer must do what nobody here does
    "delta.constraints.": "a CHECK constraint", "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated column", "delta.identity.": "an identity column",
    "delta.appendOnly": "delta.appendOnly, so that no day can be replaced",
}  # fmt: skip
COPIED = (
    "spark.read.format('delta').load(PLACE).write.format('delta').partitionBy('{day}').save(ANOTHER), with "
    "delta.enableDeletionVectors and delta.columnMapping.mode as they are by default"
)
AHEAD = timedelta(days=366)  # a day of the year 9999 would make every list of days as long


@dataclass(frozen=True)
class Adoption:
    """A table to adopt, as a person names it."""

    name: str  # in the lake
    place: str  # its folder, absolute, or its address in a bucket
    day: str  # its column with a row's day, which its files are laid out by
    key: tuple[str, ...] = ()  # unique within a day, never NULL; (): rows may repeat
    note: str = ""

    @property
    def there(self) -> Place:
        """Its folder, or its prefix in a bucket."""
        return others_at(self.place)


def refuse_unfit(wanted: Adoption, opened: "DeltaTable") -> None:
    """Raise BackfillError, naming why, for a table that cannot be kept as it lies."""
    for culprit, fix in _misfits(wanted, opened):
        raise refused(wanted.name, culprit, fix)


def refuse_taken(lake: Lake, wanted: Adoption, opened: "DeltaTable", contracts: Sequence[Contract]) -> None:
    """Raise BackfillError for a name or a folder that the lake knows as another table, and for a folder that more users
    may read than the lake lets read."""
    refuse_apart(wanted, lake.address)
    table, is_far = table_at(lake.place, wanted.name), wanted.there.is_store
    if bool(table.names()) and table.uri() != wanted.place if is_far else is_taken(table.local(), Path(wanted.place)):
        raise refused(wanted.name, f"the lake has a table {wanted.name}, in {table}", "Give it another name")
    named = {str((lake.root / s.table).resolve()) for s in lake.settings.delivered.values() if s.table}
    named |= {c.external for c in contracts if c.external}
    if wanted.place in named or f"{wanted.place}/".startswith(f"{lake.address}/"):
        raise refused(wanted.name, f"{wanted.place} is a source or a table of this lake already", "Name another table")
    own = next((c for c in contracts if c.name == wanted.name and not c.made_by), None)
    kinds = {name: str(kind) for name, kind in kinds_of(opened, wanted.day).items()}
    if own is not None and {c.name: c.type for c in own.columns} != kinds:
        culprit = f"the lake's table {wanted.name} has other columns than {kinds}"
        raise refused(wanted.name, culprit, "Give both the same columns and types")
    if not is_far and (readers := readers_of(Path(wanted.place), lake.settings.access.umask)):
        fix = f'Write readers = "{readers}" below [access] in lake.toml, or close the folder to them'
        culprit = "other users may read its folder, and could not read what this lake writes there"
        raise refused(wanted.name, culprit, fix)


def refuse_apart(wanted: Adoption, lake: str) -> None:
    """Raise BackfillError where one of a table and a lake, by its address, lies in a bucket and the other does not, or
    in a store of another kind."""
    scheme, _, _ = lake.rpartition("://")
    if wanted.place.rpartition("://")[0] != scheme:
        where = f"Name a lake in that store: --lake {wanted.place.rpartition('/')[0]}/lake"
        fix = where if wanted.there.is_store else f"Adopt it into a lake in a folder, or copy it to {scheme}:// first"
        raise refused(wanted.name, f"{wanted.place} does not lie where the lake {lake} can lead to it", fix)


def _misfits(wanted: Adoption, opened: "DeltaTable") -> Iterator[tuple[str, str]]:
    """What of the table's protocol and schema cannot be kept here, each with a way out."""
    protocol, metadata = opened.protocol(), opened.metadata()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} - KNOWN_FEATURES
    if features or protocol.min_reader_version > 1:
        named = ", ".join(sorted(features)) or f"reader version {protocol.min_reader_version}"
        drop = "have its owner take it away (ALTER TABLE … DROP FEATURE … TRUNCATE HISTORY)"
        copy = COPIED.format(day=wanted.day)
        yield f"its protocol asks of every writer: {named}", f"Adopt a copy without it ({copy}), or {drop}"
    columns = [(f.name, key) for f in opened.schema().fields for key in (f.metadata or {})]
    keys = [("the table", key) for key, value in metadata.configuration.items() if value != "false"]
    for where, key in (*keys, *columns):
        if what := next((words for begin, words in OF_WRITERS.items() if key.startswith(begin)), ""):
            yield f"{where} has {what} ({key})", "Have its owner take that away"
    if metadata.partition_columns not in ([wanted.day], []):
        laid_out = ", ".join(metadata.partition_columns)
        yield (
            f"its files are laid out by {laid_out}: a day can be replaced, and put back, only where its files hold no "
            f"other, in folders {wanted.day}=…",
            f"Name the column of its folders as the day, or write it anew, partitioned by {wanted.day}",
        )
    kinds = kinds_of(opened, wanted.day)
    if str(kinds.get(wanted.day)) != "DATE":
        yield (
            f"its column {wanted.day} is no DATE, and no STRING that names its folders",
            "Name another column as the day",
        )
    if strange := sorted(f.name for f in opened.schema().fields if kinds.get(f.name) is None):
        yield f"no column of a lake has the type of {', '.join(strange)}", "Have its owner cast it in the table"
    if unknown := sorted({*wanted.key} - {*kinds}):
        yield f"it has no column {', '.join(unknown)}", f"Name key columns of {', '.join(kinds)}"


def contract_there(wanted: Adoption, opened: "DeltaTable") -> Contract:
    """The contract of the table as it lies there."""
    required, fields = {wanted.day, *wanted.key}, {f.name: f for f in opened.schema().fields}
    comments = {name: str((f.metadata or {}).get("comment", "")) for name, f in fields.items()}
    columns = tuple(
        Column(name, str(kind), comments[name], nullable=fields[name].nullable and name not in required)
        for name, kind in kinds_of(opened, wanted.day).items()
    )
    about = opened.metadata().description or f"Adopted, in {wanted.place}."
    made_by = "/".join(wanted.name.split("__"))
    return Contract(wanted.name, about, columns, wanted.day, wanted.key, (), made_by=made_by)


def refuse_days(wanted: Adoption, there: Sequence[Reference]) -> None:
    """Raise BackfillError for files of rows without a day, or of what is none."""
    for reference in there:
        path, value = reference.file.path, reference.file.partition
        if value is None:
            rows = sum(r.rows or 0 for r in there if r.file.partition is None)
            raise refused(wanted.name, f"{rows} row(s) have no day, in {path}", "Give them a day there, or delete them")
        try:
            day = date.fromisoformat(value)
        except ValueError:
            day = None
        if day is None or str(day) != value or day > utc_today() + AHEAD:
            raise refused(wanted.name, f"the file {path} is of {value!r}, which is no day until next year", "Delete it")


def refused(table: str, culprit: str, fix: str, done: str = "adopted") -> BackfillError:
    """The refusal to adopt a table, or to judge what others wrote to it."""
    return BackfillError(f"the table {table}", culprit, f"It was not {done}", fix)
