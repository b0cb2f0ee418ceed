"""What landed files suggest to `init`: a column's type and name in a lake, and the dialect of text
files. No JVM.

A dialect is encoding, separator and decimal commas, where the files leave no doubt; the parser
judges a guess. Not here: which column is which (`first_source`), types that a load allows
(`intake.mapping`), reading by a dialect (`intake.dialect`).
"""

import os
import re
import unicodedata
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from duckdb import DuckDBPyConnection
from sqlglot.dialects.spark import Spark

from backfill_assets.intake.csv_records import CsvRecords
from backfill_assets.intake.dialect import PLAIN_TEXT, Dialect
from backfill_assets.intake.files import LandedFile, opened_file
from backfill_assets.intake.text_lines import GZIP_MAGIC, Limits, Unreadable
from backfill_assets.kernel.core.payload import TAKEN
from backfill_assets.kernel.core.unsteady import BARE
from backfill_assets.kernel.tables.embedded import sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name

ENOUGH = 0.9  # of the values of a text column must read as a type
KEYS = re.compile(r"(?:^|_)(?:id|key|uuid|guid|no|number|code)$")
ROW_NUMBERS = re.compile(
    r"__index_level_\d+__|unnamed: ?\d+", re.IGNORECASE
)  # as pandas writes its index
TIMES, WHOLES = ("TIMESTAMP", "DATE"), ("BIGINT", "INT")
OPS: Mapping[
    str, Mapping[str, tuple[str, ...]]
] = {  # what `op` becomes: by letters (DMS, Debezium), or by words
    "letter": {"delete": ("d",), "upsert": ("c", "i", "r", "u")},
    "word": {
        "delete": ("delete", "deleted", "remove", "removed"),
        "upsert": ("create", "insert", "update", "upsert"),
    },
}
WHOLE, DECIMAL, TIME = (
    r"-?(0|[1-9]\d{0,17})",
    r"-?\d{1,%d}(\.\d{1,%d})?",
    r"\d{4}-\d\d-\d\d([T ]\d\d:.*)?",
)
SPARKS = {  # DuckDB's types of Parquet columns, as a payload declares them
    "VARCHAR": "STRING",
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "INT",
    "SMALLINT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "FLOAT": "DOUBLE",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    "BLOB": "BINARY",
    "UTINYINT": "INT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
}
# Words of SQL that the parser takes for names, and that engines keep (Spark's ANSI mode, SQL:2016).
RESERVED = frozenset(
    {
        "and",
        "anti",
        "at",
        "authorization",
        "both",
        "check",
        "collate",
        "current_time",
        "day",
        "escape",
        "false",
        "foreign",
        "grant",
        "group",
        "hour",
        "in",
        "leading",
        "month",
        "not",
        "null",
        "on",
        "only",
        "or",
        "order",
        "overlaps",
        "position",
        "primary",
        "references",
        "second",
        "some",
        "start",
        "time",
        "to",
        "trailing",
        "true",
        "unique",
        "unknown",
        "user",
        "within",
        "year",
    }
)


@dataclass(frozen=True)
class FileColumn:
    """A column of the files."""

    name: str
    type: str  # as Spark writes it; empty where no payload can have it
    is_text: bool  # its values are text that reads as that type
    distinct: int  # values
    is_nested: bool = False  # the values are JSON
    is_unique: bool = False  # no two rows that differ have the same value, and nearly all have one
    # Which of OPS all its values are: `letter`, `word`, `plain` for upsert and delete; else empty.
    ops: str = ""

    @property
    def is_index(self) -> bool:
        """Whether it is the number of a row, which pandas writes beside the data."""
        return self.type in WHOLES and ROW_NUMBERS.fullmatch(self.name) is not None


def read_column(engine: "DuckDBPyConnection", name: str, kind: str) -> FileColumn:
    """The column, with the type that nearly all of its values read as; blank ones say nothing."""
    value = f"nullif(trim(CAST({quoted_name(name)} AS VARCHAR)), '')"
    tests = {
        "BOOLEAN": "v IN ('true', 'false')",
        "BIGINT": f"regexp_full_match(v, '{WHOLE}')",
        "DECIMAL(18,2)": f"regexp_full_match(v, '{DECIMAL % (16, 2)}')",
        "DECIMAL(18,6)": f"regexp_full_match(v, '{DECIMAL % (12, 6)}')",
        "DATE": "regexp_full_match(v, '\\d{4}-\\d\\d-\\d\\d') AND try_cast(v AS DATE) IS NOT NULL",
        "TIMESTAMP": f"regexp_full_match(v, '{TIME}') AND try_cast(v AS TIMESTAMPTZ) IS NOT NULL",
    }
    words = {
        w: f"lower(v) IN ({', '.join(map(sql_literal, sum(known.values(), ())))})"
        for w, known in OPS.items()
    }
    conditions = [
        *tests.values(),
        "regexp_matches(v, '^[{[]')",
        *words.values(),
        "v IN ('upsert', 'delete')",
    ]
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions)
    query = (
        f"SELECT count(*), count(v), count(DISTINCT v), {counts} FROM (SELECT {value} AS v FROM "
        "landed)"
    )
    rows, filled, distinct, *found = (int(n) for n in engine.execute(query).fetchone() or ())
    read, (nested, *ops) = found[: len(tests)], found[len(tests) :]
    fitting = (
        t for t, count in zip(tests, read, strict=True) if filled and count >= ENOUGH * filled
    )
    is_text = kind == "VARCHAR"
    return FileColumn(
        name,
        next(fitting, "STRING") if is_text else _payload_type(kind),
        is_text,
        distinct,
        is_text and nested > ENOUGH * filled,
        distinct == filled >= ENOUGH * rows,
        next(
            (
                w
                for w, n in zip(("plain", *words), (ops[-1], *ops), strict=False)
                if n == filled > 0
            ),
            "",
        ),
    )


