"""Records between a parser and a text copy: batches of columns in which every record has its row.

Lives here: collecting usable and unusable records in file order, allowed column names, and the text kept of an unusable
record. Does not live here: judging a record (`json_lines`, `csv_records`), and parquet files (`text_copies`).
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from backfill_assets.landing.text_lines import Limits, TextLines

ROW_NUMBER, BAD_TEXT, BAD_REASON = "__row_number", "__bad_text", "__bad_reason"
NAME_CHARS = 1024  # parquet and Spark take any; a name as long as a row is an attack
# Names that `load.deliveries` uses itself, and Spark's hidden column.
RESERVED = re.compile(
    r"__(row_number|bad_text|bad_reason|json|sha256|number|text|reason|raised|lacking|d\d+)|_metadata", re.IGNORECASE
)

Values = Sequence[str | None]
Row = TypeVar("Row")


class BadRecord(Exception):
    """A record is unusable for the reason in the text; it becomes an unusable row."""


@dataclass(frozen=True)
class Batch:
    """`size` consecutive records from number `first` (the first record of a file is 1).

    `columns` hold `size` texts each (a sequence or an Arrow array), NULL for an unusable record; `bad` has text and
    reason per position in the batch.
    """

    first: int
    size: int
    columns: Mapping[str, Values]
    bad: Mapping[int, tuple[str, str]]


class Parser(Protocol):
    """The parser of a text format. `columns` (name -> STRING, BIGINT, BOOLEAN) is complete after the last batch."""

    def batches(self, lines: TextLines) -> Iterator[Batch]:
        """Yield the records of a file; raises Unreadable if the file cannot be used as a whole."""

    @property
    def columns(self) -> dict[str, str]:
        """The file's columns in the order of their first appearance."""


@dataclass
class Collector(Generic[Row]):
    """Records of the next batch. `blank` is the row of an unusable one; `cut` turns rows into columns."""

    limits: Limits
    blank: Row
    cut: Callable[[list[Row]], dict[str, Values]]
    first: int = 1
    rows: list[Row] = field(default_factory=list)
    bad: dict[int, tuple[str, str]] = field(default_factory=dict)
    size_bytes: int = 0

    def add(self, row: Row, size_bytes: int) -> None:
        """Add a usable record and the length of its text."""
        self.rows.append(row)
        self.size_bytes += size_bytes

    def add_bad(self, text: str, reason: str) -> None:
        """Add an unusable record."""
        self.bad[len(self.rows)] = (text, reason)
        self.rows.append(self.blank)
        self.size_bytes += len(text)

    def is_full(self, width: int) -> bool:
        """Whether the batch of `width` columns has reached a limit."""
        rows, limits = len(self.rows), self.limits
        return rows >= limits.batch_rows or self.size_bytes >= limits.batch_bytes or rows * width >= limits.batch_cells

    def batch(self) -> Batch:
        """Return the collected records (perhaps none) as a batch and start the next one."""
        made = Batch(self.first, len(self.rows), self.cut(self.rows), self.bad)
        self.first += len(self.rows)
        self.rows, self.bad, self.size_bytes = [], {}, 0
        return made

    def given(self, columns: Mapping[str, Values]) -> Batch:
        """Return usable records that are columns already as a batch; none may be waiting."""
        made = Batch(self.first, len(next(iter(columns.values()))), columns, {})
        self.first += made.size
        return made


@dataclass(frozen=True)
class PlainLines:
    """A pattern of whole lines that a library can read, and `read`, which gives their columns or None."""

    pattern: re.Pattern[bytes]
    read: Callable[[bytes], Mapping[str, Values] | None]


def in_batches(
    lines: TextLines,
    waiting: Collector[Row],
    names: "ColumnNames",
    judged: Iterator[None],
    plain: Callable[[], PlainLines | None],
) -> Iterator[Batch]:
    """Yield records in file order: plain lines as a library reads them, all others as `judged` adds them to `waiting`.

    The last records stay in `waiting`. `plain` is asked before each record, because a parser learns what is plain.
    """
    done = object()
    while True:
        known = plain()
        stretch = lines.ahead(known.pattern) if known else b""
        if known and len(stretch) >= waiting.limits.plain_bytes and (columns := known.read(stretch)) is not None:
            if waiting.rows:
                yield waiting.batch()
            yield waiting.given(columns)
            lines.skip(stretch)
            continue
        behind = lines.number + stretch.count(b"\n")
        while lines.number <= behind:
            if next(judged, done) is done:
                return
            if waiting.is_full(len(names.known)):
                yield waiting.batch()


class ColumnNames:
    """The column names of a file; as for Spark, case makes no difference."""

    def __init__(self, limits: Limits) -> None:
        self.known: dict[str, None] = {}
        self._folded: set[str] = set()
        self._most = limits.max_columns

    def admit(self, names: Iterable[str]) -> None:
        """Add new names, all or none; raises BadRecord naming the first unusable one."""
        fresh: dict[str, str] = {}
        for name in names:
            folded = folded_name(name)
            if folded in self._folded or folded in fresh:
                raise BadRecord(f"the name {shown(name)} occurs twice, case aside")
            if why := name_fault(name):
                raise BadRecord(why)
            fresh[folded] = name
            if len(self.known) + len(fresh) > self._most:
                raise BadRecord(f"it would give the file more than {self._most} columns")
        self._folded.update(fresh)
        self.known.update(dict.fromkeys(fresh.values()))


def folded_name(name: str) -> str:
    """The name as Spark compares it: names of one folded form are the same to Spark."""
    return name.upper().lower()


def name_fault(name: str) -> str | None:
    """The reason why this cannot be a column's name; None for a usable name."""
    if not name.strip():
        return "a column has a blank name"
    if len(name) > NAME_CHARS:
        return f"a column's name is longer than {NAME_CHARS} characters"
    if any(ord(c) < 32 for c in name):
        return f"the name {shown(name)} has control characters"
    return f"the name {shown(name)} is reserved" if RESERVED.fullmatch(name) else None


def shown(text: str) -> str:
    """A name or value quoted, escaped, and cut at 80 characters, for a reason."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")


def kept_text(record: bytes, limits: Limits) -> str:
    """The beginning of an unusable record as text: invalid UTF-8 as \\xNN, NUL as \\x00."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    text = decoder.decode(record[: limits.text_bytes], final=len(record) <= limits.text_bytes)
    return text.replace("\0", "\\x00")[: limits.text_bytes]
