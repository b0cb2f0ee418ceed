"""Previews: days of raw and of its versions that gain, lose or change rows under today's
`[source]`, and landed files as a first load would judge them.

Not here: days that follow through windows (`plans.plan`). Another time zone in `select` moves
rows over midnight, which no receipt shows beforehand. Nothing is written. Both sides are the same
contents, whole: all contents with rows near the range.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.lake_session import LakeSession, explaining_losses, small_frame
from backfill_assets.intake.counting import ingest_into_lake, stored_contents
from backfill_assets.intake.deliveries import read_deliveries
from backfill_assets.intake.dumps import UNCHANGED, dump_changes, dumps_before
from backfill_assets.intake.files import LandedFile
from backfill_assets.intake.forgotten import forgotten_condition
from backfill_assets.intake.ledger import FileRecord, read_files
from backfill_assets.intake.mapping import delivery_types
from backfill_assets.intake.paths import day_of_path
from backfill_assets.intake.select import uses_path
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import landed_by_versions
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import errors_of_source
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import Source
from backfill_assets.plans.model import DayMove

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NEAR_DAYS = 1  # a time zone moves a row by less than a day


@explaining_losses()
def moved_rows(lake_session: LakeSession, states: States, days: DayRange) -> tuple[DayMove, ...]:
    """The days that gain, lose or change rows, also outside `days`: arrival days of landed tables,
    and event days of tables of versions. Compares arrival days that are loaded; needs the engine.

    Raises LandingError if a content is nowhere, SettingsError if `select` is wrong.
    """
    moves: list[DayMove] = []
    for source in states.view.sources.values():
        with errors_of_source(source.name):
            moves += _moves_of_source(lake_session.of_source(source.name), states, source, days)
    return tuple(moves)


def _moves_of_source(
    lake_session: LakeSession, states: States, source: Source, days: DayRange
) -> list[DayMove]:
    """The days of one landed table, and of the table of versions made of it, that gain, lose or
    change rows: what the contents near `days` give by today's rules, against what is loaded."""
    raw = states.contracts[source.table]
    records = _records_near(lake_session, source, days)
    if not records or not source.is_loaded:
        return []
    session = lake_session.spark()
    lake_session.expect(2 * sum(record.rows for record in records))  # read again, and as loaded
    reread = _read_again(lake_session, records)
    arrived = _loaded_days(source, records)
    published = lake_session.read(raw.name, source.loaded_version, raw.day_column, arrived)
    if lake_session.lake.settings.source.kind == "changes":
        # A loaded day may hold rows of other contents, too, which were not read again.
        names = [(name,) for record in records for name in record.names]
        known = small_frame(session, names, "source_file string")
        published = published.join(known, "source_file", "left_semi")
    loaded = small_frame(session, [(day,) for day in sorted(arrived)], "arrival_date date")
    content = tuple(delivery_types(lake_session.lake.settings.source.payload_columns))
    reread_loaded = reread.join(loaded, "arrival_date", "left_semi")
    moves = _moved_days(content, raw.name, published, reread_loaded, key="seq", day="arrival_date")
    for versions, landed in landed_by_versions(states.contracts.values()).items():
        if landed == raw.name:
            old, new = _upserts_by_day(published), _upserts_by_day(reread)
            moves += _moved_days(content, versions, old, new, key="event_key", day="day")
            break
    return moves


def _loaded_days(source: Source, records: Sequence[FileRecord]) -> set[date]:
    """The loaded arrival days of these contents."""
    days = set[date]()
    days.update(*(record.days for record in records))
    return days & source.loaded.latest.keys()


def _upserts_by_day(frame: "DataFrame") -> "DataFrame":
    """The upserts among deliveries, each with the day of its event."""
    return frame.where("op = 'upsert'").withColumn("day", frame.event_ts.cast("date"))


