"""How many bytes each day of a table takes on disk now, from its log alone.

Lives here: adding up the sizes of the data files in force. Does not live here: files of versions
before, which stay, because `--at`, `compare` and `rollback` read them.
"""

import json
from datetime import date
from pathlib import Path

from backfill_assets.lake.evolution import refuse_other_layout
from backfill_assets.lake.log import actions, versions
from backfill_assets.lake.opening import read_delta

SAMPLED_COMMITS = 5  # the newest that brought files: rows change their size rarely
SEEN_COMMITS = 100  # receipts alone may lie on top; beyond these nobody looks


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
