"""A look at a Delta table itself: is its log whole, do its files exist, what of its folder does no version name.

Lives here: reading log and folder directly, so that a table which no engine opens any more can still be described.
Does not live here: what to say of it (`operations.doctor_tables`) and fingerprints (`fingerprints`).
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.log import actions, commit_file, is_whole, read_commit, versions
from backfill_assets.lake.opening import torn_checkpoints
from backfill_assets.lake.store import Inspection


@dataclass
class _Contents:
    """What the log holds: active data files by path, every path it ever named, commits that are not ours."""

    active: dict[str, dict[str, Any]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    foreign: list[int] = field(default_factory=list)


def inspect(path: Path, contract: Contract) -> Inspection:
    """All that can be found out about the table in the folder `path`."""
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
    found = (p for p in path.rglob("*.parquet") if "_delta_log" not in p.parts)
    lost = [p for p in found if p.relative_to(path).as_posix() not in named]
    return len(lost), sum(p.stat().st_size for p in lost if p.exists())


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
        try:
            if (path / file).stat().st_size != add["size"]:
                altered.append(file)
        except OSError:
            absent.append(file)
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
