"""Deleting what held a forgotten entity: files of tables, records, and pages of databases.

Not here: the record of erasures (`intake.forgotten`), searching bytes (`traces`), and rows in
landed files (`landed_files`).
"""

import contextlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from backfill_assets.erasure.decoding import SQLITE
from backfill_assets.erasure.traces import Search
from backfill_assets.intake.forgotten import Erasure, table_places
from backfill_assets.kernel.core.addresses import CANDIDATES, local_bucket_folder
from backfill_assets.kernel.log.adopted import flat_file_name
from backfill_assets.kernel.log.log import (
    commit_versions,
    data_file_names,
    file_changes,
    open_delta,
)
from backfill_assets.kernel.place.choice import MACHINE
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import (
    Place,
    table_lock,
)
from backfill_assets.kernel.tables.data_files import live_files
from backfill_assets.kernel.tables.folder import (
    FORGOTTEN,
    OWN_FOLDERS,
    TABLES,
    VERSIONS,
    LakeFolder,
)
from backfill_assets.kernel.tables.staging import STAGING
from backfill_assets.kernel.tables.table_places import SNAPSHOTS
from backfill_assets.reading.kept_files import pinned_files

# Folders of the lake's own whose files go if they hold an entity: not tables, copies of contents,
# records, databases.
NO_RECORDS = (CANDIDATES, SNAPSHOTS, FORGOTTEN, VERSIONS, ".stock")
RECORDS = (*(f for f in OWN_FOLDERS[1:] if f not in NO_RECORDS), ".server", STAGING)
DATABASES = (".db", ".db-wal", ".db-shm")


def _path_of_file(lake: LakeFolder, table: Place, name: str) -> Path:
    """What a search calls a file of a table."""
    if table.is_store:
        return local_bucket_folder(table.uri(), lake.root) / name
    return lake.root / TABLES / table.name / name


def erase_files(search: Search, erasure: Erasure) -> None:
    """Delete the files below the lake's own folders that hold the entity, and note how many per
    folder. What stays: live data files, logs, copies of contents, Dagster's databases, candidates,
    and snapshots with what they pin.

    In partitions written since the erasure began, every older file is deleted: it may hold the
    entity without its name.
    """
    lake = search.lake
    for table in table_places(lake):
        with table_lock(lake.place, table.name):
            _erase_of_table(search, table, erasure)
    folders = [lake.root / name for name in (*RECORDS, MACHINE)]
    own = [folder for folder in folders if not folder.is_symlink()]
    results = search.below([*own, *search.copies])
    held = [path for path, result in results.items() if result.held]
    for path in held:
        if path.suffix not in DATABASES:
            _erase_record(lake, path, erasure)
    erasure.keep()


def _erase_of_table(search: Search, table: Place, erasure: Erasure) -> None:
    """Delete the replaced data files of a table that hold the entity, or may, unless a snapshot
    keeps them."""
    lake = search.lake
    live = {name for file in live_files(open_delta(table), "") for name in file.names}
    old = _replaced_files(table, erasure.done["began_versions"].get(table.name, -1))
    gone = list[str]()
    for name in data_file_names(table):
        if name in live:
            continue
        may_hold = name in old or search.of(_path_of_file(lake, table, name)).held
        if may_hold:
            gone.append(name)
    if not gone:
        return
    pinned = pinned_files(lake.place) or {}  # None: whoever makes a snapshot now is refused
    for name in gone:
        if f"{TABLES}/{table.name}/{name}" not in pinned:
            _delete_counted(table, name, table.name, erasure)


def _erase_record(lake: LakeFolder, path: Path, erasure: Erasure) -> None:
    """Delete a file, or the object that this machine calls so, below the lake or below a folder of
    copies. It is counted under its folder of the lake, or the folder of copies."""
    below = path.parent.name
    if path.is_relative_to(lake.root):
        below = path.relative_to(lake.root).as_posix()
    counted_as = below.partition("/")[0]
    if path.is_file():
        _delete_counted(Folder(str(path.parent)), path.name, counted_as, erasure)
    else:
        _delete_counted(lake.place, below, counted_as, erasure)


def _replaced_files(table: Place, began: int) -> set[str]:
    """Data files that the log has named, in partitions from which a commit after version `began`
    removed files. Also the first names of files there that `adopt` linked under a second name."""
    named, gone = defaultdict[str, set[str]](set), set[str]()
    for version in commit_versions(table):
        for change in file_changes(table, version):
            partition = json.dumps(change.values, sort_keys=True)
            named[partition].add(change.path)
            if not change.is_added and version > began:
                gone.add(partition)
    old = {path for partition in gone for path in named[partition]}
    last_parts = {path.rpartition("/")[2] for path in old}
    return old | {path for path in named["{}"] if flat_file_name(path) in last_parts}


def _delete_counted(place: Place, name: str, counted_as: str, erasure: Erasure) -> None:
    """Delete a file, and count it in the erasure under `counted_as`, its table or folder."""
    place.delete(name)
    erasure.done["deleted"][counted_as] = erasure.done["deleted"].get(counted_as, 0) + 1


def vacuum_databases(databases: Collection[Path]) -> None:
    """Rewrite SQLite files, so that no deleted row stays in their bytes. Links, other files, and a
    database in use stay as they are."""
    for path in databases:
        if path.is_symlink() or not path.is_file():
            continue
        if Folder(str(path.parent)).ends(path.name, len(SQLITE))[0] != SQLITE:
            continue
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(path)) as opened,
        ):
            opened.execute("VACUUM")
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
