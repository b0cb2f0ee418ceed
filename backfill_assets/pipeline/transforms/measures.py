"""Measures: the parts of aggregations, each of which can be added up or compared in any order.

Not here: the days on which a part counts (`intervals`). The order of rows decides nothing: whole numbers, and short
decimals by their digits, are summed exactly in two halves of 32 bits (a decimal costs several times as much), a DOUBLE
as a decimal of stated scale, and first and last are decided by (event_ts, event_key, value).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.pipeline.transforms.aggregation import (
    SUM_DIGITS,
    SUM_DIGITS_MOST,
    Aggregation,
    Reach,
    Value,
    digits,
)

HALF_BITS = 32
LOW_HALF = (1 << HALF_BITS) - 1
HIGH_END = 1 << (HALF_BITS - 1)  # a total fits 64 bits iff its high half fits 32, signed
Part = Literal[
    "count", "whole", "high", "low", "exact", "unfit", "distinct", "least", "greatest", "first", "last", "newest"
]
ADDED = frozenset(("count", "whole", "high", "low", "exact", "unfit", "distinct"))
SMALLEST = frozenset(("least", "first"))
NEWEST = frozenset(("newest", "last"))
WHOLE_DIGITS = f"decimal({SUM_DIGITS_MOST},0)"
EXACT = "decimal(30,0)"  # 2^31 numbers of 64 bits have 29 digits
HALVES: tuple[Part, Part] = ("high", "low")
SHORT_DIGITS, SHORT_SCALE = 18, 9  # decimals of which sums as whole numbers of their digits are exact, and cost less
# By aggregation, and for sums by the type of what is summed.
PARTS: dict[str, tuple[Part, ...]] = {
    "count": ("count",), "distinct": ("distinct",), "min": ("least",), "max": ("greatest",), "first": ("first",),
    "last": ("last",), "days_since_last": ("newest",), "INT": ("whole",), "BIGINT": HALVES,
    "DOUBLE": ("exact", "unfit"),
}  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """One part of one value, over the events that reach a day."""

    part: Part
    value: Value
    reach: Reach

    @property
    def is_added(self) -> bool:
        """Whether it can be taken back: then it is a running sum, else the least or greatest of what counts."""
        return self.part in ADDED

    @property
    def is_newest(self) -> bool:
        """Whether it belongs to the newest event: of events that count to the end of their reach, the last to end."""
        return self.part in NEWEST


def measures_of(aggregation: Aggregation) -> tuple[Measure, ...]:
    """The measures that an aggregation is put together from."""
    agg, value = aggregation.agg, aggregation.value
    summed = agg in ("sum", "avg")
    parts = _summed(value.type) if summed else PARTS[agg]
    return tuple(Measure(p, value, aggregation.reach) for p in (*parts, *(("count",) if agg == "avg" else ())))


def _summed(type: str) -> tuple[Part, ...]:
    return PARTS.get(type, HALVES if _is_short(type) else ("exact",))


def _is_short(type: str) -> bool:
    """Whether numbers of a type are decimals whose digits are a whole number of 64 bits."""
    known = digits(type)
    return known is not None and known[0] <= SHORT_DIGITS and known[1] <= SHORT_SCALE


def every_event(reaches: Iterable[Reach]) -> tuple[Measure, ...]:
    """The counts that tell whether any event reaches a day: for each reach that no other holds."""
    known = set(reaches)
    within = {r for r in known for o in known if r != o and o.first <= r.first and r.last <= o.last}
    return tuple(Measure("count", Value(), r) for r in sorted(known - within))


def partial(part: Part, value: Value, column: Column) -> Column:
    """The part over a group of events, of the value in `column` (with event_ts, event_key and `event`, its day)."""
    high, low = halves(_whole_digits(value, column)) if part in HALVES else (column, column)
    ordered = F.when(column.isNotNull(), F.struct("event_ts", "event_key", column.alias("value"), "event"))
    makes: dict[str, Callable[[], Column]] = {
        "count": lambda: F.count(column), "whole": lambda: F.sum(column), "high": lambda: F.sum(high),
        "low": lambda: F.sum(low), "exact": lambda: F.sum(_decimal(value, column)),
        "unfit": lambda: F.count_if(column.isNotNull() & _decimal(value, column).isNull()),
        "least": lambda: F.min(column), "greatest": lambda: F.max(column),
        "first": lambda: F.min(ordered), "last": lambda: F.max(ordered),
        "newest": lambda: F.max(F.when(column.isNotNull(), F.col("event"))),
    }  # fmt: skip
    return makes[part]()


def event_of(part: Part, column: Column) -> Column:
    """The day of the event that the newest or last measure in `column` belongs to."""
    return column if part == "newest" else column.getField("event")


def merged(part: Part, column: Column) -> Column:
    """The part of several groups together: as an aggregate, or over a window."""
    if part in ADDED:
        return F.sum(column)
    return F.min(column) if part in SMALLEST else F.max(column)


def result(aggregation: Aggregation, part: Callable[[Part], Column], day: Column) -> Column:
    """The column of an aggregation from its parts; `day` counts like `event` does."""
    agg, kind = aggregation.agg, aggregation.value.type
    if agg in ("sum", "avg"):
        return _sum(aggregation, part) if agg == "sum" else _avg(aggregation, part)
    if agg == "days_since_last":
        return day - part("newest")
    (only,) = PARTS[agg]
    if only in ADDED:
        return F.coalesce(part(only), F.lit(0)).cast("bigint")
    return part(only).getField("value") if agg in ("first", "last") else part(only).cast(kind)


def exactly(aggregation: Aggregation, part: Callable[[Part], Column], day: Column) -> Column:
    """The same for deciding by it: whole numbers as EXACT decimals, which hold any sum of theirs."""
    whole = aggregation.agg == "sum" and aggregation.value.type == "BIGINT"
    told = _or_zero(_whole(part)) if whole else result(aggregation, part, day)
    return told.cast(EXACT) if aggregation.type in ("INT", "BIGINT") else told


def _decimal(value: Value, column: Column) -> Column:
    """The value as the decimal that is summed; NULL what is none (NaN, infinite) or has too many digits."""
    known = digits(value.type)
    scale = value.scale if known is None else known[1]
    return column.try_cast(f"decimal({SUM_DIGITS_MOST},{scale})")


def _whole_digits(value: Value, column: Column) -> Column:
    """What is summed in halves: a whole number, or the digits of a short decimal as one: 12.34 as 1234."""
    known = digits(value.type)
    if known is None or not known[1]:
        return column
    places = F.lit(10 ** known[1]).cast(f"decimal({known[1] + 1},0)")
    return (column.try_cast(f"decimal({known[0]},{known[1]})") * places).cast("bigint")


def _in_places(part: Callable[[Part], Column], scale: int) -> Column:
    """The exact sum of decimals of so many places from the halves of their digits; NULL over nothing."""
    narrow = as_bigint(total(part("high"), part("low"))).cast(WHOLE_DIGITS)
    whole = F.coalesce(narrow, _whole(part).try_cast(WHOLE_DIGITS))  # nearly every sum fits 64 bits, which costs less
    return whole * F.lit(Decimal(1).scaleb(-scale)).cast(f"decimal({scale},{scale})") if scale else whole


def _whole(part: Callable[[Part], Column]) -> Column:
    """The exact sum of BIGINT, wide enough for any."""
    high, low = (part(half).cast(EXACT) for half in HALVES)
    return (high * F.lit(1 << HALF_BITS).cast("decimal(10,0)") + low).cast(EXACT)


def _or_zero(column: Column) -> Column:
    return F.coalesce(column, F.lit(0))


def _sum(aggregation: Aggregation, part: Callable[[Part], Column]) -> Column:
    """The exact sum, 0 over nothing; NULL where it does not fit the type, or a DOUBLE does not fit its decimal."""
    kind = aggregation.value.type
    if kind == "INT":
        return _or_zero(part("whole"))
    if kind == "BIGINT":
        return as_bigint(total(_or_zero(part("high")), _or_zero(part("low"))))
    known = digits(kind)
    if known is not None and _is_short(kind):
        return _or_zero(_in_places(part, known[1])).try_cast(aggregation.type)
    exact = _or_zero(part("exact"))
    if kind == "DOUBLE":
        return F.when(_or_zero(part("unfit")) == 0, exact.cast("double"))
    return exact.try_cast(aggregation.type)


def _avg(aggregation: Aggregation, part: Callable[[Part], Column]) -> Column:
    """The exact sum by the count; NULL over nothing, and where a DOUBLE does not fit its decimal."""
    kind, count = aggregation.value.type, F.nullif(part("count"), F.lit(0))
    known = digits(kind)
    if known is not None:
        exact = _in_places(part, known[1]) if _is_short(kind) else part("exact")
        summed = exact.try_cast(f"decimal({known[0] + SUM_DIGITS},{known[1]})")
        return (summed / count.cast("decimal(10,0)")).try_cast(aggregation.type)
    if kind == "INT":
        return part("whole").cast("double") / count
    if kind == "BIGINT":
        return _whole(part).cast("double") / count
    return F.when(_or_zero(part("unfit")) == 0, part("exact").cast("double") / count)


def halves(number: Column) -> tuple[Column, Column]:
    """The number as (high, low), to be summed apart: `number = high * 2^32 + low` with `0 <= low < 2^32`."""
    wide = number.cast("bigint")
    return F.shiftright(wide, HALF_BITS), wide.bitwiseAND(F.lit(LOW_HALF))


def total(high: Column, low: Column) -> Column:
    """The exact sum that two sums of halves stand for: a struct that compares as the number does."""
    carried = high + F.shiftright(low, HALF_BITS)
    return F.struct(carried.alias("high"), low.bitwiseAND(F.lit(LOW_HALF)).alias("low"))


def as_bigint(exact: Column) -> Column:
    """The total as a BIGINT; NULL where it does not fit 64 bits."""
    high, low = exact.getField("high"), exact.getField("low")
    fits = (high >= F.lit(-HIGH_END)) & (high < F.lit(HIGH_END))
    return F.when(fits, F.shiftleft(high, HALF_BITS).bitwiseOR(low))
