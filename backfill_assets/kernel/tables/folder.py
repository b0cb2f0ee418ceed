"""A lake's folder: its settings, its paths, and the rights of its own folders.

Not here: which lake is meant (`kernel.core.process`), opening one (`home`), and reading or writing
a table.
"""

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from backfill_assets.kernel.core.addresses import CANDIDATES, address_of, bucket_address
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.ownership import remove_rights
from backfill_assets.kernel.log.adopted import LOG, first_version
from backfill_assets.kernel.place.choice import bucket_prefix_at, place_at
from backfill_assets.kernel.place.port import LOCKS, RUNS, Place
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.tables.table_places import ASSETS, SNAPSHOTS
from backfill_assets.kernel.tables.table_places import TABLES as TABLES

# Folders that the lake's own programs create; the rest is the user's.
RECONCILED = ".reconciled"
FORGOTTEN = ".forgotten"
VERSIONS = ".versions"
OWN_FOLDERS = (
    TABLES,
    ".stock",
    LOCKS,
    RUNS,
    ".dagster",
    ".plans",
    SNAPSHOTS,
    RECONCILED,
    CANDIDATES,
    FORGOTTEN,
    VERSIONS,
    ".upkeep",
    ASSETS,
    ".alerts",
)
# DuckDB takes a path with one of the first three for a pattern, delta-rs the last one for a /.
GLOB_CHARS = "*?[\\"
DAGSTER_FOLDER = ".dagster"  # of the project's own instance, next to its dagster.yaml


@dataclass(frozen=True)
class LakeFolder:
    """A lake as its storage knows it: its folder (absolute) and its settings."""

    # Of a lake in a bucket: this machine's own folder of it, for what only this machine needs.
    root: Path
    settings: LakeSettings
    source: str = ""  # the source that the settings are narrowed to (`of_source`); "": all
    shared: Path | None = None  # of a candidate: the folder of the lake whose tables it reads
    own: frozenset[str] = frozenset()  # of a candidate: the tables that it writes
    whole: LakeSettings | None = None  # of all sources, where the settings are narrowed to one

    def of_source(self, name: str) -> Self:
        """The lake as a load of one of its sources sees it; the lake itself if its only source has
        no name."""
        if name == self.source:
            return self
        return replace(
            self,
            settings=self.settings.of_source(name),
            source=name,
            whole=self.whole or self.settings,
        )

    def by_source(self) -> tuple[Self, ...]:
        """The lake narrowed to each of its sources in turn."""
        if self.source:
            return (self,)
        return tuple(self.of_source(name) for name in self.settings.delivered)

    @property
    def place(self) -> Place:
        """Where the lake's own files lie: tables, ledgers, plans, snapshots, candidates and
        records."""
        return place_at(self.root)

    @property
    def address(self) -> str:
        """What people call the lake: its address in a bucket, or its folder."""
        return address_of(self.root)

    @property
    def shared_place(self) -> Place:
        """The place of the lake whose tables a candidate reads; else the lake's own."""
        return place_at(self.shared or self.root)

    @property
    def tables(self) -> Path:
        """The folder of the tables, to look at its rights."""
        return self.root / TABLES

    def table_place(self, name: str) -> Place:
        """The place of a Delta table, for this room only; `name` comes from a contract."""
        if address := self.address_of_adopted(name):
            return bucket_prefix_at(address, name)
        lake = self.place if self.writes(name) else self.shared_place
        return lake.at(f"{TABLES}/{name}")

    def address_of_adopted(self, name: str) -> str:
        """Where a table lies that was adopted in a bucket; "" for any other, and for a candidate's
        own one."""
        named = self.settings.tables.get(name)
        is_candidates_own = name in self.own
        return "" if named is None or is_candidates_own else named.place

    def is_adopted(self, name: str) -> bool:
        """Whether others made the table, and the lake adopted it."""
        return first_version(self.table_place(name).names(LOG)) > 0

    def writes(self, name: str) -> bool:
        """Whether the lake may write the table: a candidate only reads the tables of its base
        lake."""
        return self.shared is None or name in self.own

    @property
    def base_lake(self) -> Self | None:
        """The lake whose tables a candidate reads, with the candidate's settings; None unless this
        is a candidate."""
        if self.shared is None:
            return None
        return replace(self, root=self.shared, shared=None, own=frozenset())

    def refuse_shared(self, name: str) -> None:
        """Raise BackfillError if the table is one that a candidate only reads."""
        if not self.writes(name):
            lake = address_of(self.shared or self.root)
            raise BackfillError(
                f"the table {name}",
                f"the candidate {self.root.name} reads it from the lake {lake}",
                "Nothing was written",
                f"Work on that lake, or on {', '.join(sorted(self.own))} here",
            )

    def table_uri(self, name: str) -> str:
        """The address of a table, of one in a folder as a `file:` URI, for people and other
        programs."""
        place = self.table_place(name)
        return place.uri() if bucket_address(self.root) else Path(place.uri()).as_uri()

    @property
    def stock(self) -> Place:
        """The content store: copies of landed files, named by their sha256; they can be deleted at
        any time."""
        return self.place.at(f".stock/{self.source}".rstrip("/"))


def refuse_file(root: Path) -> None:
    """Raise SettingsError if `root` or a folder above it is a file, or if its path is a pattern."""
    if set(str(root)) & set(GLOB_CHARS):
        raise SettingsError(
            f"the lake {root}",
            f"its path holds one of {' '.join(GLOB_CHARS)}, and so means files of other folders, "
            "too",
            "Nothing was done",
            "Give the folder a name without it",
        )
    if file := next((p for p in (root, *root.parents) if p.is_file()), None):
        raise SettingsError(
            f"the lake {root}",
            f"{file} is a file, and a lake is a folder",
            "Nothing was done",
            "Name the folder that holds, or is to hold, its lake.toml",
        )


def close_folder(folder: Path, umask: int) -> None:
    """Remove the permissions in `umask` from a folder of this user, if it exists and is no link;
    not from its files."""
    with contextlib.suppress(OSError):
        remove_rights(folder, umask)
