"""Versions of events: the versions that were ever current, with their intervals, and the versions
current at days' cuts.

Not here: the choice of raw days with the deliveries (`kernel.write.derived`, from the ledger
`arrivals`), and aggregates (`intervals`).
"""

from collections.abc import Collection, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD

DEFAULT_NAMES = tuple(c.name for c in DEFAULT_PAYLOAD)
# Of so many days nearly all keys of the deliveries passed are wanted: finding out which costs a
# shuffle of its own.
ALL_KEYS_FROM_DAYS = 28
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
KEY_HASH = "__key_hash"


def staging_rows(
    deliveries: DataFrame,
    days: DayRange,
    payload: Sequence[str] = DEFAULT_NAMES,
    only: Collection[date] | None = None,
    doubles: Collection[str] = (),
) -> DataFrame:
    """Rows of staging whose `event_date` lies in `days` (half-open), from all deliveries of their
    keys.

    A delivery is current from its arrival iff its (`version_ts`, `arrival_ts`, `seq`) beats all
    deliveries of its key that arrived before it (by `arrival_ts`, `seq`), until the next that does.
    A delete only ends intervals; its `event_ts` is ignored. Intervals of no length are left out.
    Adjacent intervals with the same `event_ts` and `payload` are one, with the `version_ts` and
    `seq` of the first. Rows of other keys may be passed and do no harm. The columns of `payload` go
    along unchanged. `only`: return rows of these `days` alone (None: all); deliveries of keys
    without an event on them may then be missing. `doubles`: columns of the payload of type DOUBLE,
    in which 0.0 and -0.0 are equal.
    """
    chosen, wanted = deliveries_of_keys(deliveries, days, only)
    # Deliveries that beat all before them; of these the ones that lasted and said something new.
    version = F.struct("version_ts", "arrival_ts", "seq")
    # Sorted by a number first: comparing keys, which begin alike, took a third of the CPU.
    hashed = chosen.withColumn(KEY_HASH, F.xxhash64("event_key"))
    arrived = Window.partitionBy(KEY_HASH, "event_key").orderBy("arrival_ts", "seq")
    before = arrived.rowsBetween(Window.unboundedPreceding, -1)
    ranked = hashed.withColumns(
        {"__version": version, "__best_before": F.max(version).over(before)}
    )
    winners = ranked.where(
        F.col("__best_before").isNull() | (F.col("__version") > F.col("__best_before"))
    )
    until = F.lead("arrival_ts").over(arrived)
    lasting = winners.withColumn("__until", until).where("__until IS NULL OR __until > arrival_ts")
    facts = event_facts(F.col("op"), payload, doubles)
    differs = ~facts.eqNullSafe(F.lag(facts).over(arrived))
    known = (
        lasting.withColumn("__differs", differs).where("__differs").withColumn("known_until", until)
    )
    return staging_columns(
        known.where(wanted).withColumn("known_from", F.col("arrival_ts")), payload
    )


def deliveries_of_keys(
    deliveries: DataFrame, days: DayRange, only: Collection[date] | None
) -> tuple[DataFrame, Column]:
    """The deliveries of all keys with an event on the wanted days, perhaps with others; and whether
    a delivery is an event of these days itself. The arguments are those of `staging_rows`."""
    event_day = day_less_hours("event_ts")
    inside = (event_day >= F.lit(days.start)) & (event_day < F.lit(days.end))
    wanted = (F.col("op") == "upsert") & (inside if only is None else event_day.isin(sorted(only)))
    if len(days if only is None else only) >= ALL_KEYS_FROM_DAYS:
        return deliveries, wanted
    keys = deliveries.where(wanted).select("event_key").distinct()
    return deliveries.join(keys, "event_key", "left_semi"), wanted


def event_facts(op: Column, payload: Sequence[str], doubles: Collection[str]) -> Column:
    """What a version says of its event; NULL of a delete. -0.0 + 0.0 is 0.0 to every engine."""
    values = (F.col(c) + F.lit(0.0) if c in doubles else F.col(c) for c in payload)
    return F.when(op == "upsert", F.struct("event_ts", *values))


def staging_columns(known: DataFrame, payload: Sequence[str]) -> DataFrame:
    """The columns of staging of versions with `known_from` and `known_until`."""
    return known.select(
        "event_key",
        "event_ts",
        *payload,
        "version_ts",
        "seq",
        "known_from",
        "known_until",
        day_less_hours("event_ts").alias("event_date"),
    )


def day_less_hours(moment: str, hours: int = 0) -> Column:
    """The day in UTC of a moment so many hours earlier, by whole numbers: a timestamp less an
    interval, cast to a date, took half of the CPU of reading the rows."""
    micros = F.unix_micros(moment) - F.lit(hours * HOUR_US)
    begun = micros - F.pmod(micros, F.lit(DAY_US))
    return F.date_from_unix_date(F.call_function("div", begun, F.lit(DAY_US)).cast("int"))


KNOWN_ON = "known_on"


def as_known(versions: DataFrame, days: DayRange, before: int, grace_hours: int = 0) -> DataFrame:
    """The versions (rows of `staging_rows`) once for every day d of `days` (half-open) on whose cut
    they were current, with d in the added column `known_on`; only events of the days d - `before`
    through d.

    The cut of d is midnight after it plus `grace_hours`. A version is current at it iff known_from
    < cut <= known_until (NULL: without end). An event appears once per day of its window: sum over
    it per `known_on`, never over all rows.
    """
    known_from, known_until = (
        day_less_hours(moment, grace_hours) for moment in ("known_from", "known_until")
    )
    first = F.greatest(F.col("event_date"), known_from, F.lit(days.start))
    last = F.least(F.date_add("event_date", before), F.date_sub(known_until, 1), F.lit(days.last))
    inside = versions.withColumns({"_first": first, "_last": last}).where("_first <= _last")
    return inside.withColumn(KNOWN_ON, F.explode(F.sequence("_first", "_last"))).drop(
        "_first", "_last"
    )
