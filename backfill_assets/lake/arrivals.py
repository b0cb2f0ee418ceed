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
from backfill_assets.lake.deliveries import DELIVERY_TYPES
from backfill_assets.lake.ledger import ARRIVALS
from backfill_assets.lake.profile import conform, hash_halves, profile
from backfill_assets.lake.replace import Provenance, Published, Write, publish
from backfill_assets.lake.spark import Workshop
from backfill_assets.lake.table import days_predicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHOLE_SHARE = 0.5  # above this share of loaded days it is cheaper to compute all rows than to find the touched ones


def commit_arrivals(workshop: Workshop, view: LakeView, provenance: Provenance) -> Published:
    """Bring the ledger up to raw's head and name its version. `view` is read after raw's commit; the load lock is held.

    The days looked at are those whose raw receipt is newer than the version the ledger names, so that a load that was
    cut off is completed by the next one.
    """
    raw, named = view.table("raw"), view.table(ARRIVALS.name).inputs.get("raw", -1)
    loaded = {d for d, s in raw.stamps.items() if s.entry.rows}
    moved = {d for d, s in raw.stamps.items() if s.version > named}
    affected = _affected(workshop, moved, loaded, named, raw.version) if moved else set()
    frame = _rows(workshop, affected & loaded, raw.version)
    frame = conform(frame, ARRIVALS).persist()
    try:
        found = profile(frame, ARRIVALS) if affected & loaded else {}
        entries = {d: _entry(found.get(d, DayProfile()), raw, d) for d in affected}
        after = replace(view, tables={**view.tables, ARRIVALS.name: _naming(view, raw.version)})
        write = Write(
            ARRIVALS,
            frame,
            entries,
            view.table(ARRIVALS.name).version,
            replace(provenance, inputs={"raw": raw.version}, frontier=frontier_of(after)),
            always=named != raw.version,
        )
        return publish(workshop, write, lambda days: {d: entries[d].input_digest for d in days})
    finally:
        frame.unpersist()


def _naming(view: LakeView, version: int) -> TableView:
    """The ledger as it will be after this commit: naming raw's head."""
    arrivals = view.table(ARRIVALS.name)
    return replace(arrivals, version=max(arrivals.version, 0), inputs={**arrivals.inputs, "raw": version})


def _entry(found: DayProfile, raw: TableView, day: date) -> DayEntry:
    stamp = raw.stamps.get(day)
    return DayEntry(found.rows, found.fingerprint, stamp.entry.fingerprint if stamp else "")


def _affected(workshop: Workshop, moved: set[date], loaded: set[date], named: int, head: int) -> set[date]:
    """The arrival days whose rows a load may change: the loaded ones, and all days of keys whose event days changed."""
    if named < 0 or len(moved & loaded) > WHOLE_SHARE * len(loaded):
        return moved | loaded
    new, old = (workshop.read("raw", v, "arrival_date") for v in (head, named))
    here = days_predicate("arrival_date", moved)
    keys = new.where(here).select("event_key").union(old.where(here).select("event_key")).distinct()
    after, before = (_event_days(f.join(keys, "event_key", "left_semi")) for f in (new, old))
    changed = after.exceptAll(before).union(before.exceptAll(after)).select("event_key").distinct()
    days = new.join(changed, "event_key", "left_semi").select("arrival_date").distinct().collect()
    return moved | {row["arrival_date"] for row in days}


def _event_days(deliveries: "DataFrame") -> "DataFrame":
    """Distinct (event_key, event_date) of the upserts: a delete's event time is ignored."""
    from pyspark.sql import functions as F

    upserts = deliveries.where(F.col("op") == "upsert")
    return upserts.select("event_key", F.to_date("event_ts").alias("event_date")).distinct()


def _rows(workshop: Workshop, days: set[date], head: int) -> "DataFrame":
    """The ledger's rows for these arrival days."""
    from pyspark.sql import functions as F

    raw = workshop.read("raw", head, "arrival_date")
    mine = raw.where(days_predicate("arrival_date", days)) if days else raw.limit(0)
    keys = mine.select("event_key").distinct()
    event_days = _event_days(raw.join(keys, "event_key", "left_semi"))
    moving = event_days.groupBy("event_key").agg((F.count(F.lit(1)) > 1).alias("moved"))
    hashed = mine.select(
        *mine.columns, *(h.alias(f"half_{i}") for i, h in enumerate(hash_halves(sorted(DELIVERY_TYPES))))
    )
    joined = hashed.join(event_days, "event_key").join(moving, "event_key")
    late = F.unix_micros("arrival_ts") - F.unix_micros("event_ts")
    own = (F.col("op") == "upsert") & (F.to_date("event_ts") == F.col("event_date"))
    counted = joined.groupBy("arrival_date", "event_date").agg(
        F.count(F.lit(1)).alias("deliveries"),
        F.count_distinct("event_key").alias("keys"),
        F.count_distinct(F.when(F.col("moved"), F.col("event_key"))).alias("moved_keys"),
        F.floor(F.max(F.when(own, late)) / F.lit(1_000_000)).cast("bigint").alias("greatest_lateness_s"),
        F.concat_ws(".", *(F.hex(F.sum(f"half_{i}")) for i in range(4))).alias("fingerprint"),
    )
    return counted.withColumn("arrival_month", F.date_format("arrival_date", "yyyy-MM"))
