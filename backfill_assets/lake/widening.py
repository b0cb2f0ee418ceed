"""Wider columns: one commit replaces the schema and all files of a table by casts of them, and files that a rollback
puts back are cast, too. No row changes.

Not here: which tables, and which days are current afterwards (`operations.widening`). Files are cast because Delta's
feature `typeWidening` is not for delta-rs (`columns`). The canonical text of a value does not depend on these types, so
that no fingerprint changes.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.column_types import DECIMAL, ColumnType
from backfill_assets.core.contracts import Contract
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake import files
from backfill_assets.lake.audit import as_written
from backfill_assets.lake.columns import column_types, duckdb_name, type_of_arrow
from backfill_assets.lake.committer import rewrite_files
from backfill_assets.lake.data_files import files_of, refuse_altered
from backfill_assets.lake.embedded import connection, literal
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.housekeeping import compare_rows
from backfill_assets.lake.log import LiveFile
from backfill_assets.lake.log_state import LOGS
from backfill_assets.lake.staging import NO_VALUE, Staged, StagedFile, filling

if TYPE_CHECKING:
    import pyarrow as pa

Wider = Mapping[str, tuple[ColumnType, ColumnType]]


def is_wider(wanted: ColumnType, current: ColumnType | None) -> bool:
    """Whether every value of the type `current` is one of `wanted`, with the same canonical text."""
    if current is None:
        return False
    if wanted.element is not None and current.element is not None:
        return is_wider(wanted.element, current.element)
    if wanted.kind == current.kind == DECIMAL:
        return wanted.scale == current.scale and wanted.precision > current.precision
    return (current.kind, wanted.kind) == ("INT", "BIGINT")


def wider_columns(lake: Lake, contract: Contract) -> Wider:
    """The columns that the contract has in a wider type than the table: (present type, wanted type) by name."""
    if not lake.store.exists(contract.name):
        return {}
    current = column_types(LOGS.opened(lake.table_path(contract.name)))
    kinds = ((c.name, current[c.name], c.kind) for c in contract.columns if c.name in current)
    return {name: (kind, wanted) for name, kind, wanted in kinds if kind is not None and is_wider(wanted, kind)}


def widen(lake: Lake, contract: Contract, receipt: Receipt) -> int:
    """Cast the columns of all files to the wider types of the contract, in one commit; returns its version.

    Holds the table's lock meanwhile. Days of the receipt that were written since are left out of it. Raises Altered for
    a file that is gone or altered, BackfillError where a cast would change a row; then nothing was written.
    """
    path = lake.table_path(contract.name)
    with lake.store.lock(contract.name), filling(lake, contract) as staged:
        wider = {name: wanted for name, (_, wanted) in wider_columns(lake, contract).items()}
        live = files_of(lake, contract)
        refuse_altered(path, live)
        cast_files(lake, contract, live, wider, staged)
        stamps = lake.store.view(contract.name, contract.day_column).stamps
        days = {d: entry for d, entry in receipt.days.items() if d in stamps and stamps[d].entry == entry}
        staged.tried = True
        own_receipt = replace(receipt, write_id=staged.write_id, days=days)
        version = rewrite_files(path, contract, own_receipt, staged.files, live, wider)
        staged.keep(staged.paths)
    return version


def cast_files(
    lake: Lake, contract: Contract, old: Sequence[LiveFile], wider: Mapping[str, ColumnType], staged: Staged
) -> None:
    """Stage a copy of each data file of the table in which columns have these wider types. Raises BackfillError where
    the new files do not hold the rows of the old ones."""
    path, pairs, casts = lake.table_path(contract.name), defaultdict[str, list[tuple[str, str]]](list), []
    for number, file in enumerate(old):
        folder = f"{contract.partition_column}={file.partition or NO_VALUE}" if contract.partition_column else ""
        casts.append(StagedFile(staged.folder / folder / f"part-{number}.parquet", file.partition))
        before = str(path / file.path)
        kind = _cast(lake, as_written(contract, before), before, casts[-1].path, wider)
        pairs[kind].append((before, str(casts[-1].path)))
    for alike in pairs.values():
        compare_rows(lake, contract, *map(list, zip(*alike, strict=True)))
    staged.files = tuple(casts)


def narrower_columns(schema: "pa.Schema", contract: Contract) -> dict[str, ColumnType]:
    """The columns of a data file for which the contract has a wider type: that type by name."""
    kinds = {f.name: type_of_arrow(f.type) for f in schema}
    return {c.name: c.kind for c in contract.columns if is_wider(c.kind, kinds.get(c.name))}


def _cast(lake: Lake, written: Contract, old: str, new: Path, wider: Mapping[str, ColumnType]) -> str:
    """Write a file again with wider columns; returns its columns before, as text."""
    names = [c.name for c in written.columns if c.name != written.partition_column]
    cells = [f"CAST({q} AS {duckdb_name(wider[n])}) AS {q}" if n in wider else q for n in names for q in [quoted(n)]]
    files.make_folder(new.parent)
    rows = f"SELECT {', '.join(cells)} FROM read_parquet({literal(old)}, hive_partitioning = false)"
    with connection(lake) as engine:
        engine.execute(f"COPY ({rows}) TO {literal(str(new))} (FORMAT parquet, COMPRESSION zstd)")
    return str([(c.name, c.type) for c in written.columns])