def _read_again(lake_session: LakeSession, records: Sequence[FileRecord]) -> "DataFrame":
    """The usable rows of these contents by today's rules; of dumps what changed since the dumps
    before."""
    from pyspark.sql import functions as F

    session, lake = lake_session.spark(), lake_session.lake
    settings, forgotten_sql = lake.settings, forgotten_condition(lake)
    if settings.source.kind == "changes":
        files = stored_contents(lake_session, records)
        return read_deliveries(session, files, settings, forgotten_sql).where("reason IS NULL")
    days = {day for record in records for day in record.days}
    pairs, more = dumps_before(days, read_files(lake.store, lake.source))
    files = stored_contents(lake_session, [*records, *more])
    judged = read_deliveries(session, files, settings, forgotten_sql)
    # Two columns that a load adds, and that `dump_changes` keeps for its deletes: landed rows name
    # their file by its digest, and here every row counts, whenever it arrived.
    judged = judged.withColumns({"source_file": F.col("sha256"), "due": F.lit(True)})
    columns = ["event_ts", *(c.name for c in settings.source.payload_columns)]
    return dump_changes(session, judged, pairs, columns).where(
        f"reason IS NULL AND NOT {UNCHANGED}"
    )


def _records_near(lake_session: LakeSession, source: Source, days: DayRange) -> list[FileRecord]:
    """The contents, each once, with loaded rows that arrived near these days or are of events near
    them."""
    span = DayRange(days.start - ONE_DAY * NEAR_DAYS, days.end + ONE_DAY * NEAR_DAYS)
    arrived = {*span}
    for day in span:
        arrived.update(arrival for arrival, _ in source.arrivals.get(day, ()))
    wanted = arrived & source.loaded.latest.keys()
    found = dict[str, FileRecord]()
    for record in read_files(lake_session.lake.store, source.name):
        if not record.withdrawn and wanted & {*record.days}:
            found[record.sha256] = record
    return [*found.values()]


def _moved_days(
    columns: Sequence[str], table: str, before: "DataFrame", after: "DataFrame", key: str, day: str
) -> list[DayMove]:
    """Per day the number of keys that only one side has, and of keys whose rows differ in
    `columns`; days without any are left out. `key` and `day` name columns of both frames."""
    from pyspark.sql import functions as F

    def keyed(frame: "DataFrame", name: str) -> "DataFrame":
        """One row per key and day, with a hash of its content."""
        content = F.bit_xor(F.xxhash64(*columns)).alias(name)
        return frame.groupBy(F.col(key).alias("key"), F.col(day).alias("day")).agg(content)

    joined = keyed(before, "was").join(keyed(after, "is"), ["key", "day"], "full_outer")
    was, now = F.col("was"), F.col("is")
    counts = joined.groupBy("day").agg(
        F.count_if(was.isNull()).alias("gains"),
        F.count_if(now.isNull()).alias("loses"),
        F.count_if(was != now).alias("changes"),
    )
    rows: Sequence[tuple[object, ...]] = (
        counts.where("gains + loses + changes > 0").orderBy("day").collect()
    )
    return [DayMove(table, *row) for row in rows]  # type: ignore[arg-type]  # the columns as selected above


def trial_scan(
    lake_session: LakeSession, files: Sequence[LandedFile], header: Sequence[str], most: int
) -> tuple[int, list[tuple[Any, ...]], dict[str, int]]:
    """Judge landed files by the rules of the lake's source as a first scan would, and record
    nothing: all rows, the first `most` usable ones as texts by `header`, and the unusable ones by
    reason, the most frequent first."""
    from pyspark.sql import functions as F

    settings, now = lake_session.lake.settings, utc_now()
    by_path = uses_path(settings.source.select)
    contents = {}
    for file in files:
        copy = ingest_into_lake(lake_session, file)
        contents[copy.sha256] = replace(
            copy,
            first_scan=now,
            home_day=settings.start_date,
            path=file.name if by_path else "",
            path_day=day_of_path(file.name),
        )
    stored = [*contents.values()]
    lake_session.expect(sum(content.rows for content in stored))
    judged = read_deliveries(lake_session.spark(), stored, lake_session.lake.settings)
    per_reason = judged.groupBy("reason").agg(F.count(F.lit(1)).alias("n"))
    counted = {row["reason"]: row["n"] for row in per_reason.collect()}
    good = judged.where("reason IS NULL").orderBy("sha256", "row_number").limit(most)
    texts = [F.col(name).cast("string") for name in header]
    shown = [tuple(row) for row in good.select(*texts).collect()]
    refused = {why: rows for why, rows in counted.items() if why is not None}
    by_frequency = sorted(refused, key=lambda why: (-refused[why], why))
    return sum(counted.values()), shown, {why: refused[why] for why in by_frequency}
