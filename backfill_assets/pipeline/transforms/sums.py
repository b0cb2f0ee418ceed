"""Sums of 64-bit whole numbers that can neither overflow nor end a job: each number is summed in two halves.

Lives here: cutting a column into halves, putting sums of halves together exactly, and the BIGINT that fits or NULL.
Does not live here: what is summed (`windows`, `labels`). Plain 64-bit arithmetic, because decimals cost several times
as much; halves of 32 bits are exact for any sum of up to 2^31 rows.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

HALF_BITS = 32
LOW_HALF = (1 << HALF_BITS) - 1
HIGH_END = 1 << (HALF_BITS - 1)  # a total fits 64 bits iff its high half fits 32, signed


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
