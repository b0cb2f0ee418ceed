"""Versions of events of a table that others write: which row of a key counted while the table held
it.

Not here: versions of landed deliveries, which nobody takes away (`staging`), and how a commit
becomes rows of raw (`intake.table_changes`). The log says which rows the table holds: each commit
puts rows there and takes rows away. Of the rows of a key that it holds at a time, the version rule
of `select` chooses; between equal ones the order of the log. So no clock brings a row back that was
taken away, and a key ends only with its last row.
"""

from collections.abc import Collection, Sequence
from datetime import date

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.payload import CLOCKS, INSERTED
from backfill_assets.pipeline.transforms.staging import (
    DEFAULT_NAMES,
    deliveries_of_keys,
    event_facts,
    staging_columns,
)

BEFORE_ALL = "1970-01-01 00:00:00"


def table_versions(
    deliveries: DataFrame,
    days: DayRange,
    payload: Sequence[str] = DEFAULT_NAMES,
    only: Collection[date] | None = None,
    doubles: Collection[str] = (),
    given: Collection[str] = (),
) -> DataFrame:
    """Rows of staging as `staging` gives them, of deliveries with the columns of the log
    (`kernel.core.payload.log_columns`).

    `given`: those of `CLOCKS` that `select` gives. A row counts from its `arrival_ts`; one that
    came to a key after the table took a row of it away, not before its own commit. Rows without
    `log_change` were loaded by a release that kept no order of the log: times of commits stand for
    it. The other arguments are those of `staging`.
    """
    chosen, wanted = deliveries_of_keys(deliveries, days, only)
    steps = _counted_steps(_with_log_order(chosen, given), payload, given)
    facts = event_facts(F.col("row_op"), payload, doubles)
    current = _current_rows(_lasting_rows(steps), given).withColumn(
        "__facts", F.when(F.col("__held"), facts)
    )
    of_key = Window.partitionBy("event_key").orderBy("__step")
    differs = ~F.col("__facts").eqNullSafe(F.lag("__facts").over(of_key))
    changed = current.withColumn("__differs", differs).where("__differs")
    known = changed.withColumns(
        {"known_until": F.lead("__since").over(of_key), "known_from": F.col("__since")}
    )
    if "seq" in given:
        known = known.withColumn("seq", F.coalesce("row_seq", "seq"))
    return staging_columns(known.where("__facts IS NOT NULL").where(wanted), payload)


def _with_log_order(rows: DataFrame, given: Collection[str]) -> DataFrame:
    """Add whether a commit put the row there (`__is_in`), the row's own clocks, and the order of
    the log as `__at`, `__side`, `seq`: the first two are the same everywhere in a key all of whose
    rows have a place in the log."""
    placed, key = F.col("log_change").isNotNull(), Window.partitionBy("event_key")
    came_before = (F.col("op") == "upsert") | F.lit("op" in given)
    clocks = {f"row_{name}": F.coalesce(f"row_{name}", name) for name in CLOCKS if name in given}
    return rows.withColumns(
        {
            "__is_placed": placed,
            "__is_in": F.when(placed, F.col("log_change") == INSERTED).otherwise(came_before),
            "__all_placed": F.min(placed.cast("int")).over(key) == 1,
            "__when": F.coalesce("log_commit_ts", "arrival_ts"),
            "row_op": F.lit("upsert"),
            **clocks,
        }
    ).withColumns(
        {
            "__at": F.when(F.col("__all_placed"), F.lit(BEFORE_ALL).cast("timestamp")).otherwise(
                F.col("__when")
            ),
            "__side": F.when(F.col("__all_placed"), 0).otherwise(F.col("__is_in").cast("int")),
        }
    )


def _log_window(*partition: str) -> WindowSpec:
    """The rows of a partition in the order of the log."""
    return Window.partitionBy(*partition).orderBy("__at", "__side", "seq")


