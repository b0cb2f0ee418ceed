"""The types of columns: parsed from Spark's SQL words, written in one spelling; and the names
of columns in Spark's SQL.

Not here: the names of types in engines and file formats (`kernel.tables.columns`), and the columns
of a table (`contracts`, `payload`).
"""

import re
from dataclasses import dataclass
from functools import lru_cache

PLAIN_KINDS = ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "BINARY")
DECIMAL, ARRAY = "DECIMAL", "ARRAY"
# Digits of a decimal: what Spark, Parquet, Arrow and DuckDB all hold in 128 bits.
GREATEST_PRECISION = 38
SUMMED_PRECISION = 28  # ten digits more are 10^10 rows a day
WHOLE_DIGITS = 18  # of any number of so many digits, 64 bits hold it
ALL_TYPES = (
    "BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p,s), STRING, DATE, TIMESTAMP, BINARY, or ARRAY of one "
    "of these"
)
OTHER_WORDS = {
    "INTEGER": "INT",
    "SMALLINT": "INT",
    "TINYINT": "INT",
    "LONG": "BIGINT",
    "FLOAT": "DOUBLE",
    "REAL": "DOUBLE",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "BOOL": "BOOLEAN",
    "BYTES": "BINARY",
    "BLOB": "BINARY",
    "NUMERIC": "DECIMAL(p,s)",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP",
}
_DECIMAL = re.compile(r"DECIMAL\((\d{1,3}),(\d{1,3})\)")
_ARRAY = re.compile(r"ARRAY<((?!ARRAY).+)>")


@dataclass(frozen=True)
class ColumnType:
    """A type by its kind. Its text is the one spelling in which contracts hold it."""

    kind: str  # one of PLAIN_KINDS, DECIMAL or ARRAY
    precision: int = 0  # digits of a DECIMAL
    scale: int = 0  # of these, digits behind the point
    element: "ColumnType | None" = None  # of an ARRAY, whose elements may be NULL

    @property
    def has_exact_sum(self) -> bool:
        """Whether engines give the sum of any number of rows exactly and alike."""
        if self.kind == DECIMAL:
            return self.precision <= SUMMED_PRECISION
        return self.kind in ("INT", "BIGINT")

    @property
    def is_measurable(self) -> bool:
        """Whether its values have buckets (`drift`): numbers whose whole part fits 64 bits, and yes
        or no."""
        if self.kind == DECIMAL:
            return self.precision - self.scale <= WHOLE_DIGITS
        return self.is_number or self.kind == "BOOLEAN"

    @property
    def is_number(self) -> bool:
        """Whether it can be summed up."""
        return self.kind in ("INT", "BIGINT", "DOUBLE", DECIMAL)

    def is_wider_than(self, other: "ColumnType | None") -> bool:
        """Whether it is wider than the type `other`: it has every value of that, with the same
        canonical text."""
        if other is None:
            return False
        if self.element is not None:
            return self.element.is_wider_than(other.element)
        if self.kind == other.kind == DECIMAL:
            return self.scale == other.scale and self.precision > other.precision
        return (other.kind, self.kind) == ("INT", "BIGINT")

    @property
    def spark(self) -> str:
        """The name in Spark's data frames, such as decimal(18,2)."""
        return str(self).lower()

    def __str__(self) -> str:
        """As Spark's SQL writes it, e.g. DECIMAL(18,2)."""
        if self.kind == DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.kind == ARRAY:
            return f"ARRAY<{self.element}>"
        return self.kind


@lru_cache(maxsize=1024)
def read_type(text: str) -> ColumnType:
    """The type that a text names, in any case and with any blanks; raises ValueError saying what to
    write instead."""
    word = re.sub(r"\s+", "", text).upper()
    if word in PLAIN_KINDS:
        return ColumnType(word)
    if found := _DECIMAL.fullmatch(word):
        return _decimal_type(text, int(found[1]), int(found[2]))
    if found := _ARRAY.fullmatch(word):
        return ColumnType(ARRAY, element=read_type(found[1]))
    hint = OTHER_WORDS.get(word.partition("(")[0], ALL_TYPES)
    raise ValueError(f"{text!r} is no type; write {hint}")


def _decimal_type(text: str, precision: int, scale: int) -> ColumnType:
    if 1 <= precision <= GREATEST_PRECISION and scale <= precision:
        return ColumnType(DECIMAL, precision, scale)
    raise ValueError(
        f"{text!r}: a decimal has 1 through {GREATEST_PRECISION} digits, and no more behind the "
        "point"
    )


def quoted_column(column: str) -> str:
    """The name of a column as Spark's SQL quotes it."""
    return "`" + column.replace("`", "``") + "`"
