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
    tests, words = _type_tests(), _op_tests()
    conditions = [*tests.values(), "regexp_matches(v, '^[{[]')", *words.values()]
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions)
    values = f"SELECT nullif(trim(CAST({quoted_name(name)} AS VARCHAR)), '') AS v FROM landed"
    query = f"SELECT count(*), count(v), count(DISTINCT v), {counts} FROM ({values})"
    [(rows, filled, distinct, *found)] = engine.execute(query).fetchall()
    read, (nested, *ops) = found[: len(tests)], found[len(tests) :]
    is_text = kind == "VARCHAR"
    column_type = _payload_type(kind)
    if is_text:
        fitting = [t for t, count in zip(tests, read, strict=True) if count >= ENOUGH * filled]
        column_type = fitting[0] if filled and fitting else "STRING"
    full = [w for w, count in zip(words, ops, strict=True) if count == filled]
    return FileColumn(
        name=name,
        type=column_type,
        is_text=is_text,
        distinct=distinct,
        is_nested=is_text and nested > ENOUGH * filled,
        is_unique=distinct == filled >= ENOUGH * rows,
        ops=full[0] if filled and full else "",
    )


def _type_tests() -> dict[str, str]:
    """By type, DuckDB's condition that a text `v` reads as it; of several that fit, the first
    counts."""
    return {
        "BOOLEAN": "v IN ('true', 'false')",
        "BIGINT": f"regexp_full_match(v, '{WHOLE}')",
        "DECIMAL(18,2)": f"regexp_full_match(v, '{DECIMAL % (16, 2)}')",
        "DECIMAL(18,6)": f"regexp_full_match(v, '{DECIMAL % (12, 6)}')",
        "DATE": "regexp_full_match(v, '\\d{4}-\\d\\d-\\d\\d') AND try_cast(v AS DATE) IS NOT NULL",
        "TIMESTAMP": f"regexp_full_match(v, '{TIME}') AND try_cast(v AS TIMESTAMPTZ) IS NOT NULL",
    }


def _op_tests() -> dict[str, str]:
    """By a way to write `op` (`FileColumn.ops`), DuckDB's condition that a text `v` is one of its
    words."""
    tests = {"plain": "v IN ('upsert', 'delete')"}
    for way, known in OPS.items():
        words = [word for group in known.values() for word in group]
        tests[way] = f"lower(v) IN ({', '.join(map(sql_literal, words))})"
    return tests


def _payload_type(kind: str) -> str:
    """The type of a payload's column for a type of DuckDB; empty if it can have none."""
    if kind.endswith("[]"):
        inner = _payload_type(kind[:-2])
        has_type = inner and not inner.startswith("ARRAY")
        return f"ARRAY<{inner}>" if has_type else ""
    if kind.startswith("DECIMAL"):
        return kind
    return SPARKS.get(kind, "")


def plain_name(text: str) -> str:
    """A column's name as the lake may have it: ASCII letters, digits and _, small."""
    spelled = text.lower().replace("ß", "ss").replace("æ", "ae").replace("ø", "o")
    decomposed = unicodedata.normalize("NFKD", spelled)
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    return re.sub(r"\W", "_", plain, flags=re.ASCII)


def unused_name(text: str, taken: Collection[str]) -> str:
    """A name for a column of the lake that is neither taken nor one of the tables' own."""
    name = plain_name(text)
    if name in TAKEN or not name[:1].isalpha():
        name = f"own_{name}"
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


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
    encoding = _guessed_encoding(heads)
    separator = _guessed_separator(heads, encoding) if form == "csv" else ""
    if separator in ("", ","):
        return Dialect(encoding=encoding)
    dialect = Dialect(encoding=encoding, separator=separator)
    values = dict[str, list[str]]()
    for head in heads:
        for name, texts in _column_texts(head, dialect).items():
            values.setdefault(name, []).extend(text for text in texts if text.strip())
    numbers = {name: texts for name, texts in values.items() if _are_numbers(texts)}
    signs = {sign for texts in numbers.values() for text in texts for sign in text}
    if "," not in signs:
        return dialect
    thousands = "." if "." in signs else ""
    return Dialect(
        encoding=encoding,
        separator=separator,
        numbers=tuple(numbers),
        decimal=",",
        thousands=thousands,
    )


def _guessed_encoding(heads: Sequence[bytes]) -> str:
    """The encoding in which all these beginnings can be text; UTF-8 if there is none."""
    for encoding in ("utf-8", "utf-16", "cp1252"):
        if all(_is_encoded_as(head, encoding) for head in heads):
            return encoding
    return "utf-8"


def _guessed_separator(heads: Sequence[bytes], encoding: str) -> str:
    """The one sign that parts the records of all files into several columns; empty if none or
    several do."""
    fitting = list[str]()
    for separator in SEPARATORS:
        dialect = Dialect(separator=separator, encoding=encoding)
        read = [_column_texts(head, dialect) for head in heads]
        if read and all(len(columns) > 1 for columns in read):
            fitting.append(separator)
    return fitting[0] if len(fitting) == 1 else ""


def _are_numbers(texts: Sequence[str]) -> bool:
    """Whether all of some texts are numbers with decimal commas, or whole ones."""
    return bool(texts) and all(re.fullmatch(COMMAS.number, text) for text in texts)


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
