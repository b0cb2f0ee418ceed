"""What Sail casts otherwise than Spark: such values and types are told by name, so that neither engine loads others.

Lives here: the pairs of types that were tried side by side, and the forms of text over which the two disagree (measured
over 150 texts and 12 types). Does not live here: the casts themselves (`casting`), and expressions (`sail_select`).
"""

from typing import TYPE_CHECKING

from backfill_assets.core.column_types import ARRAY, DECIMAL, ColumnType

if TYPE_CHECKING:
    from pyspark.sql import Column

WHOLE = ("tinyint", "smallint", "int", "bigint")
MOMENTS = ("timestamp", "timestamp_ntz", "date")
# Type in Spark's words (without its brackets) -> kinds of columns that both engines make of its values alike.
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
# Kind of column -> texts over which the engines disagree, or of which one cannot tell.
END_OF_TIME = "9999-12-31 00:00:00"
_LONG_YEAR = r"^\s*[+-]?[0-9]{5,}-"
DOUBTFUL = {
    "DOUBLE": r"(?i)[0-9.][df]\s*$",  # 1d is a number to Spark
    DECIMAL: r"(?i)[0-9.]\s*e|[^\x00-\x7f]",  # so are 1e3 and digits of other scripts
    "DATE": rf"(?i)^\s|\s$|t|{_LONG_YEAR}",
    "TIMESTAMP": _LONG_YEAR,
    "BOOLEAN": r"(?i)^[\x00-\x20]*(on|off|tr|tru|fa|fal|fals|ye|of)[\x00-\x20]*$",  # words and beginnings to Sail
}


def is_tried(found: str, kind: ColumnType) -> bool:
    """Whether values of the type `found` (Spark's simple name) become a column of `kind` alike on both engines."""
    return kind.kind != ARRAY and kind.kind in TRIED.get(found.partition("(")[0], ())


def doubt(value: "Column", found: str, kind: ColumnType) -> "Column | None":
    """Whether the value is one that the engines read differently; None where none of its type is."""
    from pyspark.sql import functions as F

    if found in ("timestamp", "timestamp_ntz"):  # later ones it cannot make a date of
        return F.coalesce(value.cast("timestamp") >= F.lit(END_OF_TIME).cast("timestamp"), F.lit(False))
    form = DOUBTFUL.get(kind.kind)
    return None if found != "string" or form is None else F.coalesce(value.rlike(form), F.lit(False))
