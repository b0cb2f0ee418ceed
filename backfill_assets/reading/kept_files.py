"""Data files that snapshots keep: copies, or in a store the table's own files, which upkeep then
leaves alone.

Not here: which days a snapshot keeps, and whether their rows are right (`candidates.snapshots`).
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.log.log import commit_versions
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.data_files import (
    files_of_days,
    files_of_version,
    folder_of,
    live_files,
    refuse_altered_files,
)
from backfill_assets.kernel.tables.folder import TABLES, LakeFolder
from backfill_assets.kernel.tables.table_places import SNAPSHOT_FILE, UNFINISHED
from backfill_assets.reading.whole import MAKING, snapshots_of

# SHA-256 of each of some files of a place, of which the sizes are given by their names.
Digests = Callable[[Place, Mapping[str, int]], Sequence[str]]
DAY_IN_NAME = re.compile(r"=(\d{4}-\d\d-\d\d)/")  # of a data file


@dataclass(frozen=True)
class KeptFile:
    """A data file that a snapshot keeps."""

    path: str  # below the snapshot's folder; of a table whose files are pinned, below the lake
    sha256: str
    size: int  # bytes


def digests_here(place: Place, sizes: Mapping[str, int]) -> list[str]:
    """The SHA-256 of each of these files, whose bytes this process reads."""
    return [place.sha256(name) for name in sizes]


def keep_files(
    lake: LakeFolder,
    contract: Contract,
    version: int,
    days: Collection[date],
    folder: Place,
    digests: Digests = digests_here,
) -> tuple[tuple[KeptFile, ...], bool]:
    """Keep the files of days of a version; says, too, whether they are pinned: in a store by their
    names in the lake, else they are copied below the folder, in the table's layout. Raises Altered
    for a file that is gone or altered."""
    table = lake.table_place(contract.name)
    of_version = files_of_version(lake, contract, version)
    files = sorted(files_of_days(of_version, contract, days), key=lambda f: f.path)
    refuse_altered_files(table, files)
    is_elsewhere = bool(contract.external or lake.address_of_adopted(contract.name))
    if lake.place.is_store and lake.writes(contract.name) and not is_elsewhere:
        sizes = {f.path: f.size for f in files}
        return _kept_files(f"{TABLES}/{contract.name}/", sizes, digests(table, sizes)), True
    sizes = dict[str, int]()
    for n, file in enumerate(files):
        below = contract.name
        if contract.partition_column:
            below += f"/{folder_of(table.uri(file.path))}"
        path = f"{below}/part-{n:05d}.parquet"
        folder.copy(path, table, file.path)
        sizes[path] = folder.size(path) or 0
    kept = _kept_files("", sizes, digests(folder, sizes))
    folder.sync_new([*sizes])
    return kept, False


def _kept_files(
    above: str, sizes: Mapping[str, int], digests: Sequence[str]
) -> tuple[KeptFile, ...]:
    """Files by their names, which lie below `above`."""
    found = zip(sizes.items(), digests, strict=True)
    return tuple(KeptFile(f"{above}{name}", digest, size) for (name, size), digest in found)


def file_fault(place: Place, kept: KeptFile, *, deep: bool) -> str:
    """Say what is wrong with a kept file, with `deep` by reading its bytes; empty if nothing is."""
    size = place.size(kept.path)
    if size is None:
        return "is gone"
    if size != kept.size:
        return "has another size, and so other bytes than those that were kept"
    if deep and place.sha256(kept.path) != kept.sha256:
        return "has other bytes than those that were kept"
    return ""


def pinned_files(lake: Place) -> dict[str, set[str]] | None:
    """The pinned files by their names in the lake, each with the names of its snapshots. None: it
    may be any file, as a snapshot is being made, or its file is damaged.

    Who deletes files that a commit took out chooses them first and asks afterwards: a snapshot that
    is begun later keeps none of them.
    """
    snapshots, found = snapshots_of(lake), dict[str, set[str]]()
    for name in (
        n for n in snapshots.place.names() if snapshots.place.exists(f"{n}/{SNAPSHOT_FILE}")
    ):
        body = snapshots.place.read_json(f"{name}/{SNAPSHOT_FILE}")
        digest = tables_digest(body.get("tables"))
        is_changed = body.get("digest", digest) != digest
        if not body or is_changed or body.get(UNFINISHED) == MAKING:
            return None
        for table in body.get("tables", {}).values():
            for file in table["data_files"] if table.get("pinned") else ():
                found.setdefault(file[0], set()).add(name)
    return found


def tables_digest(tables: Any) -> str:
    """The SHA-256 of what a snapshot's file says of its tables, JSON values; the file names it."""
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def snapshots_pinning(lake: Place, files: Collection[str]) -> set[str]:
    """The names of the snapshots that pin one of these files."""
    pinned = pinned_files(lake) or {}
    return set().union(*(pinned.get(file, ()) for file in files))


def bytes_pinned_by(lake: LakeFolder, name: str) -> int:
    """Bytes of the replaced files that only the snapshot of that name pins."""
    pinned = [file for file, names in (pinned_files(lake.place) or {}).items() if names == {name}]
    tables = {table: lake.table_place(table) for table in {file.split("/")[1] for file in pinned}}
    opened = {name: LOGS.opened(table) for name, table in tables.items() if commit_versions(table)}
    live = {
        f"{TABLES}/{name}/{f.path}" for name, table in opened.items() for f in live_files(table, "")
    }
    return sum(lake.place.size(file) or 0 for file in pinned if file not in live)
