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
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import State, States
from backfill_assets.core.texts import json_of
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.data_files import folder_of
from backfill_assets.lake.files import delete_folder, locked, sha256_of_bytes, sync
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
    with locked(lake.locks / "snapshots.lock", "the snapshots"):
        for leftover in _folder(lake).glob(".*"):
            delete_folder(leftover)
        yield


def _created(lake: Lake, pipeline: Pipeline, request: SnapshotRequest) -> Snapshot:
    if (_folder(lake) / request.name).exists():
        raise _refused(request.name, "it is there already, and a snapshot never changes", "Choose another name")
    erased, chosen = erasures(lake), _chosen(lake, pipeline, request)
    _folder(lake).mkdir(exist_ok=True)
    draft = _folder(lake) / f".{request.name}"
    try:
        draft.mkdir()
        kept = {}
        for contract, version, entries, files in chosen:
            days = {d: (entry.rows, entry.fingerprint) for d, entry in entries.items()}
            kept[contract.name] = KeptTable(contract, version, days, _copied_files(draft, contract, files))
        for contract, version, entries, _ in chosen:  # after the copies: what altered a file before them is seen
            _refuse_differing(lake, request.name, contract, version, entries)
        snapshot = Snapshot(request.name, utc_now(), whoami(), request.note, kept)
        (draft / FILE).write_text(json.dumps(snapshot.to_dict(), indent=1), encoding="utf-8")
        sync(draft / FILE)
        if erasures(lake) != erased or any("finished_at" not in e.done for e in erased):
            raise _refused(request.name, "an entity is being forgotten", "Finish `forget`, then do it again")
        draft.rename(_folder(lake) / request.name)
        sync(_folder(lake))
    except FileNotFoundError as error:
        raise _refused(request.name, f"a file was taken away meanwhile: {error.filename}", "Do it again") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
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


def _copied_files(folder: Path, contract: Contract, files: Collection[str]) -> tuple[KeptFile, ...]:
    """Copy the files below the folder, in the table's layout."""
    kept = []
    for n, file in enumerate(sorted(files)):
        laid_out = f"{folder_of(file)}/" if contract.partition_column else ""
        path = f"{contract.name}/{laid_out}part-{n:05d}.parquet"
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        sync(target)
        kept.append(KeptFile(path, sha256_of_bytes(target), target.stat().st_size))
    return tuple(kept)


def snapshot_names(lake: Lake) -> list[str]:
    """Return the names of all snapshots, sorted."""
    return sorted(p.parent.name for p in _folder(lake).glob(f"*/{FILE}") if NAME.fullmatch(p.parent.name))


def find_snapshot(lake: Lake, name: str) -> Snapshot:
    """Return the snapshot of that name; raises BackfillError for an unknown name and for a changed file."""
    path = _existing(lake, name, "read") / FILE
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, OSError):
        body = json.loads(path.read_text(encoding="utf-8"))
        found = _parsed_snapshot(body)
        if body["digest"] == found.digest:
            return found
    raise _refused(name, f"{path} is not what was written", "Restore it from a backup, or drop the snapshot", "read")


def drop_snapshot(lake: Lake, name: str) -> None:
    """Delete a snapshot, also a damaged one; raises BackfillError for an unknown name.

    Killed meanwhile, the snapshot is gone; the next call deletes what is left of its folder.
    """
    with _snapshot_lock(lake):
        shutil.rmtree(_existing(lake, name, "dropped").rename(_folder(lake) / f".{name}"))


def held_bytes(lake: Lake, name: str) -> int:
    """Return the bytes that would be free without the snapshot."""
    return sum(path.stat().st_size for path in _existing(lake, name, "dropped").rglob("*.parquet"))


def file_of(lake: Lake, name: str, kept: KeptFile) -> Path:
    """Return the path of a file of the snapshot; raises BackfillError where it is gone or holds other bytes."""
    path = _folder(lake) / name / kept.path
    if holds_kept(path, kept):
        return path
    fault = "has other bytes than those that were kept" if path.is_file() else "is gone"
    raise _refused(name, f"{path} {fault}", "Restore it from a backup; the other files may be whole", "read")


def holds_kept(path: Path, kept: KeptFile) -> bool:
    """Return whether there is a file with the kept bytes."""
    return path.is_file() and path.stat().st_size == kept.size and sha256_of_bytes(path) == kept.sha256


def _existing(lake: Lake, name: str, done: str) -> Path:
    folder = _folder(lake) / name
    if not NAME.fullmatch(name) or not folder.is_dir():
        raise _refused(name, "this lake has no such snapshot", "See `backfill-assets snapshot list`", done)
    return folder


def _folder(lake: Lake) -> Path:
    return lake.root / SNAPSHOTS


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
