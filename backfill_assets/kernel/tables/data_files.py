"""Data files of a table version: their sizes, their columns, and which are gone or altered.

Not here: bytes that changed without a change of size (`upkeep.inspection`), rows as Python values
(`store`), and frames of the rows (`engines.table_frames`).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import Altered, ContractBroken
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.log.file_names import OTHERS, file_fault, is_adopted_there
from backfill_assets.kernel.log.log import LiveFile
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.log.logged_sizes import logged_sizes
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.columns import column_types_by_day
from backfill_assets.kernel.tables.folder import LakeFolder

DAY = r"\d{4}-\d\d-\d\d"


def live_files(opened: "DeltaTable", column: str) -> list[LiveFile]:
    """The data files of an opened table; `column` is its partition column ("": none).

    Raises ContractBroken if the files are not laid out by that column.
    """
    laid_out = opened.metadata().partition_columns
    if column and column not in laid_out:
        table = Path(opened.table_uri)
        raise ContractBroken(
            f"the table {table.name}",
            f"its files are laid out by {', '.join(laid_out) or 'no column'}, not by {column}: a "
            "day column stays",
            "Nothing was read or written",
            f"Give the column its name back; or move its folder {table.name} away and make all "
            "its days again",
        )
    added = opened.get_add_actions(flatten=True)
    paths, sizes = (added.column(name).to_pylist() for name in ("path", "size_bytes"))
    if not column:
        return [LiveFile(path, None, size) for path, size in zip(paths, sizes, strict=True)]
    values = map(_value_text, added.column(f"partition.{column}").to_pylist())
    return list(map(LiveFile, paths, values, sizes))


def _value_text(value: object) -> str | None:
    """A partition value as folders name it; None for NULL."""
    return None if value is None else str(value)


def files_of_version(
    lake: LakeFolder, contract: Contract, version: int | None = None
) -> list[LiveFile]:
    """The data files of a version of a table (None: the newest)."""
    return live_files(
        LOGS.opened(lake.table_place(contract.name), version), contract.partition_column
    )


def files_of_days(
    candidates: Iterable[LiveFile], contract: Contract, days: Collection[date] | None
) -> list[LiveFile]:
    """The files that may hold rows of these days (None: of any day)."""
    if days is None or not contract.is_by_day:
        return list(candidates)
    day_texts = {str(d) for d in days}
    return [f for f in candidates if f.partition in day_texts]


def local_paths(table: Place, files: Iterable[LiveFile]) -> list[str]:
    """The paths of data files on this machine; a store's files are fetched."""
    return [str(table.local(file.path)) for file in files]


def folder_of(address: str) -> str:
    """The name of a data file's folder: its day if the table is laid out by days."""
    return address.rsplit("/", 2)[-2]


def _altered_files(
    table: Place, candidates: Iterable[LiveFile]
) -> list[tuple[LiveFile, int | None]]:
    """Data files whose size is not the log's, each with its size now (None: it is gone). Raises
    Altered for one that is none of the table's."""
    of_path = {f.path: f for f in candidates}
    if of_path and (why := _strange_file(table, of_path)):
        fix = (
            "Have its owner take that out of its log; `backfill-assets rollback` brings the last "
            "judged days back"
        )
        raise Altered(f"the table {table.name}", f"its log {why}", "It was not read", fix)
    sizes = table.sizes([*of_path])
    return [(of_path[path], now) for path, now in sizes.items() if now != of_path[path].size]


def _strange_file(table: Place, paths: Collection[str]) -> str:
    """What is wrong with a name that others may have written: in a log of an adopted table, or of
    one of others."""
    if table.is_store or is_adopted_there(table):  # in a store names alone are looked at
        return file_fault(table, paths, is_lakes=True)
    return file_fault(table, [path for path in paths if _is_of_others(path)], is_lakes=True)


