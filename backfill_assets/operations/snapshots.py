"""Snapshots: days of tables under a name, whose files are kept whatever happens to the tables.

A snapshot is one folder, `.snapshots/NAME`: `snapshot.json`, written once, and copies of the data files, each with its
SHA-256. Before a snapshot counts, all its rows are compared with the receipts. Not here: reading its rows (`reader`).
"""

import contextlib
import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.core.clock import utc_now
from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.days import DayRange, contiguous, ranges
from backfill_assets.core.downstream import will_change
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.ownership import whoami
from backfill_assets.core.place import LOCKS, Place, exists, read, sha256_of_bytes, size
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import State, States
from backfill_assets.core.texts import json_of
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.data_files import folder_of
from backfill_assets.lake.folder import SNAPSHOTS
from backfill_assets.lake.forgotten import erasures
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import settled_view
from backfill_assets.operations.fitness import (
    CALLER,
    Unfit,
    UnfitDays,
    UnfitDaysWarning,
    differing_days,
    settle,
    unfit_days_now,
)

FILE, SCHEMA = "snapshot.json", 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class KeptFile:
    """A data file: its path below the snapshot's folder, and the digest and number of its bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class KeptTable:
    """Days of a table at a version, each with its rows and fingerprint, and the files that hold them."""

    contract: Contract
    version: int
    days: Mapping[date, tuple[int, str]]
    files: tuple[KeptFile, ...]

    @property
    def rows(self) -> int:
        """Return the rows of all its days."""
        return sum(rows for rows, _ in self.days.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        contract = self.contract
        return {
            "version": self.version, "day_column": contract.day_column, "key": list(contract.key),
            "partition_by": contract.partition_column,
            "columns": [[c.name, c.type, c.description, c.nullable] for c in contract.columns],
            "days": {str(d): list(content) for d, content in sorted(self.days.items())},
            "data_files": [[f.path, f.sha256, f.size] for f in self.files],
        }  # fmt: skip


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
        return hashlib.sha256(json.dumps(json_of(self.tables), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as JSON values."""
        return {
            "backfill_assets": SCHEMA, "name": self.name, "made_at": self.made_at.isoformat(), "by": self.by,
            "note": self.note, "digest": self.digest, "tables": json_of(self.tables),
        }  # fmt: skip


@dataclass(frozen=True)
class SnapshotRequest:
    """A request for a snapshot: some tables (empty: all), some days (None: all that they hold), by the newest lake
    version, or with `newest` each at its newest commit."""

    name: str
    tables: Collection[str] = ()
    days: DayRange | None = None
    note: str = ""
    unfit: Unfit = "refuse"
    newest: bool = False


Chosen = tuple[Contract, int, Mapping[date, DayEntry], list[str]]


def create_snapshot(lake: Lake, pipeline: Pipeline, request: SnapshotRequest) -> Snapshot:
    """Keep versions of the tables, all from one state of the lake. Raises BackfillError for a name that is taken or not
    allowed and for tables without a version, and UnfitDays as the reader does."""
    if not NAME.fullmatch(request.name):
        raise _refused(request.name, "it is no name of letters, digits, `.`, `_` and `-`", "Choose another name")
    with _snapshot_lock(lake):
        return _created(lake, pipeline, request)


@contextlib.contextmanager
def _snapshot_lock(lake: Lake) -> Iterator[None]:
    """Keep other commands from making or dropping a snapshot; what a killed one left (`.NAME`) is deleted first."""
    with lake.place.lock(f"{LOCKS}/snapshots.lock", "the snapshots"):
        for leftover in (name for name in _snapshots(lake).names() if name.startswith(".")):
            _snapshots(lake).delete_below(leftover)
        yield


