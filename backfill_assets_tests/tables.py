"""A Delta table that others write, for the tests of such sources: rows committed at a time that the
test chooses. Here: commits by delta-rs, and the time in their log. Not here: any lake."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from backfill_assets.intake.log_reading import list_log, log_versions
from backfill_assets.intake.source_log import TableFile, brought_contents
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place.choice import place_of_others

SCHEMA = pa.schema(
    {"id": pa.string(), "at": pa.timestamp("us", "UTC"), "who": pa.string(), "n": pa.int64()}
)
SELECT = "id AS event_key, at AS event_ts, who AS entity, n AS value, 0 AS flag"


def rows_of_orders(rows: Iterable[Sequence[Any]], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows by position; texts such as `2024-03-01 10:00` are instants in UTC."""
    found = [dict(zip(schema.names, row, strict=True)) for row in rows]
    for row in found:
        row["at"] = datetime.fromisoformat(row["at"]).replace(tzinfo=UTC)
    return pa.Table.from_pylist(found, schema)


def append(
    table: Path | str, at: str, *rows: Sequence[Any], schema: pa.Schema = SCHEMA, **options: Any
) -> None:
    """Append rows by a commit of that time."""
    write_deltalake(str(table), rows_of_orders(rows, schema), **{"mode": "append", **options})
    committed(table, at)


def committed(table: Path | str, at: str, last: int = 1) -> None:
    """Let the newest commits say that they were made then."""
    time = int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() * 1000)
    place = place_of_others(str(table))
    for name in map(commit_name, log_versions(list_log(place))[-last:]):
        actions = [json.loads(line) for line in place.read(name).splitlines()]
        for info in (action["commitInfo"] for action in actions if "commitInfo" in action):
            info.pop("inCommitTimestamp", None)
            info["timestamp"] = time
        place.write(name, "".join(json.dumps(action) + "\n" for action in actions).encode())


def long_table(table: Path, versions: int) -> None:
    """A table in a folder with commits of that number and one, of which only the first and the last
    brought rows."""
    append(table, "2024-03-01 20:00", ("a", "2024-03-01 10:00", "A", 1))
    for version in range(1, versions):
        info = {"commitInfo": {"timestamp": 1709324400000 + version, "operation": "nothing"}}
        (table / commit_name(version)).write_text(json.dumps(info))
    append(table, "2024-03-03 20:00", ("b", "2024-03-01 10:00", "A", 1))


def brought(table: Path | str, first: int = 0) -> list[TableFile]:
    """What every commit in the log brought."""
    listed = list_log(place_of_others(str(table)))
    return [*brought_contents(listed, log_versions(listed), first)[0]]


def added_files(table: Path | str, version: int = 0) -> list[dict[str, Any]]:
    """The actions of a commit that add files."""
    lines = place_of_others(str(table)).read(commit_name(version)).splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def settings_text(table: Path | str, select: str = SELECT, others: str = "") -> str:
    """The `lake.toml` of a lake with this table as its source."""
    return (
        f'start_date = 2024-03-01\n[source]\ntable = "{table}"\nselect = "{select}"\n{others}\n'
        "[features]\nwindows_days = [1, 2]\n[labels]\nhorizon_days = 1\nmaturity_days = 0\n"
    )


def rows_in(table: Path | str) -> list[Mapping[str, Any]]:
    """The rows of the table now, by `id`."""
    return sorted(DeltaTable(str(table)).to_pyarrow_table().to_pylist(), key=lambda r: str(r["id"]))


def compacted(table: Path | str, at: str) -> None:
    """Rewrite the table's files into fewer, as OPTIMIZE does."""
    DeltaTable(str(table)).optimize.compact()
    committed(table, at)


def vacuumed(table: Path | str, at: str) -> None:
    """Take every data file that the table has no more; the log says so in two commits."""
    DeltaTable(str(table)).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False
    )
    committed(table, at, last=2)