def _counted_steps(rows: DataFrame, payload: Sequence[str], given: Collection[str]) -> DataFrame:
    """Add how many rows like this one the table holds after it (`__left`), and since when that is
    known (`__since`).

    What was taken away and had never come, because the lake could not use it, takes nothing away.
    """
    clocks = {
        f"__like_{n}": F.when(F.col("__all_placed"), F.col(f"row_{n}")) for n in given if n != "op"
    }
    rows = rows.withColumns(clocks) if clocks else rows
    like = ("event_key", "event_ts", *payload, "row_op", *clocks)
    until_now = (Window.unboundedPreceding, Window.currentRow)
    so_far = _log_window(*like).rowsBetween(*until_now)
    before = _log_window("event_key").rowsBetween(Window.unboundedPreceding, -1)
    taken = F.max(F.when(~F.col("__is_in") & F.col("__is_placed"), 1)).over(before)
    counted = rows.withColumns(
        {
            "__sum": F.sum(F.when(F.col("__is_in"), 1).otherwise(-1)).over(so_far),
            "__since": F.when(
                taken.isNotNull() & F.col("__is_in"), F.greatest("arrival_ts", "__when")
            ).otherwise(F.col("arrival_ts")),
        }
    )
    counted = counted.withColumn(
        "__left", F.col("__sum") - F.least(F.min("__sum").over(so_far), F.lit(0))
    )
    earlier = _log_window(*like).rowsBetween(Window.unboundedPreceding, -1)
    run = F.coalesce(F.sum(F.when(F.col("__left") == 0, 1).otherwise(0)).over(earlier), F.lit(0))
    return counted.withColumn("__run", run).withColumn(
        "__until",
        F.max(F.when(F.col("__left") == 0, F.col("__since"))).over(
            Window.partitionBy(*like, "__run")
        ),
    )


def _lasting_rows(steps: DataFrame) -> DataFrame:
    """The rows that came, each with the time from which the table holds no row like it any more
    (`__until`)."""
    lasts = F.col("__until").isNull() | (F.col("__until") > F.col("__since"))
    return steps.where(F.col("__is_in") & lasts)


def _rank_columns(given: Collection[str]) -> list[str]:
    """The columns by which the greatest of the rows held counts."""
    return [f"row_{n}" for n in ("version_ts", "arrival_ts", "seq") if n in given] + ["__at", "seq"]


def _standing_rows(spans: DataFrame, given: Collection[str]) -> DataFrame:
    """The rows that may count at some time, each with its rank and the time at which it ceases to
    (`__end`; NULL: never).

    Of rows that the table loses at one time, or never, a greater one rules out the lesser ones from
    its coming on. So their times follow one another, and a key that loses a million rows by one
    commit costs as many rows as it has.
    """
    rank = F.struct(*_rank_columns(given))
    together = Window.partitionBy("event_key", "__until")
    greatest = F.max("__rank").over(together.orderBy("__since"))
    standing = (
        spans.withColumn("__rank", rank)
        .withColumn("__greatest", greatest)
        .where("__rank >= __greatest")
    )
    following = F.lead("__since").over(together.orderBy("__since", "__rank"))
    return standing.withColumn("__end", F.coalesce(following, "__until"))


def _rows_at_steps(spans: DataFrame, given: Collection[str]) -> DataFrame:
    """Each row at each time of its key at which it may count: `__step` numbers the times, and
    `__held` is false at the one at which it ceases to. `_current_rows` takes the best row of each.

    `spans`: rows from `__since`, when they came, until `__until`; `seq` and `__run` tell the rows
    of a key apart. `given`: the clocks that the rows have.
    """
    key, row = Window.partitionBy("event_key"), Window.partitionBy("event_key", "seq", "__run")
    times = F.array("__since", "__end")
    points = _standing_rows(spans, given).select(
        "*", F.posexplode(times).alias("__bound", "__point")
    )
    numbered = (
        points.where("__point IS NOT NULL")
        .withColumn("__number", F.dense_rank().over(key.orderBy("__point")))
        .withColumns(
            {
                "__last": F.max(F.when(F.col("__bound") == 1, F.col("__number"))).over(row),
                "__greatest_number": F.max("__number").over(key),
            }
        )
        .where("__bound = 0")
    )
    last = F.coalesce("__last", "__greatest_number")
    each = numbered.withColumn("__step", F.explode(F.sequence(F.col("__number"), last)))
    return each.withColumn("__held", F.col("__last").isNull() | (F.col("__step") < F.col("__last")))


def _current_rows(spans: DataFrame, given: Collection[str]) -> DataFrame:
    """The row that counts at every time at which that may change; `__held` is false where the table
    holds no row of its key."""
    begins = F.col("__step") == F.col("__number")
    time = F.when(begins, F.col("__since")).when(~F.col("__held"), F.col("__end"))
    step = Window.partitionBy("event_key", "__step")
    best = F.row_number().over(step.orderBy(F.desc("__held"), F.desc("__rank")))
    return (
        _rows_at_steps(spans, given)
        .withColumn("__time", time)
        .withColumns({"__since": F.max("__time").over(step), "__best": best})
        .where("__best = 1")
    )
