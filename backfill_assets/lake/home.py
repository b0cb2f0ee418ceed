"""A lake's folder: where its tables, ledgers, locks and state lie.

Lives here: paths and the loading of the settings. Does not live here: which lake is meant (`core.lake_meant`), and
reading or writing a table.
"""

import contextlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.core.ownership import take_rights
from backfill_assets.lake.log import Logs
from backfill_assets.lake.settings import LakeSettings, load_settings

if TYPE_CHECKING:
    from backfill_assets.lake.store import TableStore

# What the lake's own programs make in its folder; the rest is the user's.
SNAPSHOTS = ".snapshots"
OWN_FOLDERS = ("tables", ".stock", ".locks", ".runs", ".dagster", ".plans", SNAPSHOTS)
PATTERN = "*?["  # DuckDB takes a path with one of these for a pattern, and no escape
DAGSTER_FOLDER = ".dagster"  # of the project's own instance, next to its dagster.yaml


@dataclass(frozen=True)
class Lake:
    """An opened lake: its folder (absolute) and its settings.

    `logs` is what was read of its tables' logs before, so that only what is new is read (None: every look reads anew).
    `source` is the one that its settings are narrowed to, where a lake has several (`of_source`).
    """

    root: Path
    settings: LakeSettings
    logs: Logs | None = field(default=None, compare=False, repr=False)
    source: str = ""

    def of_source(self, name: str) -> "Lake":
        """The lake as a load of one of its sources sees it; itself where it has one, which has no name."""
        return replace(self, settings=self.settings.of_source(name), source=name) if name != self.source else self

    def by_source(self) -> tuple["Lake", ...]:
        """The lake narrowed to each of its sources in turn."""
        return tuple(self.of_source(name) for name in self.settings.delivered) if not self.source else (self,)

    @property
    def store(self) -> "TableStore":
        """What holds the tables: here it is chosen."""
        from backfill_assets.lake.delta_store import DeltaStore

        return DeltaStore(self)

    @property
    def tables(self) -> Path:
        """The folder of the tables, for looks at its rights; where one table lies is the store's affair."""
        return self.root / "tables"

    def table_path(self, name: str) -> Path:
        """Where the Delta store keeps the table of that name, for this room only; `name` comes from a contract."""
        return self.tables / name

    @property
    def stock(self) -> Path:
        """Strictly parsed copies of landed text files, named by their sha256; can be deleted and is made again."""
        return self.root / ".stock" / self.source

    @property
    def locks(self) -> Path:
        """The lock files, outside the tables so that no reader sees them."""
        return self.root / ".locks"


def open_lake(root: Path) -> Lake:
    """The lake at `root`; raises SettingsError where its `lake.toml` is missing or bad.

    From then on what this process writes can be read by those only whom `[access]` names, and so can the lake's own
    folders, also those that an earlier version made for everyone.
    """
    root = root.expanduser().resolve()
    refuse_file(root)
    settings = load_settings(root)
    os.umask(settings.access.umask)
    for name in OWN_FOLDERS:
        close_folder(root / name, settings.access.umask)
    return Lake(root, settings, Logs())


def refuse_file(root: Path) -> None:
    """Raise where `root` cannot be a lake's folder, since a file is there, or above it, or its path is a pattern."""
    if set(str(root)) & set(PATTERN):
        raise SettingsError(
            f"the lake {root}", f"its path holds one of {' '.join(PATTERN)}, and so means files of other folders, too",
            "Nothing was done", "Give the folder a name without it",
        )  # fmt: skip
    if file := next((p for p in (root, *root.parents) if p.is_file()), None):
        raise SettingsError(
            f"the lake {root}", f"{file} is a file, and a lake is a folder", "Nothing was done",
            "Name the folder that holds, or is to hold, its lake.toml",
        )  # fmt: skip


def close_folder(folder: Path, umask: int) -> None:
    """Take the permissions in `umask` from a folder of this user, if it exists and is no link; leaves what is in it
    alone."""
    with contextlib.suppress(OSError):
        take_rights(folder, umask)


def refuse_unwritable(lake: Lake) -> None:
    """Raise where this user may not write into the lake, before anything is begun that would break halfway."""
    for folder in (lake.root, lake.root / ".runs", lake.locks, lake.tables):
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise BackfillError(
                str(folder),
                "this user may not write there",
                "Nothing was started",
                "Run as the owner of the lake, or have the rights changed",
            )
