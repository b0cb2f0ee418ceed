"""Looking at a stored table itself, and mending it: is its log whole, are its files there, what does no version name?

Lives here: reading log and folder directly, so that a table which no engine opens any more can still be described;
setting torn files of a log aside, and taking files that a ledger lost out of its log. Does not live here: wording
and fingerprints (`operations.doctor_tables`), and damage that has another way back: lost files of a derived table
(rebuild the days) and gaps inside a log (a backup). Mending deletes nothing.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake import files
from backfill_assets.lake.checkpoints import torn_checkpoints
from backfill_assets.lake.committer import commit_files, commit_receipt
from backfill_assets.lake.data_files import files_of, gone_or_altered
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.ledger import ARRIVALS, FILES
from backfill_assets.lake.log import LiveFile, actions, commit_file, is_whole, read_commit, versions
from backfill_assets.lake.replace import Provenance

REASON = "mend"


@dataclass(frozen=True)
class Inspection:
    """Findings about a stored table, without an engine; of a damaged log only the damage (`lacking`, `torn`).

    `torn` are versions whose commits cannot be read. `foreign` are versions that changed data and are not ours;
    `absent` and `altered` are data files of the newest version; `lost` and `lost_bytes` count files that no version
    names. `day_rows` are rows by the log's statistics; None if it lacks them, and then `untold` says which.
    """

    commits: int = 0
    files: int = 0
    rows: int = 0
    lacking: tuple[int, ...] = ()
    torn: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()
    absent: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    lost: int = 0
    lost_bytes: int = 0
    day_rows: Mapping[date, int] | None = field(default_factory=dict)
    untold: str = ""
    checkpoints_torn: bool = False


@dataclass(frozen=True)
class Damage:
    """Damage that can be mended: names of files in a table's log that no reader can use, or live data files of a ledger
    that are gone or altered."""

    aside: tuple[str, ...] = ()
    lost: tuple[LiveFile, ...] = ()

    @property
    def told(self) -> str:
        """What mending it does, in words."""
        done = [f"{', '.join(self.aside)} of its log set aside (as *.torn)"] if self.aside else []
        if self.lost:
            done.append(f"{len(self.lost)} data file(s) that are gone or altered taken out, first {self.lost[0].path}")
        return "; ".join(done)


@dataclass
class _Contents:
    """Contents of a log: active data files by path, every path it ever named, commits that are not ours."""

    active: dict[str, dict[str, Any]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    foreign: list[int] = field(default_factory=list)


def inspect(lake: LakeFolder, contract: Contract) -> Inspection:
    """All findings about a table of the lake."""
    path = lake.table_path(contract.name)
    present = versions(path)
    if not present:
        lost, size = _lost(path, set())
        return Inspection(lost=lost, lost_bytes=size)
    lacking = tuple(sorted(set(range(present[-1] + 1)) - set(present)))
    torn = tuple(v for v in present if not is_whole(commit_file(path, v)))
    if lacking or torn:
        return Inspection(commits=len(present), lacking=lacking, torn=torn)
    contents = _replay(path, present)
    absent, altered = _files(path, contents)
    lost, size = _lost(path, contents.named)
    day_rows, untold = _day_rows(contract, contents)
    return Inspection(
        commits=len(present), files=len(contents.active), rows=sum(_rows(a) or 0 for a in contents.active.values()),
        foreign=tuple(contents.foreign), absent=absent, altered=altered, lost=lost, lost_bytes=size,
        day_rows=day_rows, untold=untold, checkpoints_torn=bool(torn_checkpoints(path)),
    )  # fmt: skip


def _lost(path: Path, named: set[str]) -> tuple[int, int]:
    """How many data files no version names, and their bytes."""
    found = (p for p in files.below(path, "*.parquet") if "_delta_log" not in p.parts)
    lost = [p for p in found if p.relative_to(path).as_posix() not in named]
    return len(lost), sum(files.size(p) or 0 for p in lost)


def _replay(path: Path, present: list[int]) -> _Contents:
    contents = _Contents()
    for version in present:
        moved = False
        for action in actions(path, version):
            if add := action.get("add"):
                file = unquote(add["path"])
                contents.active[file] = add
                contents.named.add(file)
                moved |= bool(add.get("dataChange", True))
            elif remove := action.get("remove"):
                file = unquote(remove["path"])
                contents.active.pop(file, None)
                contents.named.add(file)
                moved |= bool(remove.get("dataChange", True))
        if moved and read_commit(path, version).receipt is None:
            contents.foreign.append(version)
    return contents


def _files(path: Path, contents: _Contents) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The active files that are gone, and those of another size than was written."""
    absent, altered = [], []
    for file, add in contents.active.items():
        if (size := files.size(path / file)) is None:
            absent.append(file)
        elif size != add["size"]:
            altered.append(file)
    return tuple(absent), tuple(altered)


