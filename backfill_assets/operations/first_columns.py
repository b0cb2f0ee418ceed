"""A column of landed files as `init` sees it: the type that its values read as, and its name in a lake. No JVM.

Not here: which column is which (`first_source`), and the types that a load allows (`landing.mapping`).
"""

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot.dialects.spark import Spark

from backfill_assets.core.payload import TAKEN
from backfill_assets.core.unsteady import BARE
from backfill_assets.lake.embedded import literal
from backfill_assets.lake.fingerprints import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ENOUGH = 0.9  # of the values of a text column must read as a type
KEYS = re.compile(r"(?:^|_)(?:id|key|uuid|guid|no|number|code)$")
ROW_NUMBERS = re.compile(r"__index_level_\d+__|unnamed: ?\d+", re.IGNORECASE)  # as pandas writes its index
TIMES, WHOLES = ("TIMESTAMP", "DATE"), ("BIGINT", "INT")
OPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {  # what `op` becomes: by letters (DMS, Debezium), or by words
    "letter": {"delete": ("d",), "upsert": ("c", "i", "r", "u")},
    "word": {"delete": ("delete", "deleted", "remove", "removed"), "upsert": ("create", "insert", "update", "upsert")},
}  # fmt: skip
WHOLE, DECIMAL, TIME = r"-?(0|[1-9]\d{0,17})", r"-?\d{1,%d}(\.\d{1,%d})?", r"\d{4}-\d\d-\d\d([T ]\d\d:.*)?"
SPARKS = {  # DuckDB's types of Parquet columns, as a payload declares them
    "VARCHAR": "STRING", "BOOLEAN": "BOOLEAN", "TINYINT": "INT", "SMALLINT": "INT", "INTEGER": "INT",
    "BIGINT": "BIGINT", "FLOAT": "DOUBLE", "DOUBLE": "DOUBLE", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "BLOB": "BINARY", "UTINYINT": "INT",
    "USMALLINT": "INT", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20,0)",
}  # fmt: skip
# Words of SQL that the parser takes for names, and that engines keep (Spark's ANSI mode, SQL:2016).
RESERVED = frozenset({
    "and", "anti", "at", "authorization", "both", "check", "collate", "current_time", "day", "escape", "false",
    "foreign", "grant", "group", "hour", "in", "leading", "month", "not", "null", "on", "only", "or", "order",
    "overlaps", "position", "primary", "references", "second", "some", "start", "time", "to", "trailing", "true",
    "unique", "unknown", "user", "within", "year",
})  # fmt: skip


@dataclass(frozen=True)
class FileColumn:
    """A column of the files."""

    name: str
    type: str  # as Spark writes it; empty where no payload can have it
    is_text: bool  # its values are text that reads as that type
    distinct: int  # values
    is_nested: bool = False  # the values are JSON
    is_unique: bool = False  # no two rows that differ have the same value, and nearly all have one
    ops: str = ""  # which of OPS all its values are: `letter`, `word`, `plain` for upsert and delete; else empty

    @property
    def is_index(self) -> bool:
        """Whether it is the number of a row, which pandas writes beside the data."""
        return self.type in WHOLES and ROW_NUMBERS.fullmatch(self.name) is not None


def read_column(engine: "DuckDBPyConnection", name: str, kind: str) -> FileColumn:
    """The column, with the type that nearly all of its values read as; blank ones say nothing."""
    value = f"nullif(trim(CAST({quoted(name)} AS VARCHAR)), '')"
    tests = {
        "BOOLEAN": "v IN ('true', 'false')",
        "BIGINT": f"regexp_full_match(v, '{WHOLE}')",
        "DECIMAL(18,2)": f"regexp_full_match(v, '{DECIMAL % (16, 2)}')",
        "DECIMAL(18,6)": f"regexp_full_match(v, '{DECIMAL % (12, 6)}')",
        "DATE": "regexp_full_match(v, '\\d{4}-\\d\\d-\\d\\d') AND try_cast(v AS DATE) IS NOT NULL",
        "TIMESTAMP": f"regexp_full_match(v, '{TIME}') AND try_cast(v AS TIMESTAMPTZ) IS NOT NULL",
    }
    words = {w: f"lower(v) IN ({', '.join(map(literal, sum(known.values(), ())))})" for w, known in OPS.items()}
    conditions = [*tests.values(), "regexp_matches(v, '^[{[]')", *words.values(), "v IN ('upsert', 'delete')"]
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions)
    query = f"SELECT count(*), count(v), count(DISTINCT v), {counts} FROM (SELECT {value} AS v FROM landed)"
    rows, filled, distinct, *found = (int(n) for n in engine.execute(query).fetchone() or ())
    read, (nested, *ops) = found[: len(tests)], found[len(tests) :]
    fitting = (t for t, count in zip(tests, read, strict=True) if filled and count >= ENOUGH * filled)
    is_text = kind == "VARCHAR"
    return FileColumn(
        name, next(fitting, "STRING") if is_text else _type_of(kind), is_text, distinct,
        is_text and nested > ENOUGH * filled, distinct == filled >= ENOUGH * rows,
        next((w for w, n in zip(("plain", *words), (ops[-1], *ops), strict=False) if n == filled > 0), ""),
    )  # fmt: skip


def _type_of(kind: str) -> str:
    if kind.endswith("[]"):
        return f"ARRAY<{inner}>" if (inner := _type_of(kind[:-2])) and not inner.startswith("ARRAY") else ""
    return SPARKS.get(kind, kind if kind.startswith("DECIMAL") else "")


def plain_name(text: str) -> str:
    """A column's name as the lake may have it: ASCII letters, digits and _, small."""
    plain = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss").replace("æ", "ae").replace("ø", "o"))
    return re.sub(r"\W", "_", "".join(c for c in plain if not unicodedata.combining(c)), flags=re.ASCII)


def free_name(text: str, taken: Collection[str]) -> str:
    """A name for a column of the lake that is neither taken nor one of the tables' own."""
    name = plain_name(text)
    name = f"own_{name}" if name in TAKEN or not name[:1].isalpha() else name
    names = (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3)))
    return next(n for n in names if n not in taken)


def ticked(name: str) -> str:
    """A column's name as `select` may have it: in backticks unless it is a plain word that SQL does not keep."""
    keeps = name.upper() in Spark.Tokenizer.KEYWORDS or name.lower() in RESERVED | BARE
    is_plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and not keeps
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def in_spark(column: FileColumn, role: str) -> str:
    """Spark SQL that turns the column into the delivery's column of this `role`."""
    name = ticked(column.name)
    if role == "op":
        if column.ops == "plain":
            return name
        cases = (
            f"WHEN lower(trim({name})) IN ({', '.join(map(literal, given))}) THEN '{op}'"
            for op, given in OPS[column.ops].items()
        )
        return f"CASE {' '.join(cases)} END"
    kind = "timestamp" if role.endswith("_ts") else {"event_key": "string", "seq": "bigint"}[role]
    same = kind == ("string" if column.is_text else column.type.lower())
    return name if same else f"CAST({name} AS {kind})"
