"""What a step of a project reads: days of a table as its parameter is annotated, and tables that
others write.

Lives here: the forms of inputs, the spec of a table of others, and taking it in before a step reads
it. Does not live here: which version is read (`io_manager`), reading by name (`reading.reader`),
which days of such a table changed (`foreign.observing`), and tables of others that `lake.toml`
names.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

import dagster as dg

from backfill_assets.assets.declared import DeclaredTable, declare_table, find_declared
from backfill_assets.assets.lakes import lake_for_asset
from backfill_assets.dagster.contracts import (
    DAY_COLUMN,
    asset_table_name,
    daily_partitions,
    first_day_of,
)
from backfill_assets.engines.table_frames import PlainFiles, read_frame, read_plain
from backfill_assets.foreign.external import (
    ExternalTable,
    declaration_of,
    external_place,
    open_external,
    recorded_place,
    seen_contract,
)
from backfill_assets.foreign.observing import observe_table, observe_tables
from backfill_assets.kernel.core.addresses import CATALOG_NAME, address_of
from backfill_assets.kernel.core.commands import materializing_advice
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.errors import BackfillError, InputMissing, SettingsError
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import is_lake
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.reader import PinnedRows, Readable

Form = Literal["spark", "arrow", "pandas", "polars", "duckdb"]
FORMS: Mapping[str, Form] = {  # the first part of the module of an annotated type
    "pyspark": "spark",
    "pyarrow": "arrow",
    "pandas": "pandas",
    "polars": "polars",
    "duckdb": "duckdb",
    "_duckdb": "duckdb",
}


@dataclass(frozen=True)
class InputDays(Readable):
    """Some days of a table at a version, all of which may have no rows."""

    lake: Lake
    contract: Contract
    version: int
    days: tuple[date, ...]
    columns: tuple[str, ...] = ()  # those that are asked for, in this order; none: all of them

    def pinned(self) -> PinnedRows:
        """The data files with these days' rows; none if no days are asked. Raises InputMissing for
        days of a table that was never made."""
        files: Sequence[str] = []
        if self.days:
            if not exists_at(self.version):
                asset = self.contract.made_by or self.contract.name
                raise never_made_error(asset, self.days, self.lake.root)
            files = self.lake.store.data_files(self.contract, self.version, self.days)
        return PinnedRows(self.contract, self.version, files, self.days, self.columns)

    def _spark_frame(self, session: Any, pinned: PinnedRows) -> Any:
        """The days' rows as a frame of Spark; an empty one, with the contract's columns, for a
        table that was never made."""
        contract = pinned.contract
        if not exists_at(self.version):
            columns = tuple((column.name, column.type) for column in contract.columns)
            no_files = PlainFiles(paths=(), columns=columns, partition_column="")
            frame = read_plain(session, no_files)
        else:
            name = contract.name
            day_column = contract.day_column
            days = sorted(pinned.days)
            frame = read_frame(session, self.lake, name, self.version, day_column, days)
        return frame.select(*self.columns) if self.columns else frame


def input_columns(context: dg.InputContext, contract: Contract) -> tuple[str, ...]:
    """The columns of a table that `AssetIn(metadata={"columns": […]})` asks for; none: all of them.
    Raises SettingsError for no list, and for names that the table has not."""
    asked = context.definition_metadata.get("columns") or ()
    named = f"the input {context.asset_key.to_user_string()}"
    fix = f"Name columns of {', '.join(contract.column_names)}"
    if isinstance(asked, str) or not all(isinstance(column, str) for column in asked):
        culprit = f'metadata={{"columns": {asked!r}}} is no list of columns'
        raise SettingsError(named, culprit, "Nothing was read", fix)
    if unknown := [column for column in asked if column not in contract.column_names]:
        culprit = f"its metadata asks for the column {', '.join(unknown)}, which the table has not"
        raise SettingsError(named, culprit, "Nothing was read", fix)
    return tuple(asked)


def never_made_error(
    asset: str, days: Collection[date], lake: Path, consequence: str = "Nothing was read"
) -> InputMissing:
    """The error about `days` of an input that a step asks for and that were never made."""
    place = address_of(lake)
    culprit = f"there is no lake at {place} yet"
    if is_lake(lake):
        culprit = f"the lake {place} has no {ranges_text(days)} of it"
    return InputMissing(
        f"the input {asset}", culprit, consequence, f"First {materializing_advice(asset, days)}"
    )


def form_of(annotated: Any, default: Form) -> Form:
    """The form of an input by its annotation; the `default` for a parameter without one. Raises
    BackfillError for a type that no input has."""
    if annotated is Any or annotated is object:
        return default
    found = FORMS.get(str(getattr(annotated, "__module__", "")).partition(".")[0])
    if found is not None:
        return found
    raise BackfillError(
        f"the type {getattr(annotated, '__name__', annotated)}",
        "no input of a lake has it",
        "Nothing was read",
        "Annotate the parameter with a DataFrame of Spark, pandas or polars, pyarrow.Table, or "
        "duckdb.DuckDBPyRelation",
    )


def rows_as_annotated(
    days: InputDays, annotated: Any, default: Form, session: Callable[[], Any]
) -> Any:
    """The rows in the form of the annotation, lazy or as a stream where it says so; `session` is
    asked for a Spark session only where the form is Spark's."""
    form = form_of(annotated, default)
    named = getattr(annotated, "__name__", "")
    if form == "spark":
        return days.spark(session())
    if form == "arrow":
        table = days.arrow()
        return table.to_reader() if named == "RecordBatchReader" else table
    if form == "polars":
        frame = days.polars()
        return frame.lazy() if named == "LazyFrame" else frame
    return days.pandas() if form == "pandas" else days.duckdb()


