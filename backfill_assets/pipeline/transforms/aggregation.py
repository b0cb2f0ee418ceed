"""What a declared column is: an aggregation over the events that reach a day, its expressions compiled and typed.

Lives here: the words `count` … `days_since_last`, which types each takes and gives, and the days an event reaches. Does
not live here: reading expressions (`pipeline.expressions`) and computing (`measures`, `intervals`). It imports nothing,
so that contracts are known without Spark.
"""

import re
from dataclasses import dataclass
from typing import Literal

Agg = Literal["count", "sum", "avg", "min", "max", "first", "last", "distinct", "days_since_last"]
NUMBERS = ("INT", "BIGINT", "DOUBLE")
# A sum of up to 10^10 rows has ten digits more than its numbers, and a DECIMAL has 38 of them.
SUM_DIGITS, SUM_DIGITS_MOST = 10, 28
AVG_SCALE, AVG_DIGITS_MOST = 4, 24  # as Spark's own avg; of longer ones the division would lose decimals
DOUBLE_SCALE = 9  # the decimals of a DOUBLE that are summed, unless said otherwise
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


class Unfit(ValueError):
    """An aggregation that its values' type does not allow; the message says what to write instead."""


@dataclass(frozen=True, order=True)
class Reach:
    """The days that an event of day E counts for: E + `first` through E + `last`, both included."""

    first: int
    last: int

    @property
    def days(self) -> int:
        """How many days that are."""
        return self.last - self.first + 1


def trailing(days: int) -> Reach:
    """The reach of a window of so many days up to and including the day that is described."""
    return Reach(0, days - 1)


@dataclass(frozen=True)
class Value:
    """What is looked at of an event: Spark SQL and its type, for the events for which `where` is true (None: all).

    `of` None stands for the event itself. An event whose value is NULL is passed over. Of a DOUBLE so many decimals as
    `scale` are summed, so that the sum does not depend on the order.
    """

    of: str | None = None
    type: str = "INT"
    where: str | None = None
    scale: int = DOUBLE_SCALE

    @property
    def sql(self) -> str:
        """The value as one expression, NULL for what is passed over."""
        of = "1" if self.of is None else f"({self.of}) + 0D" if self.type == "DOUBLE" else f"({self.of})"
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
        """The type of the result. Raises Unfit where the aggregation does not take values of this type."""
        return result_type(self.agg, self.value.type)

    @property
    def nullable(self) -> bool:
        """Whether a day with events may have no result: nothing that counts, or a sum that does not fit."""
        if self.agg == "sum":
            return self.value.type in ("BIGINT", "DOUBLE")
        return self.agg not in ("count", "distinct")


def result_type(agg: Agg, of: str) -> str:
    """The type of an aggregation of values of the type `of`. Raises Unfit where it does not take them."""
    if agg in ("count", "distinct", "days_since_last"):
        if agg == "distinct" and of.startswith("ARRAY"):
            raise Unfit(f"distinct of {of}: take one element, or concat_ws(',', …)")
        return "INT" if agg == "days_since_last" else "BIGINT"
    if agg in ("min", "max") and of.startswith("ARRAY"):
        raise Unfit(f"{agg} of {of}: take array_{agg}(…) or one element")
    return _sum_type(agg, of) if agg in ("sum", "avg") else of


def digits(type: str) -> tuple[int, int] | None:
    """Digits in all and behind the point of a DECIMAL; None for another type."""
    found = _DECIMAL.fullmatch(type)
    return (int(found[1]), int(found[2])) if found else None


def _sum_type(agg: Agg, of: str) -> str:
    decimal = digits(of)
    if decimal is None:
        if of not in NUMBERS:
            raise Unfit(f"{agg} of {of}: it takes numbers; count with `where`, or cast(… AS INT)")
        return "DOUBLE" if agg == "avg" or of == "DOUBLE" else "BIGINT"
    (total, scale), most = decimal, SUM_DIGITS_MOST if agg == "sum" else AVG_DIGITS_MOST
    if total > most:
        raise Unfit(f"{agg} of {of}: it may not fit 38 digits; write cast(… AS DECIMAL({most},{min(scale, most)}))")
    if agg == "sum":
        return f"DECIMAL({total + SUM_DIGITS},{scale})"
    return f"DECIMAL({total + AVG_SCALE},{scale + AVG_SCALE})"
