"""Statistics of a data file for Delta's log, from the file's own footer: rows, NULLs, least and greatest values.

Not here: the figures of a day that the gates judge (`audit`). Readers skip files by these, so a bound may be wider than
the truth, never narrower: timestamps are milliseconds there (the greatest rounded up), long texts are left out.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

LONGEST_TEXT = 32  # Delta's own writers cut longer texts; without a bound nothing is skipped by it


@dataclass(frozen=True)
class Footer:
    """What a Parquet file says of itself: pyarrow's metadata, and the columns as Arrow has them.

    Ask for columns here, never for `metadata.schema`: those two name each other, so that the 20 KiB of a footer would
    stay until Python looks for garbage, of 3,650 files 70 MiB.
    """

    metadata: Any
    schema: "pa.Schema"


def read_footer(source: "Path | BinaryIO") -> Footer:
    """The footer of a file; raises OSError or pyarrow's ArrowInvalid where it cannot be read."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as file:
        return Footer(file.metadata, file.schema_arrow)


def file_statistics(footer: Footer) -> str:
    """The `stats` of Delta's `add` action."""
    import pyarrow as pa

    metadata, chunks = footer.metadata, defaultdict[str, list[Any]](list)
    flat = {field.name for field in footer.schema if not pa.types.is_nested(field.type)}
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if column.path_in_schema in flat:  # else of an array's elements, which says nothing of the column
                chunks[column.path_in_schema].append(column)
    nulls = {
        name: sum(c.statistics.null_count for c in found)
        for name, found in chunks.items()
        if all(c.statistics is not None and c.statistics.has_null_count for c in found)
    }
    bounds = {name: known for name, found in chunks.items() if (known := _bounds(found)) is not None}
    body = {
        "numRecords": metadata.num_rows,
        "minValues": {c: _text(least, up=False) for c, (least, _) in sorted(bounds.items())},
        "maxValues": {c: _text(greatest, up=True) for c, (_, greatest) in sorted(bounds.items())},
        "nullCount": dict(sorted(nulls.items())),
    }
    return json.dumps(body, separators=(",", ":"))


def _bounds(chunks: list[Any]) -> tuple[Any, Any] | None:
    """The least and greatest value of a column; None if a chunk does not say, all is NULL, or Python or Delta's log has
    no word for one, such as the year 12000."""
    found = []
    for statistics, values in ((c.statistics, c.num_values) for c in chunks):
        if statistics is not None and not statistics.has_min_max and statistics.null_count == values:
            continue
        try:
            bounds = (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else ()
        except (OverflowError, ValueError):
            return None
        if not bounds or not all(map(_is_plain, bounds)):
            return None
        found.append(bounds)
    return (min(b[0] for b in found), max(b[1] for b in found)) if found else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, bool):
        return False  # Delta keeps no bounds of it
    if isinstance(value, datetime):
        return value.year < MAXYEAR  # rounding its end up would leave the calendar
    return isinstance(value, (int, date)) or (isinstance(value, str) and len(value) <= LONGEST_TEXT)


def _text(value: Any, *, up: bool) -> Any:
    if not isinstance(value, datetime):
        return value.isoformat() if isinstance(value, date) else value
    aware = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    beyond = timedelta(microseconds=aware.microsecond % 1000)
    rounded = aware - beyond + (timedelta(milliseconds=1) if up and beyond else timedelta())
    return rounded.isoformat(timespec="milliseconds").replace("+00:00", "Z")
