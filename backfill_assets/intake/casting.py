"""A selected value as exactly the type of its delivery column, or NULL and why; and what an engine
reads unlike Spark.

Not here: the text of `select` (`select`), applying it (`mapping`), and the list of an engine's
differences (behind `engines.abilities.Engine`). No cast cuts off a fraction, rounds to a declared
scale, takes 2 for true or makes NULL of text in silence. An empty text is NULL to every type but
STRING and BINARY: CSV has no other NULL. What an engine reads otherwise is refused in `select`, and
set aside in landed values.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from backfill_assets.engines.abilities import Engine, differences_advice, differences_culprit
from backfill_assets.intake.expression_types import is_floating, typed_tree
from backfill_assets.intake.session_free import has_no_day
from backfill_assets.kernel.core.column_types import ARRAY, DECIMAL, GREATEST_PRECISION, ColumnType
from backfill_assets.kernel.core.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import Column


# How a reason begins that refuses all files of a schema.
UNFIT = "select does not fit its columns: "
FRACTIONS = ("double", "float", "decimal")
# Of a number as text: its digits behind the point, without zeros at the end. They end with another
# digit than zero, so that an engine that tries each place for the end of a text, as Java does,
# looks at no zero twice.
FRACTION = r"^\s*[+-]?\d*\.((?:\d*[1-9])?)0*\s*$"
WHOLE = ("tinyint", "smallint", "int", "bigint")


def is_misfit(found: str, kind: ColumnType) -> bool:
    """Whether values of the type `found` (Spark's simple name) fit no column of `kind`."""
    if kind.kind == ARRAY:
        return found not in ("string", "void", kind.spark)
    return found.startswith(("struct", "array", "map"))


def exact_cast(value: "Column", found: str, kind: ColumnType) -> "Column":
    """The value (of the type `found`) as `kind`; NULL where it is not exactly one."""
    from pyspark.sql import functions as F

    target, source = kind.spark, found.partition("(")[0]  # `decimal(18,2)` is a `decimal`
    if kind.kind == ARRAY:
        return _as_array(value, found, target)
    if kind.kind in ("BIGINT", "INT") and source in FRACTIONS:
        # A cast would cut fractions off in silence; NaN and infinity have no remainder of zero
        # either.
        value = F.when(value % F.lit(1) == F.lit(0), value)
    if kind.kind == "BOOLEAN" and source in (*WHOLE, *FRACTIONS):
        value = F.when(value.isin(0, 1), value)
    if kind.kind == DECIMAL and source in ("string", *FRACTIONS):
        return _as_exact_decimal(value, source, kind)
    if kind.kind == "TIMESTAMP" and source == "string":
        value = F.when(~has_no_day(value), value)
    if kind.kind == "STRING":
        return F.try_validate_utf8(value.try_cast(target))
    return value.try_cast(target)


def _as_array(value: "Column", found: str, target: str) -> "Column":
    """The value (of the type `found`: a text of JSON or an array) as an array of the type `target`.
    Elements that do not fit would be NULL in silence: text is read strictly, within what catches
    its error."""
    from pyspark.sql import functions as F

    is_text = found == "string"
    array, elements = value.cast(target), value
    if is_text:
        array = F.from_json(value, target, {"mode": "FAILFAST"})
        elements = F.from_json(value, "array<string>")
    if "timestamp" in target and "string" in found:
        array = F.when(~F.exists(elements, has_no_day), array)
    return F.when(value.isNotNull(), array) if is_text else array


def _as_exact_decimal(value: "Column", source: str, kind: ColumnType) -> "Column":
    """The value (of the type `source`) as a DECIMAL; NULL where it has more digits behind the
    point."""
    from pyspark.sql import functions as F

    # With as many digits behind the point as there is room for: what differs was rounded.
    widest_scale = GREATEST_PRECISION - kind.precision + kind.scale
    rounded = value.try_cast(kind.spark)
    fits = rounded == value.try_cast(f"decimal({GREATEST_PRECISION},{widest_scale})")
    if source == "string":  # beside 38 digits there is no room for more behind the point
        fits &= F.length(F.regexp_extract(value, FRACTION, 1)) <= kind.scale
    return F.when(fits, rounded)


def is_lost_in_cast(value: "Column", cast: "Column", kind: ColumnType) -> "Column":
    """Whether a value that is not NULL became NULL in its cast; an empty text may, but not in a
    column of text."""
    from pyspark.sql import functions as F

    given = value.isNotNull()
    if kind.kind not in ("STRING", "BINARY"):
        given = F.trim(value.cast("string")) != ""
    return F.coalesce(given, F.lit(False)) & cast.isNull()


def packed_value(value: "Column", kind: ColumnType) -> "Column":
    """The value as text in bytes: `1` and its digits, `0` for NULL; NULL itself only where
    evaluating it raised.

    Of an array only whether there is one.
    """
    from pyspark.sql import functions as F

    if kind.kind == ARRAY:
        return F.try_to_binary(F.when(value.isNotNull(), "1").otherwise("0"), F.lit("utf-8"))
    exact = value
    if kind.kind == "BINARY":
        exact = F.hex(value)
    elif kind.kind == "TIMESTAMP":
        exact = F.unix_micros(value)
    text = F.coalesce(F.concat(F.lit("1"), exact.cast("string")), F.lit("0"))
    return F.try_to_binary(text, F.lit("utf-8"))


def unpacked_value(packed: "Column", value: "Column", kind: ColumnType) -> "Column":
    """The value that a vessel holds. An array is evaluated again, where it is known not to
    raise."""
    from pyspark.sql import functions as F

    if kind.kind == ARRAY:
        return F.when(packed.isNotNull(), value)
    text = F.decode(packed, "utf-8")
    digits = F.when(F.substring(text, 1, 1) == "1", F.substring(text, F.lit(2), F.length(text)))
    if kind.kind == "TIMESTAMP":
        return F.timestamp_micros(digits.cast("bigint"))
    return F.unhex(digits) if kind.kind == "BINARY" else digits.cast(kind.spark)


OF_SELECT = "[source] select in lake.toml"
NO_TEXT = "event_key is bytes that are no UTF-8 text"


class UnfitSelect(Exception):
    """`select` cannot be applied to files of this schema; the text says why. The files are refused,
    others are read."""

    def __init__(self, why: str) -> None:
        super().__init__(UNFIT + why)


def refuse_engine_differences(
    expressions: Iterable[str], types: Mapping[str, str], engine: Engine
) -> None:
    """Raise SettingsError naming an expression that differs on the engine; `types` are those of the
    file's columns. More differs of landed values than of a table's, because senders write texts in
    more forms."""
    for expression in expressions:
        names = engine.differences(expression, types, landed=True)
        if names:
            what = f"{differences_culprit(names, engine)}: `{' '.join(expression.split())}`"
            raise SettingsError(OF_SELECT, what, "Nothing was read", differences_advice(names))


def refuse_texts_of_fractions(expressions: Iterable[str], types: Mapping[str, str]) -> None:
    """Raise UnfitSelect where a floating-point number is cast to a text, on any engine: 1 is 1.0 in
    a file whose column is DOUBLE, and 30000000 is 3.0E7, so that the key of an earlier file is not
    found again."""
    for expression in expressions:
        for cast in typed_tree(expression, types).find_all(exp.Cast):
            is_to_text = cast.to.this in exp.DataType.TEXT_TYPES
            if is_to_text and is_floating(cast.this):
                raise _fraction_text_error(cast.this.sql("spark"))


def _fraction_text_error(name: str) -> UnfitSelect:
    """The refusal of a floating-point number, `name`, that becomes a text."""
    fix = "cast it to BIGINT or DECIMAL(p,s) before, or declare it a number in [source.payload]"
    return UnfitSelect(
        f"{name} is double, and a number has several texts then (1 and 1.0, 3.0E7): {fix}"
    )


def undetected_cast_error(name: str, engine: Engine) -> SettingsError:
    """Return the refusal of a cast in the nullable column `name`, where a failed cast looks like
    NULL."""
    return SettingsError(
        OF_SELECT,
        f"{engine.name} cannot tell a failed cast of {name}, which may be NULL, from NULL",
        "Nothing was read",
        'Leave the cast to the type in [source.payload], or set engine = "embedded"',
    )


def undoubted_value(
    name: str, value: "Column", given: "Column", found: str, kind: ColumnType, engine: Engine
) -> "tuple[Column, list[Column]]":
    """Return the `value` (of the column `name`, cast to `kind`) where the engine reads it as Spark
    does, and why it is NULL elsewhere. `given`: before the cast, of the type `found`. Raises
    UnfitSelect for a type that the engine converts otherwise."""
    from pyspark.sql import functions as F

    if kind.kind == "STRING" and found in ("float", "double"):
        raise _fraction_text_error(name)
    if not engine.converts(found, kind):
        fix = 'set engine = "embedded" (it reads the file) or give another type'
        raise UnfitSelect(
            f"{name} is {found}, which {engine.name} may make another {kind} than Spark: {fix}"
        )
    if name == "event_key" and found == "binary":
        return value, [F.when(given.isNotNull() & value.isNull(), F.lit(NO_TEXT))]
    doubt = engine.doubtful(given, found, kind)
    if doubt is None:
        return value, []
    # No state follows the engine: only a write that is forced brings the row.
    how = "set engine = embedded, then `backfill --force` the arrival day, and Spark decides"
    reason = F.lit(
        f"{name}: {engine.name} may read a {kind} of this form otherwise than Spark: {how}"
    )
    return F.when(~doubt, value), [F.when(doubt, reason)]
