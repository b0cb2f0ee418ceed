"""The table `too_late`: its contract, the rows kept back in it, and their releases.

It keeps, by the policy `beyond = "quarantine"`, an upsert that arrived more than `window_days`
after its event, until it is released; a delete is never too late, because its own event time says
nothing. A release is a commit of that table without data, with reason and note. Not here: splitting
a load's rows (`intake.deliveries`), and ledgers (`ledger`).
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.intake.heirs import with_heirs
from backfill_assets.intake.landed_days import event_reader, of_contents, records_around
from backfill_assets.intake.ledger import ARRIVALS, sum_by_key
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.ledgers import FILES, TOO_LATE, source_table_name
from backfill_assets.kernel.core.plans import REPLAY
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.view import Release
from backfill_assets.kernel.place.port import load_lock
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import LatenessSettings
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import Column as Condition

FIRST, LAST, ARRIVED, CONTENTS = "event_days_from", "event_days_to", "arrival_days", "contents"
Late = Mapping[tuple[date, date], int]  # rows kept in `too_late` per (arrival day, event day)


def too_late_contract(raw: Contract) -> Contract:
    """The table's contract: raw's columns under another name."""
    name = source_table_name(TOO_LATE, raw.source)
    return replace(
        raw,
        name=name,
        description="Deliveries that came too late, until `replay-late` releases them.",
    )


def recorded_releases(lake: Lake, source: str = "") -> tuple[Release, ...]:
    """Every release of a source's deliveries so far, oldest first. No JVM."""
    found = []
    for tags in lake.store.view(source_table_name(TOO_LATE, source), ARRIVALS.day_column).releases:
        if ARRIVED in tags:
            arrived = frozenset(date.fromisoformat(d) for d in tags[ARRIVED].split(","))
            first, last = (date.fromisoformat(tags[k]) for k in (FIRST, LAST))
            contents = _by_all_names(lake, source, frozenset(tags[CONTENTS].split(",")))
            found.append(Release(arrived, first, last, contents))
    return tuple(found)


def _by_all_names(lake: Lake, source: str, contents: frozenset[str]) -> frozenset[str]:
    """These contents under all their names, and their successors after erasures."""

    def read() -> list[tuple[str, ...]]:
        return [
            r.names for r in records_around(event_reader(lake.store, source), of_contents(contents))
        ]

    name = f"names of {digest_of(sorted(contents))}"
    found = lake.store.kept(source_table_name(FILES, source), name, read)
    more = with_heirs(lake, contents.union(*(names for names in found if contents & {*names})))
    return contents if more == contents else _by_all_names(lake, source, more)


def is_too_late(lateness: LatenessSettings, released: Sequence[Release]) -> "Condition":
    """Whether a row of the delivery contract (with `arrival_date`, `source_file`) is too late and
    not released."""
    from pyspark.sql import functions as F

    if lateness.window_days is None:
        return F.lit(False)
    window = F.expr(f"INTERVAL '{lateness.window_days}' DAY")
    late = (F.col("op") == "upsert") & (F.col("arrival_ts") > F.try_add("event_ts", window))
    for release in released:
        of_days = F.to_date("event_ts").between(F.lit(release.first), F.lit(release.last))
        came = F.col("arrival_date").isin(sorted(release.arrival_days))
        in_files = F.col("source_file").isin(sorted(release.contents))
        late = late & ~(came & of_days & in_files)
    return F.coalesce(late, F.lit(False))


def _kept_back_rows(lake: Lake, first: date, last: date) -> list[tuple[date, date, str, int]]:
    """Arrival day, event day, content (sha256), and the rows kept back of these."""
    table = source_table_name(TOO_LATE, lake.source)
    if not lake.store.exists(table):
        return []
    sql = (
        "SELECT arrival_date, CAST(event_ts AS DATE) AS event_date, source_file, COUNT(*) AS n "
        "FROM kept "
        f"WHERE CAST(event_ts AS DATE) BETWEEN DATE '{first}' AND DATE '{last}' GROUP BY 1, 2, 3"
    )
    batches = lake.store.query(sql, {"kept": (table, None)})
    return [
        row
        for batch in batches
        for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    ]


def release_rows(lake_session: Session, first: date, last: date, note: str) -> Late:
    """Record that the rows kept back of these event days count from now on; returns their number
    per (arrival, event) day.

    Rows of files that land later are not released. Nothing is rebuilt here: the arrival days become
    stale, and with them the days built from them. The caller holds the load lock.
    """
    lake, table = lake_session.lake, source_table_name(TOO_LATE, lake_session.lake.source)
    found = _kept_back_rows(lake, first, last)
    if found:
        arrived = sorted({str(arrival) for arrival, *_ in found})
        contents = sorted({content for _, _, content, _ in found})
        tags = {
            FIRST: str(first),
            LAST: str(last),
            ARRIVED: ",".join(arrived),
            CONTENTS: ",".join(contents),
        }
        receipt = Receipt(
            write_id=uuid.uuid4().hex, table=table, reason=REPLAY, days={}, note=note, tags=tags
        )
        with lake.store.lock(table):
            lake.store.commit_alone(receipt)
    return sum_by_key({(arrived, day): rows} for arrived, day, _, rows in found)


def release_late_rows(lake_session: Session, days: DayRange, note: str) -> Late:
    """Release the rows kept back of these event days, as `release_rows` does, and return their
    number."""
    released = []
    for lake in lake_session.lake.by_source():
        with load_lock(lake.place, lake.source):
            released.append(
                release_rows(lake_session.of_source(lake.source), days.start, days.last, note)
            )
    return sum_by_key(released)
