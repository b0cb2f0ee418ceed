"""Rows that a user's asset returned, as one value: their columns, and staging them for a table of a
lake.

A Spark frame is computed and written by its own session; what comes by Arrow, pandas or polars
starts no engine. Either way the rows stream through the same conversion into the same writer, so
that equal rows are equal files; but a frame of the table's own types that other machines write to
the lake's bucket stays there. Not here: the conversion (`given_columns`), judging and publishing
what was staged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.assets.given_columns import (
    BEYOND,
    GivenColumn,
    arrow_columns,
    column_differences,
    contract_columns,
    converted_values,
    refuse_equal_names,
    spark_columns,
    stored_type,
    unfit_rows_error,
)
from backfill_assets.engines.engine_paths import (
    S3,
    engine_path,
    refuse_blind_engine,
    refuse_lost_files,
)
from backfill_assets.engines.foreign import unshared_folder_reason, write_parquet
from backfill_assets.engines.frame_files import INSTANTS, WHOLE, WIDENING, stage_added_rows
from backfill_assets.engines.session import conf_value, written_rows
from backfill_assets.kernel.core.column_types import quoted_column
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.query_files import fill_by_batches
from backfill_assets.kernel.tables.staging import Staged, fill_staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_AT_ONCE = 1 << 16
KNOWN = (
    "a Spark DataFrame, an Arrow Table, RecordBatch or RecordBatchReader, a pandas DataFrame, or "
    "a polars frame"
)
CAST = "Cast the columns in the asset"
WIDEN = (
    f'{CAST}; schema_changes="evolve" of the IO manager lets rows bring a wider type (BIGINT for '
    "INT, a DECIMAL of "
    "more digits before the point)"
)


@dataclass(frozen=True)
class GivenRows:
    """Rows in the form in which an asset returned them: `kind` names it. `of` makes one, `columns`
    gives the columns for a contract, `stage` writes the rows. A reader can be staged once, anything
    else again."""

    kind: str
    rows: Any

    @classmethod
    def of(cls, rows: Any) -> "GivenRows":
        """Recognise what an asset returned; computes and reads nothing. Raises BackfillError for
        anything else."""
        if isinstance(rows, cls):
            return rows
        module = type(rows).__module__
        if module.startswith("pyspark.sql.") and hasattr(rows, "sparkSession"):
            return cls("Spark DataFrame", rows)
        if module.startswith("pandas.") and hasattr(rows, "columns"):
            return cls("pandas DataFrame", rows)
        if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "collect_schema"):
            return cls(f"{module.partition('.')[0]} {type(rows).__name__}", rows)
        if hasattr(rows, "__arrow_c_array__") and hasattr(rows, "schema"):
            return cls("pyarrow RecordBatch", rows)
        raise BackfillError(
            f"a value of the type {module}.{type(rows).__qualname__}",
            "it is no table of rows",
            "Nothing was written",
            f"Return {KNOWN}",
        )

    @cached_property
    def given(self) -> tuple[GivenColumn, ...]:
        """The columns as they came."""
        if self.kind == "Spark DataFrame":
            return spark_columns(self.rows.dtypes)
        lazy = hasattr(self.rows, "collect_schema") and not hasattr(self.rows, "__arrow_c_stream__")
        rows = self.rows.head(0).collect() if lazy else self._arrow_rows
        return arrow_columns(rows.schema if hasattr(rows, "names") else _batch_reader(rows).schema)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a contract for these rows: nullable, without a description, whole numbers
        and floating ones of any size as the next larger type. Computes nothing of a lazy frame.
        Raises ContractBroken naming each column that cannot be one: of another type, without a
        type, of another's name."""
        return contract_columns(self.given, f"the {self.kind}")

    def stage(self, lake: LakeFolder, contract: Contract) -> Staged:
        """Write the rows, of whatever days, once to a staging that the caller owns; an empty one
        has no files.

        Columns come in any order. The day may be a DATE, an ISO text or a midnight of UTC. Raises
        ContractBroken that names every column of another type, and how many values of which column
        are not exactly values of its type; what the rows raise while they are computed, too. Then
        nothing is left.
        """
        what = f"the table {contract.name}"
        refuse_equal_names(self.given, what)
        differences = column_differences(
            self.given, contract, is_loose=self.kind.startswith("pandas")
        )
        with fill_staging(lake, contract) as staged:
            if self.kind == "Spark DataFrame":
                _refuse_differences(what, differences)
                is_remote = _computes_in_bucket(self.rows.sparkSession, lake, staged)
                if is_remote and _has_stored_types(self.rows, contract):
                    frame = self.rows.selectExpr(*_cast_columns(contract))
                    staged.files = tuple(stage_added_rows(frame, lake, contract, staged))
                    return staged
                batches = _file_batches(_written_files(self.rows, staged, is_remote))
            else:
                batches = _sliced_batches(self._arrow_rows)
            stream = _ConvertedStream(contract, batches)
            if stream.first is not None:
                _refuse_differences(what, differences)
                fill_by_batches(lake, contract, stream.reader(), staged, WHOLE)
            stream.refuse(what)
            staged.table.delete_below(f"{staged.name}/{WHOLE}")
        return staged

    @cached_property
    def _arrow_rows(self) -> Any:
        """What gives an Arrow stream. pandas' NaN is NULL, as pandas means it; its index is no
        column."""
        if self.kind == "pandas DataFrame":
            try:
                return pa.Table.from_pandas(self.rows, preserve_index=False)
            except (pa.ArrowException, ValueError) as error:
                raise unfit_rows_error(
                    f"the {self.kind}", " ".join(map(str, error.args)), CAST
                ) from error
        if self.kind == "pyarrow RecordBatch":
            return pa.Table.from_batches([self.rows])
        return self.rows if hasattr(self.rows, "__arrow_c_stream__") else self.rows.collect()