def _created(lake: Lake, pipeline: Pipeline, request: SnapshotRequest) -> Snapshot:
    place, draft = _snapshots(lake), f".{request.name}"
    if request.name in place.names():
        raise _refused(request.name, "it is there already, and a snapshot never changes", "Choose another name")
    erased, chosen = erasures(lake), _chosen(lake, pipeline, request)
    try:
        kept = {}
        for contract, version, entries, files in chosen:
            days = {d: (entry.rows, entry.fingerprint) for d, entry in entries.items()}
            kept[contract.name] = KeptTable(contract, version, days, _copied_files(place, draft, contract, files))
        for contract, version, entries, _ in chosen:  # after the copies: what altered a file before them is seen
            _refuse_differing(lake, request.name, contract, version, entries)
        snapshot = Snapshot(request.name, utc_now(), whoami(), request.note, kept)
        place.write(f"{draft}/{FILE}", json.dumps(snapshot.to_dict(), indent=1).encode(), if_absent=True)
        if erasures(lake) != erased or any("finished_at" not in e.done for e in erased):
            raise _refused(request.name, "an entity is being forgotten", "Finish `forget`, then do it again")
        place.move(draft, request.name)
        place.sync("")
    except FileNotFoundError as error:
        raise _refused(request.name, f"a file was taken away meanwhile: {error.filename}", "Do it again") from error
    finally:
        place.delete_below(draft)
    return snapshot


def _chosen(lake: Lake, pipeline: Pipeline, request: SnapshotRequest) -> list[Chosen]:
    contracts = [pipeline.contract(n, "Nothing was kept") for n in request.tables] or list(pipeline.contracts)
    states = pipeline.states(settled_view(lake, pipeline.contracts, request.newest))
    chosen: list[Chosen] = []
    for contract in contracts:
        view = states.view.table(contract.name)
        held = {d: r.entry for d, r in view.latest.items() if request.days or r.entry.built is not Built.PENDING}
        days = list(request.days) if request.days else sorted(held)
        if view.version < 0:
            raise _refused(request.name, f"the table {contract.name} was never made", "Name others with --tables")
        settle(contract, unfit_days_now(states, contract.name, days), request.unfit)
        _settle_changing(contract, states, days, request.unfit)
        entries = {d: held[d] for d in days if d in held}
        chosen.append((contract, view.version, entries, lake.store.data_files(contract, view.version, list(entries))))
    return chosen


def _settle_changing(contract: Contract, states: States, days: Collection[date], unfit: Unfit) -> None:
    """Refuse days, or warn of them, that are outdated or follow days that are to be made again: the next rebuild gives
    them other rows, and a snapshot keeps today's."""
    outdated = {d for d in days if states.of(contract.name, d) is State.OUTDATED}
    changing = (will_change(states)[contract.name] | outdated) & {*days}
    if changing and unfit != "take":
        error = UnfitDays(
            f"the table {contract.name}",
            f"{len(changing)} of {len(days)} days will change: {ranges(sorted(changing))}",
            "Nothing was kept" if unfit == "refuse" else "They are kept all the same",
            "Run `backfill-assets catch-up`, see `backfill-assets status --why`; `--unfit take` keeps them as they are",
        )
        if unfit == "refuse":
            raise error
        warnings.warn(str(error), UnfitDaysWarning, stacklevel=CALLER)


def _refuse_differing(lake: Lake, name: str, contract: Contract, version: int, days: Mapping[date, DayEntry]) -> None:
    """Raise BackfillError where the rows of a day differ from its receipt."""
    wrong = differing_days(lake, contract, days, audit_table(lake, contract, version, list(days)))
    if wrong:
        raise _refused(
            name, f"{contract.name} {', '.join(map(str, contiguous(wrong)))}: the rows are not those of its receipts, "
            "something altered a data file", "Make these days again: `backfill-assets backfill --force --from "
            f"{wrong[0]} --to {wrong[-1]} --tables {contract.name}`",
        )  # fmt: skip


def _copied_files(place: Place, draft: str, contract: Contract, files: Collection[str]) -> tuple[KeptFile, ...]:
    """Copy the files below the draft's folder, in the table's layout."""
    kept = []
    for n, file in enumerate(sorted(files)):
        below = f"{contract.name}/{folder_of(file)}" if contract.partition_column else contract.name
        path = f"{below}/part-{n:05d}.parquet"
        shutil.copyfile(file, place.prepared(f"{draft}/{below}") / f"part-{n:05d}.parquet")
        place.sync(f"{draft}/{path}")
        kept.append(KeptFile(path, sha256_of_bytes(place, f"{draft}/{path}"), size(place, f"{draft}/{path}") or 0))
    return tuple(kept)


