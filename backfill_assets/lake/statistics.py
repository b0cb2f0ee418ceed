"""Statistics of a data file for Delta's log, from the file's own footer.

Lives here: rows, NULLs, least and greatest values per column, as Delta's protocol writes them. Does not live here: the
figures of a day that the gate judges (`audit`). Readers skip files by them, so a bound may be wider than the truth,
never narrower: timestamps are milliseconds there (the greatest rounded up), long texts are left out.
"""

import json
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
    metadata, flat = footer.metadata, _flat(footer.schema)
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if column.path_in_schema in flat:  # else of an array's elements, which says nothing of the column
                _add(column, least, greatest, nulls, unknown)
    bounded = {c for c in least if c not in unknown}
    body = {
        "numRecords": metadata.num_rows,
        "minValues": {c: _text(least[c], up=False) for c in sorted(bounded)},
        "maxValues": {c: _text(greatest[c], up=True) for c in sorted(bounded)},
        "nullCount": {c: n for c, n in sorted(nulls.items()) if n >= 0},
    }
    return json.dumps(body, separators=(",", ":"))


def _flat(schema: "pa.Schema") -> set[str]:
    import pyarrow as pa

    return {field.name for field in schema if not pa.types.is_nested(field.type)}


def _add(
    column: Any, least: dict[str, Any], greatest: dict[str, Any], nulls: dict[str, int], unknown: set[str]
) -> None:
    """Widen the bounds by one column chunk. A chunk without statistics makes the column's bounds unknown."""
    name, found = column.path_in_schema, column.statistics
    if found is None or not found.has_null_count:
        nulls[name] = -1
    elif nulls.get(name, 0) >= 0:
        nulls[name] = nulls.get(name, 0) + found.null_count
    bounds = _bounds(found) if found is not None and found.has_min_max else None
    if bounds is not None:
        least[name] = min(least.get(name, bounds[0]), bounds[0])
        greatest[name] = max(greatest.get(name, bounds[1]), bounds[1])
    elif found is None or found.null_count != column.num_values:
        unknown.add(name)


def _bounds(found: Any) -> tuple[Any, Any] | None:
    """The least and greatest value; None where Python or Delta's log has no word for one, such as the year 12000."""
    try:
        bounds = found.min, found.max
    except (OverflowError, ValueError):
        return None
    return bounds if all(map(_is_plain, bounds)) else None


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
