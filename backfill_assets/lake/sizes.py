"""How many bytes each day of a table takes on disk now, from its log alone.

Lives here: adding up the sizes of the data files in force. Does not live here: files that no version in force names,
which vacuum removes.
"""

from datetime import date
from pathlib import Path

from backfill_assets.lake.opening import open_delta


def day_bytes(table: Path, day_column: str) -> dict[date, int]:
    """Bytes of data files per day; days without a file are not in it. Empty where there is no table. No JVM."""
    if not (table / "_delta_log").is_dir():
        return {}
    added = open_delta(table).get_add_actions(flatten=True)
    found: dict[date, int] = {}
    days, sizes = (added.column(name).to_pylist() for name in (f"partition.{day_column}", "size_bytes"))
    for day, size in zip(days, sizes, strict=True):
        found[day] = found.get(day, 0) + size
    return found
