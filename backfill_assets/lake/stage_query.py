"""Staging what a query of the embedded engine gives: for ledgers, whose few rows follow from other tables' files.

Lives here: the one copy to Parquet files that no log names yet. Does not live here: staging what Spark computed
(`staging`), and the queries themselves (`load.arrivals_sql`).
"""

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.audit import connection, literal
from backfill_assets.lake.fingerprints import Dialect, quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.staging import Staged, begin, found_files


def stage_query(lake: Lake, contract: Contract, query: str) -> Staged:
    """Write the rows of a query, laid out by the contract's partition column; its columns are named and typed as the
    contract's. The caller owns what it returns. Raises what the engine raises, after dropping what was written.
    """
    staged = begin(lake, contract)
    try:
        column = contract.partition_column
        layout = f", PARTITION_BY ({quoted(column, Dialect.DUCKDB)}), OVERWRITE_OR_IGNORE" if column else ""
        names = ", ".join(quoted(n, Dialect.DUCKDB) for n in contract.column_names)
        target = literal(str(staged.folder if column else staged.folder / "part-0.parquet"))
        with connection(lake) as engine:
            engine.execute(f"COPY (SELECT {names} FROM ({query})) TO {target} (FORMAT parquet{layout})")
        staged.files = found_files(staged.folder, column)
    except BaseException:
        staged.drop()
        raise
    return staged
