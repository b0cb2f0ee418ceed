"""The days of a table that a step reads, as the type that the asset's parameter is annotated with.

Does not live here: which version is read (`io_manager`), and reading by name (`operations.reader`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError, InputMissing
from backfill_assets.lake.home import Lake
from backfill_assets.operations.reader import PinnedRows, Readable

Form = Literal["spark", "arrow", "pandas", "polars", "duckdb"]
FORMS: Mapping[str, Form] = {  # the first part of the module of an annotated type
    "pyspark": "spark", "pyarrow": "arrow", "pandas": "pandas", "polars": "polars", "duckdb": "duckdb",
    "_duckdb": "duckdb",
}  # fmt: skip


@dataclass(frozen=True)
class InputDays(Readable):
    """Some days of a table at a version, all of which may have no rows."""

    lake: Lake
    contract: Contract
    version: int
    days: tuple[date, ...]

    def pinned(self) -> PinnedRows:
        """The files of these days. Raises InputMissing for a table that was never made."""
        if self.version < 0:
            raise InputMissing(
                f"the table {self.contract.name}", "no day of it was ever made", "Nothing was read",
                f"Materialize {self.contract.made_by or self.contract.name} first",
            )  # fmt: skip
        files = self.lake.store.data_files(self.contract, self.version, self.days) if self.days else []
        return PinnedRows(self.contract, self.version, files, self.days)

    def _frame(self, session: Any, pinned: PinnedRows) -> Any:
        contract = pinned.contract
        return self.lake.store.frame(session, contract.name, self.version, contract.day_column, sorted(pinned.days))


def form_of(annotated: Any, default: Form) -> Form:
    """The form of an input by its annotation; the `default` for a parameter without one. Raises BackfillError for a
    type that no input has."""
    if annotated is Any or annotated is object:
        return default
    found = FORMS.get(str(getattr(annotated, "__module__", "")).partition(".")[0])
    if found is not None:
        return found
    raise BackfillError(
        f"the type {getattr(annotated, '__name__', annotated)}",
        "no input of a lake has it",
        "Nothing was read",
        "Annotate the parameter with a DataFrame of Spark, pandas or polars, pyarrow.Table, or duckdb.DuckDBPyRelation",
    )


def as_annotated(days: InputDays, annotated: Any, default: Form, session: Callable[[], Any]) -> Any:
    """The rows in the form of the annotation; `session` is asked for a Spark session only where that is Spark's."""
    form, named = form_of(annotated, default), getattr(annotated, "__name__", "")
    if form == "spark":
        return days.spark(session())
    if form == "arrow":
        table = days.arrow()
        return table.to_reader() if named == "RecordBatchReader" else table
    if form == "polars":
        frame = days.polars()
        return frame.lazy() if named == "LazyFrame" else frame
    return days.pandas() if form == "pandas" else days.duckdb()
