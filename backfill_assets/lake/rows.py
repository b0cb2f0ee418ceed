"""Rows of Delta tables through delta-rs: small tables whole, queries over pinned versions. Read only, no JVM.

Lives here: opening a table by its folder and asking delta-rs's query engine. Does not live here: what rows mean
(`ledger`, `too_late`). Not as pyarrow datasets: importing those imports pandas, a second that `status` has
not got.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake import files
from backfill_assets.lake.data_files import gone_or_altered, live_files
from backfill_assets.lake.log import actions, commits, mend_command, moves_rows, versions
from backfill_assets.lake.log_state import LOGS

if TYPE_CHECKING:
    from deltalake import DeltaTable


def read_arrow(table: Path, version: int | None = None, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a small table; empty where there is no table. Raises BackfillError where a data file is gone."""
    from deltalake import QueryBuilder

    if not versions(table):
        return []
    pinned = LOGS.opened(table, version)
    names = list(columns) if columns else [f.name for f in pinned.schema().fields]
    listed = ", ".join(f'"{name}"' for name in names)
    try:
        found = QueryBuilder().register("ledger", pinned).execute(f"SELECT {listed} FROM ledger").read_all()
    except Exception as error:
        _refuse_lost(table, pinned, error)
        raise
    values = [found.column(name).to_pylist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _refuse_lost(table: Path, pinned: "DeltaTable", error: Exception) -> None:
    """Raise what a reader's error means where data files are gone."""
    if gone := gone_or_altered(table, live_files(pinned, "")):
        raise BackfillError(
            f"the table {table.name}",
            f"{len(gone)} data file(s) that its log names are gone or altered, first {gone[0].path}",
            "It was not read",
            "Run `backfill-assets doctor`, which says how each table is mended; a ledger (files, arrivals) is by "
            f"{mend_command(table)}, then `backfill-assets catch-up`",
        ) from error


def query(sql: str, tables: Mapping[str, tuple[Path, int | None]]) -> Iterator[Any]:
    """Arrow batches of a query over tables, given by the names it uses: folder and version (None: the newest)."""
    from deltalake import QueryBuilder

    engine = QueryBuilder()
    for name, (path, version) in tables.items():
        engine = engine.register(name, LOGS.opened(path, version))
    yield from engine.execute(sql)


def read_ours(table: Path) -> list[dict[str, Any]]:
    """The rows that commits of ours added to an append-only table, whatever other programs did to them since.

    Raises BackfillError if a data file of ours is gone.
    """
    return _read_ours(table) if changed_by_others(table) else read_arrow(table)


def changed_by_others(table: Path) -> bool:
    """Whether a commit that is not ours changed rows of a table."""
    others = (c.version for c in LOGS.commits(table) if c.receipt is None)
    return any(moves_rows(action) for version in others for action in actions(table, version))


def _read_ours(table: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    added_files: dict[str, None] = {}
    for commit in commits(table):
        for action in actions(table, commit.version):
            if commit.receipt is None and moves_rows(action):
                continue
            if removed := action.get("remove"):
                added_files.pop(unquote(removed["path"]), None)
            if added := action.get("add"):
                added_files[unquote(added["path"])] = None
    gone = [f for f in added_files if not files.exists(table / f)]
    if gone:
        raise BackfillError(
            f"the table {table.name}",
            f"another program changed it, and {len(gone)} data file(s) of ours are gone, first {gone[0]}",
            "It was not read",
            "Restore the table's folder from a backup; nothing else knows what had landed",
        )
    return [row for f in added_files for row in pq.ParquetFile(table / f).read().to_pylist()]
