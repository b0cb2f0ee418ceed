"""Data files of a table: those of a version, their bytes, and those that are gone or altered.

Lives here: the files in force by the log, held against the folder. Does not live here: files that no version names
(`inspection`), and bytes that changed without a change of size (`doctor --deep`).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import Altered, ContractBroken
from backfill_assets.lake import files
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.log import LiveFile, versions
from backfill_assets.lake.log_state import LOGS
from backfill_assets.lake.type_names import type_of_delta

if TYPE_CHECKING:
    from deltalake import DeltaTable

DAY = r"\d{4}-\d\d-\d\d"


def live_files(opened: "DeltaTable", column: str) -> list[LiveFile]:
    """The data files of an opened table; `column` is its partition column ("": none)."""
    if column:
        refuse_other_layout(opened, column)
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


def refuse_other_layout(opened: "DeltaTable", column: str) -> None:
    """Raise ContractBroken if a table's files are not laid out by `column`, the partition column of its contract."""
    there = opened.metadata().partition_columns
    if column not in there:
        table = Path(opened.table_uri)
        raise ContractBroken(
            f"the table {table.name}",
            f"its files are laid out by {', '.join(there) or 'no column'}, not by {column}: a day column stays",
            "Nothing was read or written",
            f"Give the column its name back; or move its folder {table.name} away and make all its days again",
        )


def altered_files(table: Path, found: Iterable[LiveFile]) -> list[tuple[LiveFile, int]]:
    """Data files whose size is not the log's, each with its size now; files that are gone are left out."""
    sizes = ((f, files.size(f"{table}/{f.path}")) for f in found)
    return [(f, now) for f, now in sizes if now is not None and now != f.size]


def gone_or_altered(table: Path, found: Iterable[LiveFile]) -> list[LiveFile]:
    """Data files that are gone, or have another size than the log says."""
    return [f for f in found if files.size(f"{table}/{f.path}") != f.size]


def refuse_altered(table: Path, found: Iterable[LiveFile]) -> None:
    """Raise Altered if one of these data files has another size than the log says."""
    if altered := altered_files(table, found):
        raise Altered(f"the table {table.name}", _culprit(altered), "It was not read", _way_out(table, altered))


def altered_text(lake: LakeFolder, contract: Contract) -> str:
    """Which data files of the newest version were altered, and what to do; empty if none was.

    Also empty if the log cannot be opened: `inspection.inspect` says more of that.
    """
    from deltalake.exceptions import DeltaError

    path = lake.table_path(contract.name)
    try:
        found = altered_files(path, files_of(lake, contract)) if versions(path) else []
    except DeltaError:
        return ""
    return f"{_culprit(found)}. {_way_out(path, found)}" if found else ""


def _culprit(altered: Sequence[tuple[LiveFile, int]]) -> str:
    file, size = altered[0]
    more = f", and {len(altered) - 1} more" if len(altered) > 1 else ""
    return f"the data file {file.path} was altered: it has {size} bytes, the log says {file.size}{more}"


def _way_out(table: Path, altered: Sequence[tuple[LiveFile, int]]) -> str:
    """How to rebuild the days of altered files, as a sentence without its full stop."""
    days = sorted(file.partition for file, _ in altered if file.partition and re.fullmatch(DAY, file.partition))
    if not days:
        return "Restore it from a backup, then run `backfill-assets doctor --deep`"
    span = f"--from {days[0]} --to {days[-1]} --tables {table.name}"
    return f"Make its days again from their inputs: `backfill-assets backfill --force {span}`"


def columns(lake: LakeFolder, table: str) -> dict[str, str]:
    """Type of each column of the newest version as contracts write it (another engine's word for other types).

    Empty if there is no table or its log cannot be opened.
    """
    from deltalake.exceptions import DeltaError

    path = lake.table_path(table)
    if not versions(path):
        return {}
    try:
        fields = LOGS.opened(path).schema().fields
    except DeltaError:
        return {}
    return {f.name: str(type_of_delta(f.type) or f.type) for f in fields}


def day_bytes(lake: LakeFolder, contract: Contract) -> dict[date, int]:
    """Bytes of data files per day; days without a file are left out. Empty if there is no table."""
    found: dict[date, int] = {}
    if versions(lake.table_path(contract.name)):
        for file in files_of(lake, contract):
            if file.partition:
                day = date.fromisoformat(file.partition)
                found[day] = found.get(day, 0) + file.size
    return found
