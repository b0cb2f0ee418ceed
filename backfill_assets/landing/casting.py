"""A selected value as exactly the type of its delivery column, or NULL and why.

Not here: the text of `select` (`select`), and applying it (`mapping`). No cast cuts off a fraction, rounds to a
declared scale, takes 2 for true or makes NULL of text in silence. An empty text is NULL to every type but STRING and
BINARY: CSV has no other NULL.
"""

from typing import TYPE_CHECKING

from backfill_assets.core.column_types import ARRAY, DECIMAL, GREATEST_PRECISION, ColumnType
from backfill_assets.landing.session_free import has_no_day

if TYPE_CHECKING:
    from pyspark.sql import Column

FRACTIONS = ("double", "float", "decimal")
FRACTION = r"^\s*[+-]?\d*\.(\d*?)0*\s*$"  # of a number as text: its digits behind the point, without zeros at the end
WHOLE = ("tinyint", "smallint", "int", "bigint")


def misfit(found: str, kind: ColumnType) -> bool:
    """Whether values of the type `found` (Spark's simple name) fit no column of `kind`."""
    if kind.kind == ARRAY:
        return found not in ("string", "void", kind.spark)
    return found.startswith(("struct", "array", "map"))


def as_target(value: "Column", found: str, kind: ColumnType) -> "Column":
    """The value (of the type `found`) as `kind`; NULL where it is not exactly one."""
    from pyspark.sql import functions as F

    target, source = kind.spark, found.partition("(")[0]
    if kind.kind == ARRAY:
        # Elements that do not fit would be NULL in silence: text is read strictly, within what catches its error.
        is_text = found == "string"
        strict = F.from_json(value, target, {"mode": "FAILFAST"}) if is_text else value.cast(target)
        if "timestamp" in target and "string" in found:
            strict = F.when(~F.exists(F.from_json(value, "array<string>") if is_text else value, has_no_day), strict)
        return F.when(value.isNotNull(), strict) if is_text else strict
    if kind.kind in ("BIGINT", "INT") and source in FRACTIONS:
        # A cast would cut fractions off in silence; NaN and infinity have no remainder of zero either.
        value = F.when(value % F.lit(1) == F.lit(0), value)
    if kind.kind == "BOOLEAN" and source in (*WHOLE, *FRACTIONS):
        value = F.when(value.isin(0, 1), value)
    if kind.kind == DECIMAL and source in ("string", *FRACTIONS):
        exact = value.try_cast(f"decimal({GREATEST_PRECISION},{GREATEST_PRECISION - kind.precision + kind.scale})")
        rounded = value.try_cast(target)
        fits = rounded == exact
        if source == "string":  # beside 38 digits there is no room for more behind the point
            fits &= F.length(F.regexp_extract(value, FRACTION, 1)) <= kind.scale
        return F.when(fits, rounded)
    if kind.kind == "TIMESTAMP" and source == "string":
        value = F.when(~has_no_day(value), value)
    if kind.kind == "STRING":
        return F.try_validate_utf8(value.try_cast(target))
    return value.try_cast(target)


def is_lost(value: "Column", cast: "Column", kind: ColumnType) -> "Column":
    """Whether a value that is not NULL became NULL in its cast; an empty text may, but not in a column of text."""
    from pyspark.sql import functions as F

    given = value.isNotNull() if kind.kind in ("STRING", "BINARY") else F.trim(value.cast("string")) != ""
    return F.coalesce(given, F.lit(False)) & cast.isNull()


def vessel(value: "Column", kind: ColumnType) -> "Column":
    """The value as text in bytes: `1` and its digits, `0` for NULL; NULL itself only where evaluating it raised.

    Of an array only whether there is one.
    """
    from pyspark.sql import functions as F

    if kind.kind == ARRAY:
        return F.try_to_binary(F.when(value.isNotNull(), "1").otherwise("0"), F.lit("utf-8"))
    exact = F.hex(value) if kind.kind == "BINARY" else F.unix_micros(value) if kind.kind == "TIMESTAMP" else value
    text = F.coalesce(F.concat(F.lit("1"), exact.cast("string")), F.lit("0"))
    return F.try_to_binary(text, F.lit("utf-8"))


def unpacked(packed: "Column", value: "Column", kind: ColumnType) -> "Column":
    """The value that a vessel holds. An array is evaluated again, where it is known not to raise."""
    from pyspark.sql import functions as F

    if kind.kind == ARRAY:
        return F.when(packed.isNotNull(), value)
    text = F.decode(packed, "utf-8")
    digits = F.when(F.substring(text, 1, 1) == "1", F.substring(text, F.lit(2), F.length(text)))
    if kind.kind == "TIMESTAMP":
        return F.timestamp_micros(digits.cast("bigint"))
    return F.unhex(digits) if kind.kind == "BINARY" else digits.cast(kind.spark)
