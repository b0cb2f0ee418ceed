"""Landed values on Sail: expressions of `select`, types and forms of text that it converts otherwise than Spark.

Lives here: the refusal of such expressions and the doubt about such values, so that neither engine loads other rows.
Does not live here: the casts themselves (`casting`), and what differs in SQL (`sail_differences`).

Spark catches what an expression raises on a row, and sets that row aside. On Sail the same ends the query: the one file
that holds such a row is refused by name (`load.counting`), and all others are read.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from backfill_assets.core.column_types import ARRAY, DECIMAL, ColumnType
from backfill_assets.core.errors import SettingsError
from backfill_assets.landing.sail_differences import advice, culprit, differences

if TYPE_CHECKING:
    from pyspark.sql import Column

OF_SELECT = "[source] select in lake.toml"
WHOLE = ("tinyint", "smallint", "int", "bigint")
# Type in Spark's words (without its brackets) -> kinds of columns to which both engines convert its values alike.
TRIED = {
    "string": ("STRING", "BIGINT", "INT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN", DECIMAL),
    **dict.fromkeys(WHOLE, ("BIGINT", "INT", "DOUBLE", "BOOLEAN", "STRING", DECIMAL)),
    "decimal": (DECIMAL, "BIGINT", "INT"),
    "double": ("DOUBLE", "BIGINT", "INT", "BOOLEAN"),
    "float": ("DOUBLE", "BIGINT", "INT", "BOOLEAN"),
    "boolean": ("BOOLEAN", "BIGINT", "INT", "STRING"),
    "date": ("DATE", "STRING", "TIMESTAMP"),
    "timestamp": ("TIMESTAMP", "DATE"),
    "timestamp_ntz": ("TIMESTAMP", "DATE"),
    "binary": ("BINARY",),
    "void": ("STRING", "BIGINT", "INT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN", "BINARY", DECIMAL),
}
END_OF_TIME = "9999-12-31 00:00:00"
_LONG_YEAR = r"^\s*[+-]?[0-9]{5,}-"
# Kind of column -> texts that the engines read differently, or may.
DOUBTFUL = {
    "DOUBLE": r"(?i)[0-9.][df]\s*$",  # 1d is a number to Spark
    DECIMAL: r"(?i)[0-9.]\s*e|[^\x00-\x7f]",  # so are 1e3 and digits of other scripts
    "DATE": rf"(?i)^\s|\s$|t|{_LONG_YEAR}",
    "TIMESTAMP": _LONG_YEAR,
    "BOOLEAN": r"(?i)^[\x00-\x20]*(on|off|tr|tru|fa|fal|fals|ye|of)[\x00-\x20]*$",  # words and beginnings to Sail
}


def refuse_select(expressions: Iterable[str], types: Mapping[str, str]) -> None:
    """Raise SettingsError naming an expression that differs; `types` are those of the columns, in Spark's words."""
    kinds = {name.lower(): kind for name, kind in types.items()}
    for expression in expressions:
        if names := differences(expression, kinds, landed=True):
            raise SettingsError(OF_SELECT, f"`{expression}`: {culprit(names)}", "Nothing was read", advice(names))


def uncast(name: str) -> SettingsError:
    """Return the refusal of a cast in the nullable column `name`, where a failed cast looks like NULL."""
    return SettingsError(
        OF_SELECT, f"the cast of {name}, which may be NULL, was not tried on Sail",
        "Nothing was read", 'Leave the cast to the type in [source.payload], or set engine = "embedded"',
    )  # fmt: skip


def is_tried(found: str, kind: ColumnType) -> bool:
    """Return whether both engines convert values of the type `found` (Spark's simple name) to `kind` alike."""
    return kind.kind != ARRAY and kind.kind in TRIED.get(found.partition("(")[0], ())


def doubtful(value: "Column", found: str, kind: ColumnType) -> "Column | None":
    """Return the condition that the engines read the value differently; None if no value of its type is."""
    from pyspark.sql import functions as F

    if found in ("timestamp", "timestamp_ntz"):  # Sail has no date for later ones
        return F.coalesce(value.cast("timestamp") >= F.lit(END_OF_TIME).cast("timestamp"), F.lit(False))
    form = DOUBTFUL.get(kind.kind)
    return None if found != "string" or form is None else F.coalesce(value.rlike(form), F.lit(False))
