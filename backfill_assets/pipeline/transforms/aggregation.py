"""Aggregations over the events that reach a day: names, types and days of declared and built-in
columns.

Not here: reading expressions (`pipeline.expressions`) and computing (`measures`, `intervals`). It
imports nothing of Spark, so that contracts are known without it.
"""

from dataclasses import dataclass
from typing import Literal

from backfill_assets.kernel.core.column_types import DECIMAL, read_type

Agg = Literal["count", "sum", "avg", "min", "max", "first", "last", "distinct", "days_since_last"]
NUMBERS = ("INT", "BIGINT", "DOUBLE")
# A sum of up to 10^10 rows has ten digits more than its numbers, and a DECIMAL has 38 of them.
SUM_DIGITS, SUM_DIGITS_MOST = 10, 28
# As Spark's own avg; of longer ones the division would lose decimals.
AVG_SCALE, AVG_DIGITS_MOST = (
    4,
    24,
)
RULES = {"any": "forward > 0", "rise": "forward > backward"}
DOUBLE_SCALE = 9  # the decimals of a DOUBLE that are summed, unless said otherwise


class UnfitAggregation(ValueError):
    """An aggregation that its values' type does not allow: what it is, and what to write
    instead."""

    def __init__(self, culprit: str, advice: str) -> None:
        super().__init__(f"{culprit}: {advice}")
        self.culprit, self.advice = culprit, advice


@dataclass(frozen=True, order=True)
class Reach:
    """The days that an event of day E counts for: E + `first` through E + `last`, both included."""

    first: int
    last: int

    @property
    def days(self) -> int:
        """How many days that are."""
        return self.last - self.first + 1

    def is_within(self, other: "Reach") -> bool:
        """Whether an event that counts on a day for this reach counts for another one, too."""
        return other.first <= self.first and self.last <= other.last


def trailing_reach(days: int) -> Reach:
    """The reach of a window of so many days up to and including the day that is described."""
    return Reach(0, days - 1)


@dataclass(frozen=True)
class Value:
    """A value of an event: Spark SQL over it. An event whose value is NULL is passed over."""

    of: str | None = None  # None: the event itself
    type: str = "INT"
    where: str | None = None  # only events for which this is true (None: all)
    # Decimals of a DOUBLE that are summed, so that the sum does not depend on the order.
    scale: int = DOUBLE_SCALE

    @property
    def sql(self) -> str:
        """The value as one expression, NULL for what is passed over."""
        of = "1" if self.of is None else f"({self.of})"
        if self.of is not None and self.type == "DOUBLE":
            of = f"{of} + 0D"
        return of if self.where is None else f"CASE WHEN {self.where} THEN {of} END"


@dataclass(frozen=True)
class Aggregation:
    """A column: `agg` of a value over the events that reach a day."""

    name: str
    agg: Agg
    value: Value
    reach: Reach

    @property
    def type(self) -> str:
        """The type of the result. Raises UnfitAggregation where the aggregation does not take
        values of this type."""
        return result_type(self.agg, self.value.type)

    @property
    def nullable(self) -> bool:
        """Whether a day with events may have no result: nothing that counts, or a sum that does not
        fit."""
        if self.agg == "sum":
            return self.value.type in ("BIGINT", "DOUBLE")
        return self.agg not in ("count", "distinct")


def result_type(agg: Agg, of: str) -> str:
    """The type of an aggregation of values of the type `of`. Raises UnfitAggregation where it does
    not take them."""
    is_array = of.startswith("ARRAY")
    if is_array and agg == "distinct":
        raise UnfitAggregation(f"distinct of {of}", "Take one element, or concat_ws(',', …)")
    if is_array and agg in ("min", "max"):
        raise UnfitAggregation(f"{agg} of {of}", f"Take array_{agg}(…), or one element")
    if agg in ("count", "distinct", "days_since_last"):
        return "INT" if agg == "days_since_last" else "BIGINT"
    return _sum_type(agg, of) if agg in ("sum", "avg") else of


def decimal_digits(type: str) -> tuple[int, int] | None:
    """Digits in all and behind the point of a DECIMAL; None for another type."""
    kind = read_type(type)
    return (kind.precision, kind.scale) if kind.kind == DECIMAL else None


def _sum_type(agg: Agg, of: str) -> str:
    """The type of a sum or mean of values of the type `of`: of decimals with room for the digits
    that many rows add. Raises UnfitAggregation for what is no number, or would not fit."""
    decimal = decimal_digits(of)
    if decimal is None:
        if of not in NUMBERS:
            raise UnfitAggregation(
                f"{agg} of {of}, which is no number", "Count with `where`, or write cast(… AS INT)"
            )
        is_double = agg == "avg" or of == "DOUBLE"
        return "DOUBLE" if is_double else "BIGINT"
    total, scale = decimal
    most = SUM_DIGITS_MOST if agg == "sum" else AVG_DIGITS_MOST
    if total > most:
        raise UnfitAggregation(
            f"{agg} of {of} may not fit 38 digits",
            f"Write cast(… AS DECIMAL({most},{min(scale, most)}))",
        )
    if agg == "sum":
        return f"DECIMAL({total + SUM_DIGITS},{scale})"
    return f"DECIMAL({total + AVG_SCALE},{scale + AVG_SCALE})"


@dataclass(frozen=True)
class Outcome:
    """What decides a label: aggregates ahead of a day and behind it, and the condition over them,
    in Spark SQL.

    In the condition a whole number is a DECIMAL(30,0), so that one which does not fit 64 bits
    decides as well.
    """

    terms: tuple[Aggregation, ...]
    condition: str
    matures_after_days: int


def ahead_reach(horizon_days: int) -> Reach:
    """The reach of an event that a day looks forward to: the days before it, as many as the horizon
    has."""
    return Reach(-horizon_days, -1)


def built_in_columns(windows_days: tuple[int, int]) -> tuple[Aggregation, ...]:
    """The features of a lake that declares none, over a short and a long window in days."""
    short, long = map(trailing_reach, windows_days)
    value, flag = Value("value", "BIGINT"), Value("flag", "INT")
    return (
        Aggregation(name="events_short", agg="count", value=Value(), reach=short),
        Aggregation(name="events_long", agg="count", value=Value(), reach=long),
        Aggregation(name="value_short", agg="sum", value=value, reach=short),
        Aggregation(name="value_long", agg="sum", value=value, reach=long),
        Aggregation(name="flagged_long", agg="sum", value=flag, reach=long),
        Aggregation(name="days_since_last", agg="days_since_last", value=Value(), reach=long),
    )
