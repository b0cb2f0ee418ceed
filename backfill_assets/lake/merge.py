"""Files of days written anew from rows that stand and rows that come, by the embedded engine (no JVM).

Lives here: replacing days in files that hold several, and upserts: rows whose keys the staged ones lack, copied to the
staging. Does not live here: tables laid out by day, whose files are replaced whole, whether an upsert is allowed
(`load.merging`), and publishing (`replace`).
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from pathlib import Path

from backfill_assets.core.contracts import Contract
from backfill_assets.lake import files
from backfill_assets.lake.data_files import files_of, refuse_altered
from backfill_assets.lake.embedded import connection, literal, selection
from backfill_assets.lake.fingerprints import Dialect, quoted
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.log import LiveFile
from backfill_assets.lake.staging import Staged, StagedFile


def merge_days(
    lake: LakeFolder, contract: Contract, staged: Staged | None, live: Sequence[LiveFile], days: Collection[date]
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
        if _write_rows(lake, contract, target, f"{kept} UNION ALL BY NAME {comes_in}"):
            adds.append(StagedFile(target, value))
    return adds, [f for f in live if f.partition in touched]


def _partitions_with(
    lake: LakeFolder, contract: Contract, live: Sequence[LiveFile], days: Collection[date]
) -> set[str | None]:
    """The partitions of the live files that hold a row of one of the days."""
    paths = [str(lake.table_path(contract.name) / f.path) for f in live]
    column = quoted(contract.partition_column, Dialect.DUCKDB)
    with connection(lake) as engine:
        found = engine.execute(
            f"SELECT DISTINCT {column} FROM ({selection(paths, contract)}) WHERE {_among(contract, days)}"
        )
        return {value for (value,) in found.fetchall()}


def _write_rows(lake: LakeFolder, contract: Contract, target: Path, rows: str) -> int:
    """Write the rows of a query to a new file, without the partition column; how many those are (0: no file).

    They come in the order of the contract's key.
    """
    files.make_folder(target.parent)
    names, keys = ([quoted(n, Dialect.DUCKDB) for n in names] for names in (contract.column_names, contract.key))
    kept = ", ".join(n for n in names if n != quoted(contract.partition_column, Dialect.DUCKDB))
    copy = f"COPY (SELECT {kept} FROM ({rows}) ORDER BY {', '.join(keys)}) TO {literal(str(target))}"
    with connection(lake) as engine:
        (written,) = engine.execute(f"{copy} (FORMAT parquet, COMPRESSION zstd)").fetchone() or (0,)
    if not written:
        files.delete(target)
    return int(written)


def _among(contract: Contract, days: Collection[date]) -> str:
    listed = ", ".join(f"DATE '{d.isoformat()}'" for d in sorted(days))
    return f"{quoted(contract.day_column, Dialect.DUCKDB)} IN ({listed})"


def keep_rows(
    lake: LakeFolder, contract: Contract, staged: Staged, version: int, days: Iterable[date]
) -> dict[date, int]:
    """Upsert: add to the staging the rows of these days at a version whose keys it lacks, one file per day.

    Returns how many rows were added, for days that have any. For tables laid out by day; version -1 means that the
    table does not exist. NULL in a key is a value like any other.
    """
    column, table = contract.partition_column, lake.table_path(contract.name)
    live = files_of(lake, contract, version) if version >= 0 else []
    refuse_altered(table, live)
    kept: dict[date, int] = {}
    for day in days:
        stands = [str(table / f.path) for f in live if f.partition == str(day)]
        if not stands:
            continue
        comes = [str(f.path) for f in staged.files if f.partition == str(day)]
        target = staged.folder / f"{column}={day}" / "kept.parquet"
        rows = _write_rows(lake, contract, target, _lacking(contract, stands, comes))
        if rows:
            staged.files = (*staged.files, StagedFile(target, str(day)))
            kept[day] = rows
    return kept


def _lacking(contract: Contract, stands: list[str], comes: list[str]) -> str:
    """A query for the standing rows whose key no new row has."""
    keys = [quoted(c, Dialect.DUCKDB) for c in contract.key]
    same = " AND ".join(f"comes.{k} IS NOT DISTINCT FROM stands.{k}" for k in keys)
    return (
        f"SELECT * FROM ({selection(stands, contract)}) AS stands WHERE NOT EXISTS "
        f"(SELECT 1 FROM ({selection(comes, contract)}) AS comes WHERE {same})"
    )