def snapshot_names(lake: Lake) -> list[str]:
    """Return the names of all snapshots, sorted."""
    place = _snapshots(lake)
    return sorted(name for name in place.names() if NAME.fullmatch(name) and exists(place, f"{name}/{FILE}"))


def find_snapshot(lake: Lake, name: str) -> Snapshot:
    """Return the snapshot of that name; raises BackfillError for an unknown name and for a changed file."""
    place = _existing(lake, name, "read")
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, OSError):
        body = json.loads(read(place, FILE))
        found = _parsed_snapshot(body)
        if body["digest"] == found.digest:
            return found
    raise _refused(
        name, f"{place.uri(FILE)} is not what was written", "Restore it from a backup, or drop the snapshot", "read"
    )


def drop_snapshot(lake: Lake, name: str) -> None:
    """Delete a snapshot, also a damaged one; raises BackfillError for an unknown name.

    Killed meanwhile, the snapshot is gone; the next call deletes what is left of its folder.
    """
    with _snapshot_lock(lake):
        _existing(lake, name, "dropped")
        _snapshots(lake).move(name, f".{name}")
        _snapshots(lake).delete_below(f".{name}")


def held_bytes(lake: Lake, name: str) -> int:
    """Return the bytes that would be free without the snapshot."""
    place = _existing(lake, name, "dropped")
    return sum(size(place, file) or 0 for file in place.below() if file.endswith(".parquet"))


def file_of(lake: Lake, name: str, kept: KeptFile) -> Path:
    """Return the path of a file of the snapshot; raises BackfillError where it is gone or holds other bytes."""
    place = _snapshots(lake).at(name)
    if fault := fault_of(place, kept, deep=True):
        fix = "Restore it from a backup; the other files may be whole"
        raise _refused(name, f"{place.uri(kept.path)} {fault}", fix, "read")
    return place.local(kept.path)


def fault_of(snapshot: Place, kept: KeptFile, *, deep: bool) -> str:
    """Say what is wrong with a file of a snapshot, with `deep` by reading its bytes; empty if nothing is."""
    if (found := size(snapshot, kept.path)) != kept.size:
        return "is gone" if found is None else "has another size, and so other bytes than those that were kept"
    is_other = deep and sha256_of_bytes(snapshot, kept.path) != kept.sha256
    return "has other bytes than those that were kept" if is_other else ""


def _existing(lake: Lake, name: str, done: str) -> Place:
    if not NAME.fullmatch(name) or name not in _snapshots(lake).names():
        raise _refused(name, "this lake has no such snapshot", "See `backfill-assets snapshot list`", done)
    return _snapshots(lake).at(name)


def _snapshots(lake: Lake) -> Place:
    return lake.place.at(SNAPSHOTS)


def _parsed_snapshot(body: Mapping[str, Any]) -> Snapshot:
    tables = {}
    for name, kept in body["tables"].items():
        columns = tuple(Column(*column) for column in kept["columns"])
        laid_out = kept["partition_by"]
        contract = Contract(name, "", columns, kept["day_column"], tuple(kept["key"]), (), partition_by=laid_out)
        days = {date.fromisoformat(d): (int(rows), str(fingerprint)) for d, (rows, fingerprint) in kept["days"].items()}
        tables[name] = KeptTable(contract, int(kept["version"]), days, tuple(KeptFile(*f) for f in kept["data_files"]))
    return Snapshot(body["name"], datetime.fromisoformat(body["made_at"]), body["by"], body["note"], tables)


def _refused(name: str, culprit: str, fix: str, done: str = "kept") -> BackfillError:
    return BackfillError(f"the snapshot {name[:100]!r}", culprit, f"Nothing was {done}", fix)