def _day_rows(contract: Contract, contents: _Contents) -> tuple[dict[date, int] | None, str]:
    """Rows per day by the statistics in the log, or what it does not say; none where the layout is not by day."""
    counted: dict[date, int] = defaultdict(int)
    if contract.partition_column != contract.day_column:
        return None, ""
    for add in contents.active.values():
        value, rows = (add.get("partitionValues") or {}).get(contract.day_column), _rows(add)
        if value is None:
            return None, "which day a data file belongs to"
        if rows is None:
            return None, "how many rows a data file has"
        counted[date.fromisoformat(value)] += rows
    return dict(counted), ""


def _rows(add: dict[str, Any]) -> int | None:
    try:
        return int(json.loads(add["stats"])["numRecords"])
    except (KeyError, TypeError, ValueError):
        return None


def damage(lake: LakeFolder, contract: Contract) -> Damage:
    """The damage that `mend` mends; writes nothing. Raises BackfillError if there is none."""
    path = lake.table_path(contract.name)
    torn = [f for f in (commit_file(path, v) for v in versions(path)[-1:]) if not is_whole(f)]
    # A torn commit goes last: if the command is killed halfway, the next one still finds it.
    if aside := [*torn_checkpoints(path), *torn]:
        return Damage(tuple(f.name for f in aside))
    if lost := _lost_files(lake, contract):
        return Damage((), lost)
    raise BackfillError(
        f"the table {contract.name}", "nothing is wrong with it that this command mends", "Nothing was done",
        "See what `backfill-assets doctor` says of it",
    )  # fmt: skip


def is_mended(contract: Contract) -> bool:
    """Whether files that the table lost can be taken out of its log: the next scan or load restores their rows."""
    return contract.columns in (FILES.columns, ARRIVALS.columns)


def _lost_files(lake: LakeFolder, contract: Contract) -> tuple[LiveFile, ...]:
    """Data files of a ledger that are gone or altered; none of other tables."""
    path = lake.table_path(contract.name)
    return tuple(gone_or_altered(path, files_of(lake, contract))) if is_mended(contract) and versions(path) else ()


def mend(lake: LakeFolder, contract: Contract, provenance: Provenance) -> Damage:
    """Make a damaged table readable and writable again, under its lock; returns what was mended. Raises as `damage`.

    The commit that reports it takes the number of the version that was set aside: a number that other receipts name
    never becomes the number of other rows.
    """
    path = lake.table_path(contract.name)
    with files.table_lock(lake.locks, contract.name):
        found = damage(lake, contract)
        for name in found.aside:
            files.rename(path / "_delta_log" / name, f"{name}.torn")
        files.sync(path / "_delta_log")
        if found.aside:  # the torn commit may have been an earlier mend's
            found = replace(found, lost=_lost_files(lake, contract))
        receipt = Receipt(uuid.uuid4().hex, contract.name, REASON, {}, note=found.told, tags=provenance.tags or {})
        if found.lost:
            commit_files(path, contract, receipt, (), found.lost)
        elif versions(path):
            commit_receipt(path, receipt)
        return found
