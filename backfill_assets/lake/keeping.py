"""Merging by key: rows that stand in a table and that the staged ones lack, taken over into the staging.

Lives here: finding and copying them, by the embedded engine (no JVM, no row leaves it). Does not live here: whether
they may be kept (`load.merging`) and publishing (`replace`). Afterwards the staging holds the whole day, so that a
merge is audited, judged and published like any other write.
"""

from collections.abc import Iterable
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.audit import selection
from backfill_assets.lake.fingerprints import Dialect, quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.merge import write_rows
from backfill_assets.lake.sizes import refuse_altered
from backfill_assets.lake.staging import Staged, StagedFile


def keep_rows(lake: Lake, contract: Contract, staged: Staged, version: int, days: Iterable[date]) -> dict[date, int]:
    """Add to the staging the rows of these days at a version whose keys it lacks, as one file per day, the last of its
    files; how many those are, of days with such.

    For tables that are laid out by day; of one that does not exist (version -1) there are none. NULL in a key is a
    value like any other.
    """
    column, table = contract.partition_column, lake.table_path(contract.name)
    live = lake.store.live_files(contract, version) if version >= 0 else []
    refuse_altered(lake.table_path(contract.name), live)
    kept: dict[date, int] = {}
    for day in days:
        stands = [str(table / f.path) for f in live if f.partition == str(day)]
        if not stands:
            continue
        comes = [str(f.path) for f in staged.files if f.partition == str(day)]
        target = staged.folder / f"{column}={day}" / "kept.parquet"
        rows = write_rows(lake, contract, target, _lacking(contract, stands, comes))
        if rows:
            staged.files = (*staged.files, StagedFile(target, str(day)))
            kept[day] = rows
    return kept


def _lacking(contract: Contract, stands: list[str], comes: list[str]) -> str:
    """A query for the rows that stand and whose key none that comes has."""
    keys = [quoted(c, Dialect.DUCKDB) for c in contract.key]
    same = " AND ".join(f"comes.{k} IS NOT DISTINCT FROM stands.{k}" for k in keys)
    return (
        f"SELECT * FROM ({selection(stands, contract)}) AS stands WHERE NOT EXISTS "
        f"(SELECT 1 FROM ({selection(comes, contract)}) AS comes WHERE {same})"
    )
