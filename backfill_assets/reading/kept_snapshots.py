"""Snapshots that a lake keeps, by the file of each: their tables, days and files.

Not here: making one and letting it go (`candidates.snapshots`), and the bytes of kept files
(`kept_files`).
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from backfill_assets.kernel.core.answers import InstantText
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.table_places import SNAPSHOT_FILE, SNAPSHOTS
from backfill_assets.reading.kept_files import KeptFile, file_fault, tables_digest
from backfill_assets.reading.whole import snapshots_of

SCHEMA = 1


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class KeptTableForm(TypedDict):
    """A kept table as JSON values."""

    version: int
    day_column: str
    key: Sequence[str]
    partition_by: str
    columns: Sequence[tuple[str, str, str, bool]]  # name, type, description, whether nullable
    days: Mapping[str, tuple[int, str]]  # rows and fingerprint
    data_files: Sequence[tuple[str, str, int]]  # path, SHA-256, bytes
    pinned: NotRequired[bool]


class SnapshotForm(TypedDict):
    """A snapshot as JSON values."""

    backfill_assets: int  # the version of this form
    name: str
    made_at: InstantText
    by: str
    note: str
    digest: str
    tables: Mapping[str, KeptTableForm]


@dataclass(frozen=True)
class KeptTable:
    """Days of a table at a version, and the files that hold them."""

    contract: Contract
    version: int
    days: Mapping[date, tuple[int, str]]  # rows and fingerprint
    files: tuple[KeptFile, ...]
    pinned: bool = False  # the files are the table's own, which upkeep leaves alone

    @property
    def rows(self) -> int:
        """Return the rows of all its days."""
        return sum(rows for rows, _ in self.days.values())

    def to_dict(self) -> KeptTableForm:
        """Return the table as JSON values."""
        contract = self.contract
        found: KeptTableForm = {
            "version": self.version,
            "day_column": contract.day_column,
            "key": list(contract.key),
            "partition_by": contract.partition_column,
            "columns": [(c.name, c.type, c.description, c.nullable) for c in contract.columns],
            "days": {str(d): content for d, content in sorted(self.days.items())},
            "data_files": [(f.path, f.sha256, f.size) for f in self.files],
        }
        if self.pinned:
            found["pinned"] = True
        return found


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as its file says; a model's card can name its `digest`."""

    name: str
    made_at: datetime
    by: str
    note: str
    tables: Mapping[str, KeptTable]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the kept tables, days and bytes, without the name."""
        return tables_digest(json_of(self.tables))

    def to_dict(self) -> SnapshotForm:
        """Return the snapshot as JSON values."""
        return {
            "backfill_assets": SCHEMA,
            "name": self.name,
            "made_at": self.made_at.isoformat(),
            "by": self.by,
            "note": self.note,
            "digest": self.digest,
            "tables": json_of(self.tables),
        }


def snapshot_names(lake: Lake) -> list[str]:
    """Return the names of all snapshots, sorted."""
    return [name for name in snapshots_of(lake.place).names() if NAME.fullmatch(name)]


def find_snapshot(lake: Lake, name: str) -> Snapshot:
    """Return the snapshot of that name; raises BackfillError for an unknown name and for a changed
    file."""
    place = _existing_place(lake, name, "read")
    with contextlib.suppress(
        ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError
    ):
        body = place.read_json(SNAPSHOT_FILE)
        found = _parsed_snapshot(body)
        if body["digest"] == found.digest:
            return found
    fix = "Restore it from a backup, or drop the snapshot"
    raise _snapshot_error(name, f"{place.uri(SNAPSHOT_FILE)} is not what was written", fix, "read")


def kept_file_path(lake: Lake, name: str, table: KeptTable, kept: KeptFile) -> Path:
    """Return the path of a file of the snapshot; raises BackfillError where it is gone or holds
    other bytes."""
    place = place_of_files(lake, name, table)
    if fault := file_fault(place, kept, deep=True):
        fix = "Restore it from a backup; the other files may be whole"
        raise _snapshot_error(name, f"{place.uri(kept.path)} {fault}", fix, "read")
    return place.local(kept.path)


def place_of_files(lake: Lake, name: str, table: KeptTable) -> Place:
    """Return the place in which the files of a kept table have their paths."""
    return lake.place if table.pinned else lake.place.at(f"{SNAPSHOTS}/{name}")


def _existing_place(lake: Lake, name: str, done: str) -> Place:
    """Return the folder of a snapshot; raises BackfillError if there is none. `done`: what cannot
    be done with it; only to be read it must be complete."""
    snapshots = snapshots_of(lake.place)
    if name not in (snapshots.names() if done == "read" else snapshots.place.names()):
        raise _snapshot_error(
            name, "this lake has no such snapshot", "See `backfill-assets snapshot list`", done
        )
    return snapshots.place.at(name)


def _parsed_snapshot(body: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot that `body` describes, which is its JSON document."""
    tables = {}
    for name, kept in body["tables"].items():
        columns = tuple(Column(*column) for column in kept["columns"])
        laid_out = kept["partition_by"]
        contract = Contract(
            name=name,
            description="",
            columns=columns,
            day_column=kept["day_column"],
            key=tuple(kept["key"]),
            inputs=(),
            partition_by=laid_out,
        )
        days = {
            date.fromisoformat(d): (int(rows), str(fingerprint))
            for d, (rows, fingerprint) in kept["days"].items()
        }
        files = tuple(KeptFile(*f) for f in kept["data_files"])
        tables[name] = KeptTable(
            contract, int(kept["version"]), days, files, kept.get("pinned", False)
        )
    return Snapshot(
        body["name"], datetime.fromisoformat(body["made_at"]), body["by"], body["note"], tables
    )


def _snapshot_error(name: str, culprit: str, fix: str, done: str = "kept") -> BackfillError:
    return BackfillError(f"the snapshot {name[:100]!r}", culprit, f"Nothing was {done}", fix)
