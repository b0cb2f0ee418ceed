"""A row as a text, for people who look at the quarantine: JSON that every engine writes alike.

Lives here: which values are written as texts of our own choice, because engines have other words for them: decimals,
times, and numbers with a fraction. Does not live here: which rows are quarantined (`deliveries`). Maps are
left to the engine.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField

# From .001 up to 10 million all engines, and all versions of Java, write a number in the same digits.
PLAIN = (1e-3, 1e7)
SCALED = (("E9", 1e-9), ("E-9", 1e9))  # a product is rounded alike everywhere
FAR, NEAR = "more than 1E16", "less than 1E-12"


def row_text(columns: "Iterable[tuple[str, Column, StructField]]") -> "Column":
    """The values as a JSON object by these names; of each its column and type. NULLs are left out."""
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*(_told(column, field.dataType).alias(name) for name, column, field in columns)))


def _told(value: "Column", kind: "DataType") -> "Column":
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.DoubleType | T.FloatType):
        return _number(value)
    if isinstance(kind, T.DecimalType | T.TimestampType | T.TimestampNTZType):
        return value.cast("string")
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda one: _told(one, kind.elementType))
    if isinstance(kind, T.StructType):
        parts = (_told(value.getField(f.name), f.dataType).alias(f.name) for f in kind.fields)
        return F.when(value.isNotNull(), F.struct(*parts))
    return value


def _number(value: "Column") -> "Column":
    """A number with a fraction; far from 1 with an exponent, and beyond that how great it is."""
    from pyspark.sql import functions as F

    exact = value.cast("double")
    sign = F.when(exact < 0, F.lit("-")).otherwise(F.lit(""))
    told = F.when(exact.isNull() | (exact == 0) | _is_plain(exact), value.cast("string"))
    told = told.when(F.isnan(exact), F.lit("NaN"))
    told = told.when(F.abs(exact) == F.lit(float("inf")), F.concat(sign, F.lit("Infinity")))
    for exponent, scale in SCALED:
        scaled = exact * F.lit(scale)
        told = told.when(_is_plain(scaled), F.concat(scaled.cast("string"), F.lit(exponent)))
    return told.otherwise(F.concat(sign, F.when(F.abs(exact) > 1, FAR).otherwise(NEAR)))


def _is_plain(number: "Column") -> "Column":
    from pyspark.sql import functions as F

    least, most = PLAIN
    return (F.abs(number) >= F.lit(least)) & (F.abs(number) < F.lit(most))
