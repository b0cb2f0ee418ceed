"""The doctor's look at snapshots: is each one what was written, are its files there, what do they hold on the disk.

Lives here: the findings, quick ones by names and sizes, and deep ones by the SHA-256 of every file. Does not live here:
snapshots themselves (`snapshots`), whose readers prove every file again.
"""

import shlex
from collections.abc import Callable, Iterator

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import SNAPSHOTS, Lake
from backfill_assets.operations.diagnosis import Diagnosis, broken, fine, some
from backfill_assets.operations.snapshots import (
    FILE,
    KeptFile,
    Snapshot,
    file_of,
    find_snapshot,
    held_bytes,
    snapshot_names,
)

DROP = "Restore them from a backup, or let the snapshot go with `backfill-assets snapshot drop {} --yes`"


def examine_snapshots(lake: Lake) -> list[Diagnosis]:
    """One finding per snapshot, by names and sizes of files alone; and one for what stopped commands left."""
    found = [_examined(lake, name, _quick, "there") for name in snapshot_names(lake)]
    return [*found, *_left(lake)]


def examine_kept_bytes(lake: Lake) -> list[Diagnosis]:
    """One finding per snapshot, for which every byte it keeps is read."""
    return [_examined(lake, name, _deep, "the bytes that were kept") for name in snapshot_names(lake)]


def _examined(lake: Lake, name: str, wrong: Callable[[Lake, str, KeptFile], str], well: str) -> Diagnosis:
    what = f"the snapshot {name}"
    try:
        snapshot = find_snapshot(lake, name)
    except BackfillError as error:
        return broken(what, error.culprit, error.fix)
    files = [file for table in snapshot.tables.values() for file in table.files]
    faults = [told for told in (wrong(lake, name, file) for file in files) if told]
    if faults:
        return broken(what, f"{len(faults)} of {len(files)} file(s) {some(faults)}", DROP.format(name))
    return fine(what, f"{_told(lake, snapshot, files)}; all are {well}")


def _told(lake: Lake, snapshot: Snapshot, files: list[KeptFile]) -> str:
    size, held = sum(f.size for f in files), held_bytes(lake, snapshot.name)
    tables = ", ".join(snapshot.tables)
    return f"{tables}: {len(files)} file(s), {size} bytes, of which no table holds {held} any more"


def _quick(lake: Lake, name: str, kept: KeptFile) -> str:
    path = lake.root / SNAPSHOTS / name / kept.path
    if not path.is_file():
        return f"{kept.path} is gone"
    return "" if path.stat().st_size == kept.size else f"{kept.path} has another size"


def _deep(lake: Lake, name: str, kept: KeptFile) -> str:
    try:
        file_of(lake, name, kept)
    except BackfillError:
        return _quick(lake, name, kept) or f"{kept.path} holds other bytes"
    return ""


def _left(lake: Lake) -> Iterator[Diagnosis]:
    """Folders that are no snapshot: a `create` that runs or was stopped, or a `drop` that was."""
    folder = lake.root / SNAPSHOTS
    there = sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
    left = [p for p in there if p.name.startswith(".") or not (p / FILE).is_file()]
    if left:
        named = some(p.name for p in left)
        told = f"{named} in their folder {'is' if len(left) == 1 else 'are'} none, left by a stopped command"
        yield fine("snapshots", f"{told}; where none runs, `rm -r {shlex.quote(str(left[0]))}` lets it go")
