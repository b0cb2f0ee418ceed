"""How many bytes the data files of a table have, by its log; and files that have another size than the log says.

Lives here: adding up the sizes of the data files in force, and finding those that something else altered in place. Does
not live here: files that no version in force names, and bytes that changed without a change of size (`doctor --deep`).
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from backfill_assets.core.errors import Altered
from backfill_assets.lake.evolution import refuse_other_layout
from backfill_assets.lake.log import actions, versions
from backfill_assets.lake.opening import read_delta
from backfill_assets.lake.store import LiveFile

DAY = r"\d{4}-\d\d-\d\d"
SAMPLED_COMMITS = 5  # the newest that brought files: rows change their size rarely
SEEN_COMMITS = 100  # receipts alone may lie on top; beyond these nobody looks


def altered_files(table: Path, files: Iterable[LiveFile]) -> list[tuple[LiveFile, int]]:
    """Those of a table's data files whose size is not what the log says, each with its size now. What is gone is left
    out. One `stat` for each file."""
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            size = os.stat(f"{table}/{file.path}").st_size  # noqa: PTH116  # thousands: a path object costs as much
            if size != file.size:
                found.append((file, size))
    return found


def gone_or_altered(table: Path, files: Iterable[LiveFile]) -> list[LiveFile]:
    """Those of a table's data files that are gone, or have another size than the log says."""
    return [f for f in files if not (table / f.path).is_file() or (table / f.path).stat().st_size != f.size]


def refuse_altered(table: Path, files: Iterable[LiveFile]) -> None:
    """Raise Altered where one of these data files of a table has another size than the log says."""
    if altered := altered_files(table, files):
        raise Altered(f"the table {table.name}", told_altered(altered), "It was not read", how_to_mend(table, altered))


def told_altered(altered: Sequence[tuple[LiveFile, int]]) -> str:
    """Which data files were altered, in words."""
    file, size = altered[0]
    more = f", and {len(altered) - 1} more" if len(altered) > 1 else ""
    return f"the data file {file.path} was altered: it has {size} bytes, the log says {file.size}{more}"


def how_to_mend(table: Path, altered: Sequence[tuple[LiveFile, int]]) -> str:
    """What makes the days of altered files again, as a sentence without its full stop."""
    days = sorted(file.partition for file, _ in altered if file.partition and re.fullmatch(DAY, file.partition))
    if not days:
        return "Restore it from a backup, then run `backfill-assets doctor --deep`"
    span = f"--from {days[0]} --to {days[-1]} --tables {table.name}"
    return f"Make its days again from their inputs: `backfill-assets backfill --force {span}`"


def day_bytes(table: Path, day_column: str) -> dict[date, int]:
    """Bytes of data files per day; days without a file are not in it. Empty where there is no table. No JVM."""
    if not (table / "_delta_log").is_dir():
        return {}
    opened = read_delta(table)
    refuse_other_layout(opened, day_column)
    added = opened.get_add_actions(flatten=True)
    found: dict[date, int] = {}
    days, sizes = (added.column(name).to_pylist() for name in (f"partition.{day_column}", "size_bytes"))
    for day, size in zip(days, sizes, strict=True):
        found[day] = found.get(day, 0) + size
    return found


def row_bytes(table: Path) -> float:
    """The bytes of a row, as the newest commits that brought files say; 0.0 where none did. Milliseconds: few commits
    are read, and no engine opens the table."""
    size = rows = sampled = 0
    for version in reversed(versions(table)[-SEEN_COMMITS:]):
        before = size
        for add in (found for a in actions(table, version) if (found := a.get("add")) and found.get("stats")):
            size += int(add["size"])
            rows += int(json.loads(add["stats"]).get("numRecords", 0))
        sampled += size > before
        if sampled == SAMPLED_COMMITS:
            break
    return size / rows if rows else 0.0
