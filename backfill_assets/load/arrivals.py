"""The ledger `arrivals`: which arrival day touches which event day, kept exact whatever the order of loading.

Lives here: its rows in Spark, which days of it a load changes, and its commit, which declares a load of raw complete.
Does not live here: reading it (`ledger`, `view`) and what follows from it (`core.digests`).

Cost: finding the other deliveries of a loaded key reads the columns event_key, op, event_ts of all loaded raw days.
"""

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.frontier import frontier_of
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import LakeView, TableView
from backfill_assets.lake.ledger import ARRIVALS
from backfill_assets.lake.profile import audited, conform, hash_halves
from backfill_assets.lake.replace import Provenance, Published, Write, replace_days
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import begin, stage
from backfill_assets.lake.table import days_predicate
from backfill_assets.landing.mapping import DELIVERY_TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WHOLE_SHARE = 0.5  # above this share of loaded days it is cheaper to compute all rows than to find the touched ones


def commit_arrivals(lake_session: LakeSession, view: LakeView, provenance: Provenance) -> Published:
    """Bring the ledger up to raw's head and name its version. `view` is read after raw's commit; the load lock is held.

    The days looked at are those whose raw receipt is newer than the version the ledger names, so that a load that was
    cut off is completed by the next one. A ledger that another program changed is written anew as a whole: it cannot
    say what it held.
    """
    raw, named = view.loaded, view.loaded_version
    loaded = {d for d, s in raw.stamps.items() if s.entry.rows}
    moved = {d for d, s in raw.stamps.items() if s.version > named}
    doubted = view.doubted_arrivals()
    lake_session.expect(sum(raw.stamps[d].entry.rows for d in (loaded if doubted else moved)))
    if doubted:
        affected = moved | loaded | doubted
    else:
        affected = _affected(lake_session, moved, loaded, view, named, raw.version) if moved else set()
    frame = conform(_rows(lake_session, view.landed_table, affected & loaded, raw.version), ARRIVALS)
    staged = stage(lake_session.lake, ARRIVALS, frame) if affected & loaded else begin(lake_session.lake, ARRIVALS)
    try:
        found = audited(lake_session, ARRIVALS, staged)
        entries = {d: _entry(found.get(d, DayProfile()), raw, d) for d in affected}
        after = replace(view, tables={**view.tables, ARRIVALS.name: _naming(view, raw.version)})
        write = Write(
            ARRIVALS,
            staged,
            entries,
            view.table(ARRIVALS.name).version,
            replace(provenance, inputs={view.landed_table: raw.version}, frontier=frontier_of(after)),
            always=named != raw.version,
            force=bool(doubted),
        )
        return replace_days(lake_session.lake, write, lambda days: {d: entries[d].input_digest for d in days})
    finally:
        staged.drop()


def _naming(view: LakeView, version: int) -> TableView:
    """The ledger as it will be after this commit: naming raw's head."""
    arrivals = view.table(ARRIVALS.name)
    return replace(arrivals, version=max(arrivals.version, 0), inputs={**arrivals.inputs, view.landed_table: version})


def _entry(found: DayProfile, raw: TableView, day: date) -> DayEntry:
    stamp = raw.stamps.get(day)
    return DayEntry(found.rows, found.fingerprint, stamp.entry.fingerprint if stamp else "")


def _affected(
    lake_session: LakeSession, moved: set[date], loaded: set[date], view: LakeView, named: int, head: int
) -> set[date]:
    """The arrival days whose rows a load may change: the loaded ones, and all days of keys whose event days changed.

    Rows of days that were not loaded are the same before and after, so they are read once.
    """
    from pyspark.sql import functions as F

    if named < 0 or len(moved & loaded) > WHOLE_SHARE * len(loaded):
        return moved | loaded
    here = days_predicate("arrival_date", moved)
    new = lake_session.read(view.landed_table, head, "arrival_date")
    sided = _sided(new.where(here), before=False, after=True)
    # Nothing of these days in the ledger: what they held before, if anything, gave no key an event day.
    if any(a in moved for rows in view.arrivals.values() for a, _ in rows):
        sided = sided.union(
            _sided(lake_session.read(view.landed_table, named, "arrival_date").where(here), before=True, after=False)
        )
    others = _sided(new.where(f"NOT ({here})"), before=True, after=True)
    touched = others.join(sided.select("event_key").distinct(), "event_key", "left_semi").union(sided)
    per_key = touched.groupBy("event_key").agg(
        F.collect_set(F.when(F.col("before"), F.col("event_date"))).alias("before"),
        F.collect_set(F.when(F.col("after"), F.col("event_date"))).alias("after"),
        F.collect_set(F.when(F.col("after"), F.col("arrival_date"))).alias("days"),
    )
    changed = per_key.where((F.size("before") != F.size("after")) | (F.size(F.array_except("after", "before")) > 0))
    days = changed.select(F.explode("days").alias("day")).distinct().collect()
    return moved | {row["day"] for row in days}


def _sided(deliveries: "DataFrame", *, before: bool, after: bool) -> "DataFrame":
    """Key, arrival day and event day (NULL for a delete: its event time is ignored), and the side of the load."""
    from pyspark.sql import functions as F

    return deliveries.select("event_key", "arrival_date", _event_date(), F.lit(before), F.lit(after)).toDF(
        "event_key", "arrival_date", "event_date", "before", "after"
    )


def _event_date() -> "Column":
    from pyspark.sql import functions as F

    return F.when(F.col("op") == "upsert", F.to_date("event_ts"))


def _rows(lake_session: LakeSession, table: str, days: set[date], head: int) -> "DataFrame":
    """The ledger's rows for these arrival days of the landed table, by its version `head`."""
    from pyspark.sql import functions as F

    raw = lake_session.read(table, head, "arrival_date")
    mine = raw.where(days_predicate("arrival_date", days)) if days else raw.limit(0)
    of_my_keys = raw.join(mine.select("event_key").distinct(), "event_key", "left_semi")
    per_key = of_my_keys.groupBy("event_key").agg(F.collect_set(_event_date()).alias("event_days"))
    hashed = mine.select(
        *mine.columns, *(h.alias(f"half_{i}") for i, h in enumerate(hash_halves(sorted(DELIVERY_TYPES))))
    )
    moved = F.size("event_days") > 1
    joined = hashed.join(per_key, "event_key").select(
        *hashed.columns, moved.alias("moved"), F.explode("event_days").alias("event_date")
    )
    late = F.unix_micros("arrival_ts") - F.unix_micros("event_ts")
    own = _event_date() == F.col("event_date")
    counted = joined.groupBy("arrival_date", "event_date").agg(
        F.count(F.lit(1)).alias("deliveries"),
        F.count_distinct("event_key").alias("keys"),
        F.count_distinct(F.when(F.col("moved"), F.col("event_key"))).alias("moved_keys"),
        F.floor(F.max(F.when(own, late)) / F.lit(1_000_000)).cast("bigint").alias("greatest_lateness_s"),
        F.concat_ws(".", *(F.hex(F.sum(f"half_{i}")) for i in range(4))).alias("fingerprint"),
    )
    return counted.withColumn("arrival_month", F.date_format("arrival_date", "yyyy-MM"))
