"""Tables of other programs by their place: a Delta folder as a query over its files, files by a pattern.

Not here: tables of a lake (`store`), and what is done with the rows (`operations.reconcile`).
"""

import glob
import re
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.embedded import rows_of_files
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.log import LOG

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILES = re.compile(r"\.(parquet|csv|csv\.gz|tsv|txt)$")


def is_delta(folder: str) -> bool:
    """Whether a Delta table lies in the folder."""
    return (Path(folder) / LOG).is_dir()


def delta_rows(engine: "DuckDBPyConnection", folder: Path, version: int | None = None) -> tuple[int, str]:
    """A version (None: the newest) of the Delta table in a folder, and a query for its rows from its plain files.

    Raises BackfillError if these alone do not give its rows.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(str(folder), version=version)
        rows = table.to_pyarrow_dataset()  # refuses what is not in the files: deleted rows, renamed columns
    except (DeltaError, OSError) as error:
        raise _refused(folder, " ".join(str(error).split())) from error
    engine.register("rows_of_delta", rows)
    kinds = engine.execute("DESCRIBE FROM rows_of_delta").fetchall()
    engine.unregister("rows_of_delta")
    files = [str(folder / fragment.path) for fragment in rows.get_fragments()]
    laid_out = table.metadata().partition_columns
    if not all(f"/{column}=" in f for f in files for column in laid_out):
        raise _refused(folder, f"the paths of its files do not hold {', '.join(laid_out)}")
    return table.version(), rows_of_files(files, [(quoted(name), kind) for name, kind, *_ in kinds], laid_out)


def _refused(folder: Path, culprit: str) -> BackfillError:
    return BackfillError(
        f"the Delta table {folder}", culprit, "It was not read", "Write its rows to Parquet files first"
    )


def data_files_at(place: str) -> list[str]:
    """The Parquet and CSV files that a path, a pattern or a folder names, sorted."""
    pattern = f"{place.rstrip('/')}/**/*" if Path(place).is_dir() else place
    found = glob.iglob(pattern, recursive=True)  # noqa: PTH207  # a pattern may be absolute
    return sorted(f for f in found if FILES.search(f))