def _cast_columns(contract: Contract) -> list[str]:
    """The contract's columns in its types, as expressions of Spark."""
    columns = list[str]()
    for column in contract.columns:
        name = quoted_column(column.name)
        columns.append(f"CAST({name} AS {column.kind.spark}) AS {name}")
    return columns


def _computes_in_bucket(session: "SparkSession", lake: LakeFolder, staged: Staged) -> bool:
    """Whether a session computes on machines that do not see this one's folders, and reaches the
    bucket of a lake in S3. Raises SettingsError where it reaches neither."""
    table = staged.table
    if not table.uri().startswith(S3):
        return False
    sees_folder = not unshared_folder_reason(session, table.prepared(staged.name))
    if sees_folder:
        return False
    refuse_blind_engine(session, lake.place)
    return True


def _has_stored_types(frame: "DataFrame", contract: Contract) -> bool:
    """Whether a frame's session writes the files of a table as they must be: each value fits its
    column, instants as readers of Delta expect them."""
    found = dict(frame.dtypes)
    wanted = {c.name: c.kind.spark for c in contract.columns}
    fits = all(found[n] == kind or (found[n], kind) in WIDENING for n, kind in wanted.items())
    has_instants = any("timestamp" in kind for kind in wanted.values())
    as_micros = not has_instants or conf_value(frame.sparkSession, INSTANTS) == "TIMESTAMP_MICROS"
    is_laid_out = bool(contract.partition_column)  # else an empty frame would be a file
    return fits and as_micros and is_laid_out


def _written_files(frame: "DataFrame", staged: Staged, is_remote: bool) -> list[Path]:
    """Files on this machine with the rows of a frame, which its own session computes to a folder
    that it sees, or, if `is_remote`, to the bucket."""
    table, name = staged.table, f"{staged.name}/{WHOLE}"
    if not is_remote:
        return write_parquet(frame, staged.folder / WHOLE)
    address = engine_path(frame.sparkSession, table, name)
    counted = written_rows(frame, lambda rows: rows.write.mode("append").parquet(address))
    files = [file for file in table.below(name) if file.endswith(".parquet")]
    refuse_lost_files(frame.sparkSession, staged.lake, table, files, counted)
    return [table.local(file) for file in files]


def _refuse_differences(what: str, differences: Sequence[str]) -> None:
    if differences:
        raise unfit_rows_error(
            what, "; ".join(differences), f"{WIDEN}, or a column of another name"
        )


def _batch_reader(rows: Any) -> "pa.RecordBatchReader":
    return (
        rows if isinstance(rows, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(rows)
    )


def _sliced_batches(rows: Any) -> "Iterator[pa.RecordBatch]":
    """Batches of at most so many rows that have any."""
    for batch in _batch_reader(rows):
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)


def _file_batches(paths: Sequence[Path]) -> "Iterator[pa.RecordBatch]":
    """The rows of Parquet files; Spark's INT96 holds no more than microseconds."""
    for path in paths:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            yield from file.iter_batches(ROWS_AT_ONCE)


class _ConvertedStream:
    """Batches on their way into a contract's columns, once; counts misfits. `first` is None where
    there is no row."""

    def __init__(self, contract: Contract, batches: "Iterator[pa.RecordBatch]") -> None:
        self.contract, self.batches = contract, batches
        self.first = next(batches, None)
        self.counts: dict[tuple[str, str], int] = {}
        self.rows = 0
        self.error: Exception | None = None

    def reader(self) -> "pa.RecordBatchReader":
        """The converted batches. An error of the rows ends them, because it would not get through
        the writer."""
        fields = [pa.field(c.name, stored_type(c.kind)) for c in self.contract.columns]
        return pa.RecordBatchReader.from_batches(
            pa.schema(fields), self._converted_batches(pa.schema(fields))
        )

    def _converted_batches(self, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        """Yield the batches in the contract's columns; keeps the error that ends them."""
        try:
            batch = self.first
            while batch is not None:
                self.rows += batch.num_rows
                cells = [
                    self._converted_column(batch.column(c.name), c) for c in self.contract.columns
                ]
                yield pa.RecordBatch.from_arrays(cells, schema=schema)
                batch = next(self.batches, None)
        except Exception as error:  # noqa: BLE001  # whatever the asset's own rows raise; `refuse` raises it again
            self.error = error

    def _converted_column(self, values: "pa.Array", column: Column) -> "pa.Array":
        """The values in the column's type; counts those that are none of it."""
        try:
            cells, bad, why = converted_values(values, column.kind)
        except pa.ArrowException as error:
            raise unfit_rows_error(
                f"the table {self.contract.name}", f"column {column.name}: {error}", CAST
            ) from error
        if bad is not None and (count := pc.sum(bad).as_py()):
            self.counts[column.name, why] = self.counts.get((column.name, why), 0) + count
        return cells

    def refuse(self, what: str) -> None:
        """Raise the error that reading the rows raised, else ContractBroken if values do not fit
        their columns."""
        if self.error is not None:
            raise self.error
        if self.counts:
            would_fit_wider = any(why.startswith(BEYOND) for _, why in self.counts)
            fix = WIDEN if would_fit_wider else CAST
            misfits = list[str]()
            for (name, why), count in self.counts.items():
                misfits.append(f"{count:,} values of the column {name} {why}")
            raise unfit_rows_error(what, f"of {self.rows:,} rows {'; '.join(misfits)}", fix)
