"""Which landed files and records a comparison looks at one by one: all that are not plainly as the
ledger says.

A file is plainly so if the newest event of its path is the landing of the only content that the
path ever had, with its size and time, counted under today's settings, not refused, not
contradicted. One query of DuckDB over the ledger and the listing finds the others, without an
object of Python for each file that ever landed. Not here: what is said of the others
(`landed_changes`). Contents of tables and dumps are all looked at: what is said of one depends on
others.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from backfill_assets.intake.deliveries import FIRST_SCAN_SLACK_DAYS
from backfill_assets.intake.files import LandedFile
from backfill_assets.intake.landed_days import at_paths, event_reader, of_contents, records_around
from backfill_assets.intake.ledger import (
    FILES,
    KEYED,
    LANDED,
    WITHDRAWN,
    FileRecord,
    ledger_of_source,
)
from backfill_assets.intake.listing import Listing
from backfill_assets.kernel.tables.embedded import duckdb_cursor, sql_literal
from backfill_assets.kernel.tables.home import Lake

if TYPE_CHECKING:
    import pyarrow as pa

SECONDS_OF_DAY = 86_400
# The paths of a listing and a ledger without those that are plainly as recorded.
UNSETTLED = """
WITH newest AS (
    SELECT path, any_value(sha256) AS sha256, min(sha256) = max(sha256) AS is_only,
        max({{'at': recorded_at, 'event': event, 'size': size, 'mtime_ns': mtime_ns, 'note': note,
            'counted_by': replace(counted_by, {keyed}, ''), 'first_scan': first_scan}}) AS last
    FROM ledger GROUP BY path
),
plain AS (
    SELECT path FROM newest JOIN listed USING (path)
    WHERE is_only AND last.event = {landed} AND last.note IS NULL
        AND last.size = listed.size AND last.mtime_ns = listed.mtime_ns
        AND last.counted_by = {today}
        AND NOT (epoch(last.first_scan) + {slack} < last.mtime_ns / 1e9
            AND last.mtime_ns / 1e9 <= {now}) {copies}
    UNION ALL
    SELECT path FROM newest ANTI JOIN listed USING (path)
    WHERE is_only AND last.event = {withdrawn}
)
SELECT path FROM (SELECT path FROM newest UNION SELECT path FROM listed)
ANTI JOIN plain USING (path)
"""
WITHOUT_COPIES = "AND sha256 NOT IN (SELECT sha256 FROM newest GROUP BY sha256 HAVING count(*) > 1)"


def unsettled(
    lake: Lake, listing: Listing, today: str, now: datetime, *, by_path: bool
) -> tuple[list[LandedFile], list[FileRecord]]:
    """The listed files that are not plainly as the ledger of the lake's source says, with the
    records at their paths and at all others that are not; and the files and records of the same
    contents at other paths. `today`: the digest of the settings that count rows. `by_path`: rows
    depend on paths, so that contents with copies are not plain."""
    names = _unsettled_paths(lake, listing, today, now, by_path=by_path)
    names |= listing.declared.by_file.keys()
    if not names:
        return [], []
    read = event_reader(lake.store, lake.source)
    records = records_around(read, at_paths(names))
    if records:
        contents = {r.sha256 for r in records}
        records = records_around(read, at_paths(names) | of_contents(contents))
        names |= {r.path for r in records}
    return [f for f in listing.files if f.name in names], records


def with_contents(
    lake: Lake, records: Sequence[FileRecord], contents: Collection[str]
) -> list[FileRecord]:
    """The records, and all others of the ledger at paths that had one of these contents."""
    if not contents:
        return [*records]
    found = records_around(event_reader(lake.store, lake.source), of_contents(contents))
    known = {(r.path, r.sha256): r for r in (*records, *found)}
    return sorted(known.values(), key=lambda r: (r.path, r.first_scan, r.sha256))


def count_records(lake: Lake) -> int:
    """How many contents at paths the ledger of the lake's source has."""
    landed = f"SELECT DISTINCT path, sha256 FROM ledger WHERE event = {sql_literal(LANDED)}"
    (count,) = _answer(lake, f"SELECT count(*) FROM ({landed})", {}) or [0]
    return int(count)


def _unsettled_paths(
    lake: Lake, listing: Listing, today: str, now: datetime, *, by_path: bool
) -> set[str]:
    """The paths that are not plainly as recorded; of those with nothing but withdrawn contents only
    listed ones."""
    import pyarrow as pa

    columns = {
        "path": pa.array([f.name for f in listing.files], pa.string()),
        "size": pa.array([f.size for f in listing.files], pa.int64()),
        "mtime_ns": pa.array([f.mtime_ns for f in listing.files], pa.int64()),
    }
    query = UNSETTLED.format(
        landed=sql_literal(LANDED),
        withdrawn=sql_literal(WITHDRAWN),
        keyed=sql_literal(KEYED),
        today=sql_literal(today),
        slack=FIRST_SCAN_SLACK_DAYS * SECONDS_OF_DAY,
        now=repr(now.timestamp()),
        copies=WITHOUT_COPIES if by_path else "",
    )
    found = _answer(lake, query, {"listed": pa.table(columns)})
    return {f.name for f in listing.files} if found is None else {*found}


def _answer(lake: Lake, query: str, tables: Mapping[str, "pa.Table"]) -> list[Any] | None:
    """The only column of a query over these tables and the `ledger` of the lake's source; None if
    nothing is in it. Raises BackfillError if a data file of it is gone."""
    contract = ledger_of_source(FILES, lake.source)
    with lake.store.explaining_lost(contract.name), duckdb_cursor(lake) as engine:
        paths = lake.store.own_paths(contract.name, FILES.day_column)
        if not paths:
            return None
        files = ", ".join(map(sql_literal, paths))
        engine.execute(f"CREATE TEMP VIEW ledger AS SELECT * FROM read_parquet([{files}])")
        for name, table in tables.items():
            engine.register(name, table)
        return [value for (value,) in engine.execute(query).fetchall()]
