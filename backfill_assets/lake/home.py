"""An opened lake: its folder, its settings, and the store of its tables.

Not here: its paths (`folder`), and which lake is meant (`core.process`).
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.core.addresses import bucket_address, local_root
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.place import LOCKS
from backfill_assets.lake.declared import candidate_facts
from backfill_assets.lake.folder import OWN_FOLDERS, LakeFolder, close_folder, refuse_file
from backfill_assets.lake.in_bucket import fetch_own, refuse_unreachable
from backfill_assets.lake.settings import load_settings
from backfill_assets.lake.store import TableStore


@dataclass(frozen=True)
class Lake(LakeFolder):
    """A lake whose settings were read (`LakeFolder`), and the `store` of its tables. Created by `open_lake`."""

    @property
    def store(self) -> TableStore:
        """The store of its tables."""
        return TableStore(self)


def open_lake(root: Path | str, is_further: bool = False, proposed: Path | None = None) -> Lake:
    """The lake at `root`, a folder or an address; raises SettingsError if its `lake.toml` is missing or bad.
    `proposed`: the folder of a lake.toml that is tried before the lake has one.

    From then on only the users that `[access]` names can read files that this process writes, and the lake's own
    folders. A `is_further` lake, opened beside that of the process, never adds users: files may hold rows of both.
    """
    lake = look_at(root, proposed)
    before = os.umask(umask := lake.settings.access.umask)
    if is_further:
        os.umask(umask | before)
    _close_folders(lake)
    return lake


def look_at(root: Path | str, proposed: Path | None = None) -> Lake:
    """The lake at `root` as `open_lake` gives it; neither this process nor any folder is changed, but for this
    machine's copies of the own files of a lake in a bucket."""
    root = local_root(root)
    refuse_file(root)
    settings = load_settings(proposed or root)
    if bucket_address(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_unreachable(root, settings)
        if proposed is None:
            fetch_own(root, settings)
    if not (candidate := candidate_facts(root)):
        return Lake(root, settings)
    return Lake(root, settings, shared=root.parent.parent, own=frozenset(candidate["tables"]))


@contextlib.contextmanager
def access_of(lake: Lake) -> Iterator[None]:
    """Within, only the users that `[access]` names can read files that this process writes; then its umask is as it
    was."""
    before = os.umask(lake.settings.access.umask)
    try:
        _close_folders(lake)
        yield
    finally:
        os.umask(before)


def _close_folders(lake: Lake) -> None:
    for name in OWN_FOLDERS:
        close_folder(lake.root / name, lake.settings.access.umask)


def unwritable_folder(lake: Lake) -> Path | None:
    """Return a folder of the lake that this user may not write into; None without any."""
    folders = (lake.root, lake.root / ".runs", lake.root / LOCKS, lake.tables)
    return next((f for f in folders if f.exists() and not os.access(f, os.W_OK | os.X_OK)), None)


def refuse_unwritable(lake: Lake) -> None:
    """Raise BackfillError if this user may not write into the lake."""
    if (folder := unwritable_folder(lake)) is not None:
        fix = "Run as the owner of the lake, or have the rights changed"
        raise BackfillError(str(folder), "this user may not write there", "Nothing was started", fix)
