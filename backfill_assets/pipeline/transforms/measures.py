"""Measures: the parts of aggregations, each of which can be added up or compared in any order.

Not here: the days on which a part counts (`intervals`). The order of rows decides nothing: whole
numbers and DOUBLEs are summed as decimals, exactly, and first and last are decided by (event_ts,
event_key, value).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.pipeline.transforms.aggregation import (
    SUM_DIGITS,
    SUM_DIGITS_MOST,
    Aggregation,
    Reach,
    Value,
    decimal_digits,
)

Part = Literal[
    "count",
    "sum",
    "upper",
    "lower",
    "unfit",
    "distinct",
    "least",
    "greatest",
    "first",
    "last",
    "newest",
]
ADDED = frozenset(("count", "sum", "upper", "lower", "unfit", "distinct"))
# A sum of BIGINTs is kept as two of 64 bits, of their upper and of their lower 32 bits: the
# decimals that hold it took a fifth of the CPU of features.
HALF, HALF_DECIMAL = 32, "decimal(19,0)"
SMALLEST = frozenset(("least", "first"))
NEWEST = frozenset(("newest", "last"))
EXACT = "decimal(30,0)"  # 2^31 numbers of 64 bits have 29 digits
PARTS: dict[str, Part] = {
    "count": "count",
    "sum": "sum",
    "avg": "sum",
    "distinct": "distinct",
    "min": "least",
    "max": "greatest",
    "first": "first",
    "last": "last",
    "days_since_last": "newest",
}


@dataclass(frozen=True)
class Measure:
    """One part of one value, over the events that reach a day."""

    part: Part
    value: Value
    reach: Reach

    @property
    def is_added(self) -> bool:
        """Whether it can be taken back: then it is a running sum, else the least or greatest of
        what counts."""
        return self.part in ADDED

    @property
    def is_newest(self) -> bool:
        """Whether it belongs to the newest event: of events that count to the end of their reach,
        the last to end."""
        return self.part in NEWEST


def measures_of(aggregation: Aggregation) -> tuple[Measure, ...]:
    """The measures that an aggregation is put together from."""
    agg, value = aggregation.agg, aggregation.value
    parts = [PARTS[agg]]
    if parts == ["sum"] and value.type == "BIGINT":
        parts = ["upper", "lower"]
    if agg in ("sum", "avg") and value.type == "DOUBLE":
        parts.append("unfit")
    if agg == "avg":
        parts.append("count")
    return tuple(Measure(part, value, aggregation.reach) for part in parts)


def every_event(reaches: Iterable[Reach]) -> tuple[Measure, ...]:
    """The counts that tell whether any event reaches a day: for each reach that no other holds."""
    known = set(reaches)
    outermost = [r for r in sorted(known) if not any(r.is_within(other) for other in known - {r})]
    return tuple(Measure("count", Value(), reach) for reach in outermost)


def partial_measure(part: Part, value: Value, column: Column) -> Column:
    """The part over a group of events, of the value in `column` (with event_ts, event_key and
    `event`, its day)."""
    exact = column if value.type == "INT" else _summed_decimal(value, column)
    ordered = F.when(
        column.isNotNull(), F.struct("event_ts", "event_key", column.alias("value"), "event")
    )
    makes: dict[str, Callable[[], Column]] = {
        "count": lambda: F.count(column),
        "sum": lambda: F.sum(exact),
        "upper": lambda: F.sum(F.call_function("shiftright", column.cast("bigint"), F.lit(HALF))),
        "lower": lambda: F.sum(column.cast("bigint").bitwiseAND(F.lit(2**HALF - 1))),
        "unfit": lambda: F.count_if(column.isNotNull() & exact.isNull()),
        "least": lambda: F.min(column),
        "greatest": lambda: F.max(column),
        "first": lambda: F.min(ordered),
        "last": lambda: F.max(ordered),
        "newest": lambda: F.max(F.when(column.isNotNull(), F.col("event"))),
    }
    return makes[part]()


def event_day_of(part: Part, column: Column) -> Column:
    """The day of the event that the newest or last measure in `column` belongs to."""
    return column if part == "newest" else column.getField("event")


def merged_measure(part: Part, column: Column) -> Column:
    """The part of several groups together: as an aggregate, or over a window."""
    if part in ADDED:
        return F.sum(column)
    return F.min(column) if part in SMALLEST else F.max(column)


def aggregation_result(
    aggregation: Aggregation, part: Callable[[Part], Column], day: Column
) -> Column:
    """The column of an aggregation from its parts; `day` counts like `event` does."""
    agg, kind = aggregation.agg, aggregation.value.type
    if agg in ("sum", "avg"):
        if agg == "sum":
            total = _or_zero(_exact_sum(aggregation, part)).try_cast(aggregation.type)
        else:
            total = _exact_mean(aggregation, part)
        return F.when(_or_zero(part("unfit")) == 0, total) if kind == "DOUBLE" else total
    only = part(PARTS[agg])
    if agg == "days_since_last":
        return day - only
    if agg in ("count", "distinct"):
        return _or_zero(only).cast("bigint")
    return only.getField("value") if agg in ("first", "last") else only.cast(kind)


def exact_result(aggregation: Aggregation, part: Callable[[Part], Column], day: Column) -> Column:
    """The column of an aggregation from its parts, for a condition on it: a whole number as an
    EXACT decimal, which holds any sum of such; else as `aggregation_result` gives it."""
    if aggregation.type not in ("INT", "BIGINT"):
        return aggregation_result(aggregation, part, day)
    if aggregation.agg == "sum":
        return _or_zero(_exact_sum(aggregation, part)).cast(EXACT)
    return aggregation_result(aggregation, part, day).cast(EXACT)


def _summed_decimal(value: Value, column: Column) -> Column:
    """The value as the decimal that is summed; NULL what is none (NaN, infinite) or has too many
    digits."""
    known, scale = decimal_digits(value.type), 0
    if known is not None:
        _, scale = known
    elif value.type == "DOUBLE":
        scale = value.scale
    return column.try_cast(f"decimal({SUM_DIGITS_MOST},{scale})")


def _or_zero(column: Column) -> Column:
    """The value; 0 in place of NULL."""
    return F.coalesce(column, F.lit(0))


def _exact_sum(aggregation: Aggregation, part: Callable[[Part], Column]) -> Column:
    """The exact sum; NULL over nothing."""
    if aggregation.value.type != "BIGINT":
        return part("sum")
    upper, lower = (part(half).cast(HALF_DECIMAL) for half in ("upper", "lower"))
    return upper * F.lit(2**HALF).cast("decimal(10,0)") + lower


def _exact_mean(aggregation: Aggregation, part: Callable[[Part], Column]) -> Column:
    """The exact sum by the count; NULL over nothing."""
    known, count = decimal_digits(aggregation.value.type), F.nullif(part("count"), F.lit(0))
    if known is None:
        return _exact_sum(aggregation, part).cast("double") / count
    # `known`: digits in all and behind the point; a sum has more of them.
    summed = part("sum").try_cast(f"decimal({known[0] + SUM_DIGITS},{known[1]})")
    return (summed / count.cast("decimal(10,0)")).try_cast(aggregation.type)