def _payload_type(kind: str) -> str:
    if kind.endswith("[]"):
        return (
            f"ARRAY<{inner}>"
            if (inner := _payload_type(kind[:-2])) and not inner.startswith("ARRAY")
            else ""
        )
    return SPARKS.get(kind, kind if kind.startswith("DECIMAL") else "")


def plain_name(text: str) -> str:
    """A column's name as the lake may have it: ASCII letters, digits and _, small."""
    plain = unicodedata.normalize(
        "NFKD", text.lower().replace("ß", "ss").replace("æ", "ae").replace("ø", "o")
    )
    return re.sub(
        r"\W", "_", "".join(c for c in plain if not unicodedata.combining(c)), flags=re.ASCII
    )


def unused_name(text: str, taken: Collection[str]) -> str:
    """A name for a column of the lake that is neither taken nor one of the tables' own."""
    name = plain_name(text)
    name = f"own_{name}" if name in TAKEN or not name[:1].isalpha() else name
    names = (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3)))
    return next(n for n in names if n not in taken)


def quoted_for_spark(name: str) -> str:
    """A column's name as `select` may have it: in backticks unless it is a plain word that SQL does
    not keep."""
    keeps = name.upper() in Spark.Tokenizer.KEYWORDS or name.lower() in RESERVED | BARE
    is_plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and not keeps
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def role_expression(column: FileColumn, role: str) -> str:
    """Spark SQL that turns the column into the delivery's column of this `role`."""
    name = quoted_for_spark(column.name)
    if role == "op":
        if column.ops == "plain":
            return name
        cases = (
            f"WHEN lower(trim({name})) IN ({', '.join(map(sql_literal, given))}) THEN '{op}'"
            for op, given in OPS[column.ops].items()
        )
        return f"CASE {' '.join(cases)} END"
    kind = "timestamp" if role.endswith("_ts") else {"event_key": "string", "seq": "bigint"}[role]
    same = kind == ("string" if column.is_text else column.type.lower())
    return name if same else f"CAST({name} AS {kind})"


SEEN_BYTES = 1 << 18  # of each file
SEPARATORS = (",", ";", "\t", "|")
MOST_BAD = 0.1  # of the records of a file that is read as it is meant
COMMAS = Dialect(numbers=("any",), decimal=",", thousands=".")

Columns = Mapping[str, Sequence[str]]


def guessed_dialect(files: Sequence[LandedFile], form: str) -> Dialect:
    """How files of text are written, by their beginnings; as plain files are where these say
    nothing else, or no one thing. Parts of an encoding that is not seen, or of several, are set
    aside by name when the files are read."""
    if form == "parquet":
        return PLAIN_TEXT
    heads = [_file_head(f) for f in files]
    encoding = next(
        (e for e in ("utf-8", "utf-16", "cp1252") if all(_is_encoded_as(h, e) for h in heads)),
        "utf-8",
    )
    if form != "csv":
        return Dialect(encoding=encoding)
    read = {
        s: [_column_texts(h, Dialect(separator=s, encoding=encoding)) for h in heads]
        for s in SEPARATORS
    }
    fit = [s for s, found in read.items() if found and all(len(columns) > 1 for columns in found)]
    if len(fit) != 1 or fit == [","]:
        return Dialect(encoding=encoding)
    values = dict[str, list[str]]()
    for columns in read[fit[0]]:
        for name, texts in columns.items():
            values.setdefault(name, []).extend(t for t in texts if t.strip())
    numbers = {
        n: v for n, v in values.items() if v and all(re.fullmatch(COMMAS.number, t) for t in v)
    }
    texts = "".join(t for v in numbers.values() for t in v)
    if "," not in texts:
        return Dialect(encoding=encoding, separator=fit[0])
    thousands = "." if "." in texts else ""
    return Dialect(
        encoding=encoding,
        separator=fit[0],
        numbers=tuple(numbers),
        decimal=",",
        thousands=thousands,
    )


def _file_head(file: LandedFile) -> bytes:
    """The first bytes of a file, unpacked; whole signs of two bytes."""
    with opened_file(file) as descriptor:
        head = os.read(descriptor, SEEN_BYTES)
    if head.startswith(GZIP_MAGIC):
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=31).decompress(head, SEEN_BYTES)
    return head[: len(head) // 2 * 2] if len(head) == SEEN_BYTES else head


def _is_encoded_as(head: bytes, encoding: str) -> bool:
    """Whether the bytes can be text of this encoding; a last sign may be cut off."""
    if encoding == "utf-16" and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    try:
        head.decode(encoding)
    except UnicodeDecodeError as error:
        return len(head) == SEEN_BYTES and error.end == len(head)
    return True


def _column_texts(head: bytes, dialect: Dialect) -> Columns:
    """The texts of the usable records per column; none where a dialect does not fit."""
    found, rows, bad = dict[str, list[str]](), 0, 0
    with suppress(Unreadable):
        limits = Limits()
        lines = dialect.lines(iter((head,)), len(head), limits)
        for batch in CsvRecords(limits, dialect).batches(lines):
            rows, bad = rows + batch.size, bad + len(batch.bad)
            for name, texts in batch.columns.items():
                found.setdefault(name, []).extend(str(t) for t in texts if t is not None)
    cut = len(head) == SEEN_BYTES
    return found if bad <= cut + MOST_BAD * rows else {}
