"""Staging with the embedded engine: what a query of it gives, and the few rows that Spark computed for many days.

Lives here: the one copy to Parquet files that no log names yet. Does not live here: staging what Spark lays out itself
(`staging`), and the queries themselves (`load.arrivals_sql`).

Spark takes 15 ms and more for each folder of a write and the file in it: it forks a `chmod` for both. On thin days that
was half of a write (60 days, 12,000 rows: 1.7 s and 0.8 CPU s against 0.7 s and 0.45 CPU s).
"""

import shutil
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.lake import staging
from backfill_assets.lake.audit import connection, literal, telling_unreadable
from backfill_assets.lake.fingerprints import Dialect, quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.layout import is_of_few_rows
from backfill_assets.lake.staging import Staged, filling, found_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANY_FOLDERS = 4  # fewer, and Spark is as quick by itself
WHOLE = "whole"  # where the rows lie until they are parted


def stage_query(lake: Lake, contract: Contract, query: str) -> Staged:
    """Write the rows of a query, laid out by the contract's partition column; its columns are named and typed as the
    contract's. The caller owns what it returns. Raises what the engine raises, after dropping what was written.
    """
    with filling(lake, contract) as staged:
        _copy(lake, contract, query, staged)
    return staged


def stage_frame(lake: Lake, contract: Contract, frame: "DataFrame", days: int) -> Staged:
    """Write a conformed frame of Spark's once; it holds so many `days` at the most. Few rows of many days are written
    to one file, and parted from there without Spark.

    The caller owns what it returns. Raises what Spark raises, and ContractBroken where what it wrote cannot be read
    back, after dropping what was written.
    """
    if days < MANY_FOLDERS or not contract.partition_column or not is_of_few_rows(frame):
        return staging.stage(lake, contract, frame, days)
    with filling(lake, contract) as staged:
        whole = staged.folder / WHOLE
        staging.write_rows(frame, whole, "", days, lake.settings.spark.memory)
        files = ", ".join(literal(str(f.path)) for f in found_files(whole, ""))
        with telling_unreadable(contract):
            _copy(lake, contract, f"SELECT * FROM read_parquet([{files}], hive_partitioning = false)", staged)
    return staged


def _copy(lake: Lake, contract: Contract, query: str, staged: Staged) -> None:
    """The rows of a query as the files of a staging, and no other file in its folder."""
    column = contract.partition_column
    layout = f", PARTITION_BY ({quoted(column, Dialect.DUCKDB)}), OVERWRITE_OR_IGNORE" if column else ""
    names = ", ".join(quoted(n, Dialect.DUCKDB) for n in contract.column_names)
    target = literal(str(staged.folder if column else staged.folder / "part-0.parquet"))
    with connection(lake) as engine:
        engine.execute(f"COPY (SELECT {names} FROM ({query})) TO {target} (FORMAT parquet{layout})")
    shutil.rmtree(staged.folder / WHOLE, ignore_errors=True)
    staged.files = found_files(staged.folder, column)