def _is_of_others(path: str) -> bool:
    """Whether a log names the file by another table's folder or address."""
    return path.startswith(OTHERS) or "://" in path


def gone_or_altered(table: Place, candidates: Iterable[LiveFile]) -> list[LiveFile]:
    """Data files that are gone, or have another size than the log says."""
    return [f for f, _ in _altered_files(table, candidates)]


def refuse_altered_files(table: Place, candidates: Iterable[LiveFile]) -> None:
    """Raise Altered if one of these data files is gone, or has another size than the log says."""
    if altered := _altered_files(table, candidates):
        culprit, way_out = _altered_in_words(table, altered)
        raise Altered(f"the table {table.name}", culprit, "It was not read", way_out)


def _altered_in_words(
    table: Place, altered: Sequence[tuple[LiveFile, int | None]]
) -> tuple[str, str]:
    """Culprit and remedy for these files, as sentences without their full stops."""
    file, size = altered[0]
    state = f"was altered: it has {size} bytes, the log says {file.size}"
    # A vacuum removes files of earlier versions, which nothing brings back.
    fix = "Make its days again from their inputs"
    if size is None:
        state, fix = "is gone", "If the newest version lacks it, make its days"
    more = f", and {len(altered) - 1} more" if len(altered) > 1 else ""
    culprit = f"the data file {file.path} {state}{more}"
    if _is_of_others(file.path):
        return (
            culprit,
            "Others took it away there: `backfill-assets catch-up` follows their newest version",
        )
    days = sorted(f.partition or "" for f, _ in altered if re.fullmatch(DAY, f.partition or ""))
    if not days:
        return culprit, "Restore it from a backup, then run `backfill-assets verify`"
    span = f"--from {days[0]} --to {days[-1]} --tables {table.name}"
    return culprit, f"{fix}: `backfill-assets backfill --force {span}`"


def refuse_altered_version(
    lake: LakeFolder, contract: Contract, version: int | None = None
) -> None:
    """Raise Altered as `refuse_altered_files` for the files of a version of a table (None: the
    newest); do nothing where there is no table, or where its log cannot be opened."""
    place = lake.table_place(contract.name)
    with suppress(DeltaError):
        seen = version or LOGS.head(place)
        if exists_at(seen) and not _is_plainly_whole(place, seen):
            opened = LOGS.opened_once(place, seen)
            refuse_altered_files(place, live_files(opened, contract.partition_column))


def _is_plainly_whole(table: Place, version: int) -> bool:
    """Whether a version of a folder's own table is one whose log is plain to read, and whose files
    all have their sizes: so it is nearly always, for a tenth of what opening the table takes."""
    if table.is_store or is_adopted_there(table):
        return False
    logged = logged_sizes(table, version)
    if logged is None or any(map(_is_of_others, logged)):
        return False
    return table.sizes([*logged]) == logged


def column_type_names(lake: LakeFolder, table: str, day_column: str = "") -> dict[str, str]:
    """Type of each column of the newest version as contracts write it (another engine's word for
    other types); of the day that files are laid out by as `column_types_by_day` has it.

    Empty if there is no table or its log cannot be opened.
    """
    path = lake.table_place(table)
    newest = LOGS.head(path)
    if not exists_at(newest):
        return {}
    try:
        opened = LOGS.opened(path, newest)
    except DeltaError:
        return {}
    kinds = column_types_by_day(opened, day_column)
    return {f.name: str(kinds[f.name] or f.type) for f in opened.schema().fields}


def day_bytes(lake: LakeFolder, contract: Contract) -> dict[date, int]:
    """Bytes of data files per day; days without a file are left out. Empty if there is no table."""
    sizes = Counter[date]()
    newest = LOGS.head(lake.table_place(contract.name))
    for file in files_of_version(lake, contract, newest) if exists_at(newest) else []:
        if file.partition:
            sizes[date.fromisoformat(file.partition)] += file.size
    return dict(sizes)
