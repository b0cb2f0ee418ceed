"""What a step of a project reads: days of a table as its parameter is annotated.

Lives here: the forms of inputs, and what their definitions say. Does not live here: which version
is read (`io_manager`), reading by name (`reading.reader`), and tables that others write as assets
of a project (`foreign.in_dagster`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

import dagster as dg

from backfill_assets.assets.contracts import (
    DAY_COLUMN,
    asset_periods,
    asset_table_name,
)
from backfill_assets.engines.table_frames import PlainFiles, read_frame, read_plain
from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.commands import materializing_advice
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.errors import BackfillError, InputMissing, SettingsError
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import is_lake
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
    """The first day of an input. Raises SettingsError where it has no such partitions."""
    partitions = context.asset_partitions_def if context.has_asset_partitions else None
    return asset_periods(partitions, f"the asset {context.asset_key.to_user_string()}")[1]