def input_metadata(context: dg.InputContext) -> Mapping[str, Any]:
    """What the definition of an input says: the upstream asset's, as far as this code location
    knows it, and that of `AssetIn(metadata=…)`, which wins."""
    if context.upstream_output is None:
        return context.definition_metadata
    return {**context.upstream_output.definition_metadata, **context.definition_metadata}


def placeholder_contract(context: dg.InputContext) -> Contract:
    """The contract of a table that was never made, for an input of which no day is asked: an asset
    reads its own day before, and makes its first day now. It has the column with the day alone."""
    metadata = input_metadata(context)
    day = str(metadata.get(DAY_COLUMN, "day")).strip('"`')
    return Contract(
        asset_table_name(context.asset_key, metadata),
        description="",
        columns=(Column(day, "DATE", "", nullable=False),),
        day_column=day,
        key=(),
        inputs=(),
    )


def input_first_day(context: dg.InputContext) -> date:
    """The first day of an input. Raises SettingsError where it is not partitioned by day."""
    partitions = context.asset_partitions_def if context.has_asset_partitions else None
    return first_day_of(partitions, f"the asset {context.asset_key.to_user_string()}")


NOTHING_READ = "Nothing was read or recorded"
EXTERNAL = "backfill_assets/external"  # the metadata with the table's folder


def external_table(
    key: str | Sequence[str] | dg.AssetKey,
    *,
    table: str | Path,
    day: str,
    start: date | str | None = None,
    partitions_def: dg.TimeWindowPartitionsDefinition | None = None,
    io_manager_key: str = "io_manager",
    **spec: Any,
) -> dg.AssetSpec:
    """The spec of an asset that no run makes: a daily Delta table that others write, to be given to
    `dg.Definitions`.

    Assets read days of it as of any asset: `Input("orders", before=6)` of a `daily_table`, or a
    partition mapping. A step reads one version, which its receipt names; days whose rows are others
    since make what was made from them stale (`is_stale`, `status`), and are observed in Dagster. A
    compaction, and equal rows written again, change nothing.

    table: its folder, of which a relative one lies in the working folder, its address in a bucket
    (`s3://…`), or its
        name in a catalog (`SCHEMA.TABLE`), whose place `backfill-assets locate` has recorded in the
        lake.
    day: its column with a row's day, of type DATE; rows without a day belong to none. start: the
    first day, or else partitions_def: a daily partitions definition.
    io_manager_key: the `LakeIOManager` of the assets that read it.
    spec: whatever else `dg.AssetSpec` takes.

    Raises SettingsError for an address that none can have, where there is no first day, or two, and
    for partitions other than days.
    """
    asset_key = _key_of(key)
    owner = f"the external table {asset_key.to_user_string()}"
    days = daily_partitions(owner, start, partitions_def, NOTHING_READ)
    place = str(table)
    if not CATALOG_NAME.fullmatch(place):
        place = external_place(asset_key.to_user_string(), place, Path.cwd())
    metadata = {DAY_COLUMN: day, EXTERNAL: place, **spec.pop("metadata", {})}
    made = dg.AssetSpec(asset_key, partitions_def=days, metadata=metadata, **spec)
    return made.with_io_manager_key(io_manager_key)


def _key_of(key: str | Sequence[str] | dg.AssetKey) -> dg.AssetKey:
    if isinstance(key, str):
        return dg.AssetKey.from_user_string(key)
    return dg.AssetKey.from_coercible(key)


def external_input(context: dg.InputContext) -> ExternalTable | None:
    """The table of others that an input reads; None where it is another asset. Raises SettingsError
    where it is not partitioned by day."""
    metadata = input_metadata(context)
    if EXTERNAL not in metadata:
        return None
    key = context.asset_key
    return ExternalTable(
        asset_table_name(key, metadata, NOTHING_READ),
        str(metadata[EXTERNAL]),
        str(metadata[DAY_COLUMN]),
        made_by=key.to_user_string(),
        first_day=input_first_day(context),
    )


def observe_external(folder: str | Path, table: ExternalTable) -> Lake:
    """The lake in a folder, made if there is none, which knows the table and has seen the newest
    version of all tables of others. Raises BackfillError where this one cannot be read, or is a
    name in a catalog whose place is unknown."""
    lake = lake_for_asset(folder, table.first_day or date.max)
    table = replace(table, table=recorded_place(lake.root, table))
    known = find_declared(lake.place, table.name)
    is_as_declared = (
        known is not None and replace(declaration_of(known.contract), description="") == table
    )
    if not is_as_declared:
        contract = seen_contract(table, open_external(table.name, table.table))
        _refuse_own_table(lake, contract)
        with lake.store.lock(table.name):
            asset = tuple(table.made_by.split("/"))
            declare_table(lake.place, DeclaredTable(contract, asset, code=""))
    contracts = chosen_pipeline(lake).contracts
    _, failed = observe_tables(lake, contracts)
    if failed:  # an error of another table is for the assets that read that one
        observe_table(lake, contracts, next(c for c in contracts if c.name == table.name))
    return lake


def _refuse_own_table(lake: Lake, contract: Contract) -> None:
    """Raise SettingsError where the lake has a table of that name which others do not write."""
    known = find_declared(lake.place, contract.name)
    if lake.store.exists(contract.name) and (known is None or not known.contract.external):
        raise _external_table_error(
            dg.AssetKey(contract.made_by.split("/")),
            f"the lake {lake.address} has a table {contract.name} of its own",
            "Give the asset another key",
        )


def _external_table_error(key: dg.AssetKey, culprit: str, fix: str) -> SettingsError:
    return SettingsError(f"the external table {key.to_user_string()}", culprit, NOTHING_READ, fix)
