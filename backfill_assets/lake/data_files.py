"""Data files of a table: those of a version, their bytes, and those that are gone or altered.

Not here: files that no version names (`inspection`), and bytes that changed without a change of size (`doctor --deep`).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import Altered, ContractBroken
from backfill_assets.lake import files
from backfill_assets.lake.columns import type_of_delta
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.log import LiveFile, versions
from backfill_assets.lake.log_state import LOGS

if TYPE_CHECKING:
    from deltalake import DeltaTable

DAY = r"\d{4}-\d\d-\d\d"


def live_files(opened: "DeltaTable", column: str) -> list[LiveFile]:
    """The data files of an opened table; `column` is its partition column ("": none).

    Raises ContractBroken if the files are not laid out by that column.
    """
    there = opened.metadata().partition_columns
    if column and column not in there:
        table = Path(opened.table_uri)
        raise ContractBroken(
            f"the table {table.name}",
            f"its files are laid out by {', '.join(there) or 'no column'}, not by {column}: a day column stays",
            "Nothing was read or written",
            f"Give the column its name back; or move its folder {table.name} away and make all its days again",
        )
    added = opened.get_add_actions(flatten=True)
    names = ["path", "size_bytes", *([f"partition.{column}"] if column else [])]
    rows = zip(*(added.column(n).to_pylist() for n in names), strict=True)
    return [
        LiveFile(path, str(value[0]) if value and value[0] is not None else None, size) for path, size, *value in rows
    ]


def files_of(lake: LakeFolder, contract: Contract, version: int | None = None) -> list[LiveFile]:
    """The data files of a version of a table (None: the newest)."""
    return live_files(LOGS.opened(lake.table_path(contract.name), version), contract.partition_column)


def files_of_days(found: Iterable[LiveFile], contract: Contract, days: Collection[date] | None) -> list[LiveFile]:
    """Those of the files that may hold rows of these days (None: of any day)."""
    if days is None or contract.partition_column != contract.day_column:
        return list(found)
    named = {str(d) for d in days}
    return [f for f in found if f.partition in named]


def folder_of(address: str) -> str:
    """The name of a data file's folder: its day if the table is laid out by days."""
    return address.rsplit("/", 2)[-2]


def _altered(table: Path, found: Iterable[LiveFile]) -> list[tuple[LiveFile, int]]:
    """Data files whose size is not the log's, each with its size now; files that are gone are left out."""
    sizes = ((f, files.size(f"{table}/{f.path}")) for f in found)
    return [(f, now) for f, now in sizes if now is not None and now != f.size]


def gone_or_altered(table: Path, found: Iterable[LiveFile]) -> list[LiveFile]:
    """Data files that are gone, or have another size than the log says."""
    return [f for f in found if files.size(f"{table}/{f.path}") != f.size]


def refuse_altered(table: Path, found: Iterable[LiveFile]) -> None:
    """Raise Altered if one of these data files has another size than the log says."""
    if altered := _altered(table, found):
        culprit, way_out = _in_words(table, altered)
        raise Altered(f"the table {table.name}", culprit, "It was not read", way_out)


def altered_text(lake: LakeFolder, contract: Contract) -> str:
    """Which data files of the newest version were altered, and what to do; empty if none was.

    Also empty if the log cannot be opened: `inspection.inspect` says more of that.
    """
    from deltalake.exceptions import DeltaError

    path = lake.table_path(contract.name)
    try:
        found = _altered(path, files_of(lake, contract)) if versions(path) else []
    except DeltaError:
        return ""
    return ". ".join(_in_words(path, found)) if found else ""


def _in_words(table: Path, altered: Sequence[tuple[LiveFile, int]]) -> tuple[str, str]:
    """What is wrong, and how to rebuild the days of altered files, as sentences without their full stops."""
    file, size = altered[0]
    more = f", and {len(altered) - 1} more" if len(altered) > 1 else ""
    culprit = f"the data file {file.path} was altered: it has {size} bytes, the log says {file.size}{more}"
    days = sorted(file.partition for file, _ in altered if file.partition and re.fullmatch(DAY, file.partition))
    if not days:
        return culprit, "Restore it from a backup, then run `backfill-assets doctor --deep`"
    span = f"--from {days[0]} --to {days[-1]} --tables {table.name}"
    return culprit, f"Make its days again from their inputs: `backfill-assets backfill --force {span}`"


def columns(lake: LakeFolder, table: str) -> dict[str, str]:
    """Type of each column of the newest version as contracts write it (another engine's word for other types).

    Empty if there is no table or its log cannot be opened.
    """
    from deltalake.exceptions import DeltaError

    path = lake.table_path(table)
    try:
        fields = LOGS.opened(path).schema().fields if versions(path) else []
    except DeltaError:
        return {}
    return {f.name: str(type_of_delta(f.type) or f.type) for f in fields}


def day_bytes(lake: LakeFolder, contract: Contract) -> dict[date, int]:
    """Bytes of data files per day; days without a file are left out. Empty if there is no table."""
    found = Counter[date]()
    for file in files_of(lake, contract) if versions(lake.table_path(contract.name)) else []:
        if file.partition:
            found[date.fromisoformat(file.partition)] += file.size
    return dict(found)
