"""Replacing days in a table whose files hold several of them: the files of the touched partitions, written anew.

Lives here: the rows that stay and the rows that come, in one new file per partition, without an engine. Does not live
here: tables laid out by day, whose files are replaced whole (`replace`). Meant for ledgers of few rows.
"""

from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.audit import connection, literal, selection
from backfill_assets.lake.fingerprints import Dialect, quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.staging import Staged, StagedFile
from backfill_assets.lake.store import LiveFile


def merge_days(
    lake: Lake, contract: Contract, staged: Staged | None, live: Sequence[LiveFile], days: Collection[date]
) -> tuple[list[StagedFile], list[LiveFile]]:
    """The new files and the live ones they replace, so that afterwards the table holds the staged rows for `days`.

    The new files lie in the staging's folder and are dropped with it.
    """
    if staged is None:
        raise ValueError(f"{contract.name}: days of a table laid out by {contract.partition_column} need a staging")
    table, comes = lake.table_path(contract.name), {f.partition for f in staged.files}
    touched = comes | _partitions_with(lake, contract, live, days)
    adds = []
    for value in sorted(v for v in touched if v is not None):
        target = staged.folder / f"{contract.partition_column}={value}" / "merged.parquet"
        stays = [str(table / f.path) for f in live if f.partition == value]
        new = [str(f.path) for f in staged.files if f.partition == value]
        kept = f"SELECT * FROM ({selection(stays, contract)}) WHERE NOT ({_among(contract, days)})"
        # Only of these days: a day that is staged and did not change is kept, and would be there twice.
        comes_in = f"SELECT * FROM ({selection(new, contract)}) WHERE {_among(contract, days)}"
        if write_rows(lake, contract, target, f"{kept} UNION ALL BY NAME {comes_in}"):
            adds.append(StagedFile(target, value))
    return adds, [f for f in live if f.partition in touched]


def _partitions_with(
    lake: Lake, contract: Contract, live: Sequence[LiveFile], days: Collection[date]
) -> set[str | None]:
    """The partitions of the live files that hold a row of one of the days."""
    files = [str(lake.table_path(contract.name) / f.path) for f in live]
    column = quoted(contract.partition_column, Dialect.DUCKDB)
    with connection(lake) as engine:
        found = engine.execute(
            f"SELECT DISTINCT {column} FROM ({selection(files, contract)}) WHERE {_among(contract, days)}"
        )
        return {value for (value,) in found.fetchall()}


def write_rows(lake: Lake, contract: Contract, target: Path, rows: str) -> int:
    """Write the rows of a query to a new file, without the partition column; how many those are (0: no file).

    They come in the order of the contract's key.
    """
    target.parent.mkdir(exist_ok=True)
    names, keys = ([quoted(n, Dialect.DUCKDB) for n in names] for names in (contract.column_names, contract.key))
    kept = ", ".join(n for n in names if n != quoted(contract.partition_column, Dialect.DUCKDB))
    copy = f"COPY (SELECT {kept} FROM ({rows}) ORDER BY {', '.join(keys)}) TO {literal(str(target))}"
    with connection(lake) as engine:
        (written,) = engine.execute(f"{copy} (FORMAT parquet, COMPRESSION zstd)").fetchone() or (0,)
    if not written:
        target.unlink(missing_ok=True)
    return int(written)


def _among(contract: Contract, days: Collection[date]) -> str:
    listed = ", ".join(f"DATE '{d.isoformat()}'" for d in sorted(days))
    return f"{quoted(contract.day_column, Dialect.DUCKDB)} IN ({listed})"
