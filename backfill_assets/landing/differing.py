"""What a lake's engine reads otherwise than Spark in `[source] select` and in landed values: refused, or set aside.

Not here: the list of differences (`engine.sail_differences`, behind `core.engines.Engine`), and the rows (`mapping`).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from backfill_assets.core.column_types import ColumnType
from backfill_assets.core.engines import Engine, advice, culprit
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.scans import UNFIT
from backfill_assets.landing.expression_types import is_floating, typed

if TYPE_CHECKING:
    from pyspark.sql import Column

OF_SELECT = "[source] select in lake.toml"
NO_TEXT = "event_key is bytes that are no UTF-8 text"


class UnfitSelect(Exception):
    """`select` cannot be applied to files of this schema; the text says why. The files are refused, others are read."""

    def __init__(self, why: str) -> None:
        super().__init__(UNFIT + why)


def refuse_differing(expressions: Iterable[str], types: Mapping[str, str], engine: Engine) -> None:
    """Raise SettingsError naming an expression that differs on the engine; `types` are those of the file's columns."""
    for expression in expressions:
        if names := engine.differences(expression, types, landed=True):
            what = f"{culprit(names, engine)}: `{' '.join(expression.split())}`"
            raise SettingsError(OF_SELECT, what, "Nothing was read", advice(names))


def refuse_texts_of_fractions(expressions: Iterable[str], types: Mapping[str, str]) -> None:
    """Raise UnfitSelect where a floating-point number is cast to a text, on any engine: 1 is 1.0 in a file whose column
    is DOUBLE, and 30000000 is 3.0E7, so that the key of an earlier file is not found again."""
    for expression in expressions:
        for cast in typed(expression, types).find_all(exp.Cast):
            if cast.to.this in exp.DataType.TEXT_TYPES and is_floating(cast.this):
                raise _of_fractions(cast.this.sql("spark"))


def _of_fractions(name: str) -> UnfitSelect:
    fix = "cast it to BIGINT or DECIMAL(p,s) before, or declare it a number in [source.payload]"
    return UnfitSelect(f"{name} is double, and a number has several texts then (1 and 1.0, 3.0E7): {fix}")


def uncast(name: str, engine: Engine) -> SettingsError:
    """Return the refusal of a cast in the nullable column `name`, where a failed cast looks like NULL."""
    return SettingsError(
        OF_SELECT, f"{engine.name} cannot tell a failed cast of {name}, which may be NULL, from NULL",
        "Nothing was read", 'Leave the cast to the type in [source.payload], or set engine = "embedded"',
    )  # fmt: skip


def without_doubt(
    name: str, value: "Column", given: "Column", found: str, kind: ColumnType, engine: Engine
) -> "tuple[Column, list[Column]]":
    """Return the value where the engine reads `given` as Spark does, and why it is NULL elsewhere. Raises UnfitSelect
    for a type that it converts otherwise."""
    from pyspark.sql import functions as F

    if kind.kind == "STRING" and found in ("float", "double"):
        raise _of_fractions(name)
    if not engine.converts(found, kind):
        fix = 'set engine = "embedded" (it reads the file) or give another type'
        raise UnfitSelect(f"{name} is {found}, which {engine.name} may make another {kind} than Spark: {fix}")
    if name == "event_key" and found == "binary":
        return value, [F.when(given.isNotNull() & value.isNull(), F.lit(NO_TEXT))]
    if (doubt := engine.doubtful(given, found, kind)) is None:
        return value, []
    # No state follows the engine: only a write that is forced brings the row.
    how = "set engine = embedded, then `backfill --force` the arrival day, and Spark decides"
    reason = F.lit(f"{name}: {engine.name} may read a {kind} of this form otherwise than Spark: {how}")
    return F.when(~doubt, value), [F.when(doubt, reason)]
