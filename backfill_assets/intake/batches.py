"""Records between a parser and a text copy: batches of columns in which every record has its row.

Also allowed column names. Not here: judging a record (`json_lines`, `csv_records`) and writing the
copy (`ingest`).
"""

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from backfill_assets.intake.text_lines import UTF8_MARK, Limits, TextLines

# Type of a column of texts, of which one at least is a number with a fraction or an exponent.
FRACTIONAL = "NUMBER"
ROW_NUMBER, BAD_TEXT, BAD_REASON = "__row_number", "__bad_text", "__bad_reason"
NAME_CHARS = 1024  # parquet and Spark take any; a name as long as a row is an attack
# Names that `intake.deliveries` uses itself, and Spark's hidden column.
RESERVED = re.compile(
    r"__(row_number|bad_text|bad_reason|json|sha256|number|text|reason|raised|lacking|d\d+)|_metadata",
    re.IGNORECASE,
)

Values = Sequence[str | None]
Row = TypeVar("Row")


class BadRecord(Exception):
    """A record is unusable for the reason in the text; it becomes an unusable row."""


@dataclass(frozen=True)
class Batch:
    """Consecutive records of a file."""

    first: int  # number of the first one; the first record of a file is 1
    size: int  # records
    # `size` texts each, a sequence or an Arrow array; NULL for an unusable record
    columns: Mapping[str, Values]
    # position in the batch -> text and reason of an unusable record
    bad: Mapping[int, tuple[str, str]]


@dataclass(frozen=True)
class PlainLines:
    """Lines that a library can read."""

    pattern: re.Pattern[bytes]  # of whole lines
    # gives their columns, or None where it cannot
    read: Callable[[bytes], Mapping[str, Values] | None]


class TextParser(ABC, Generic[Row]):
    """The parser of one text file: judges records one by one, but lets a library read long
    stretches of plain lines.

    `blank` is the row of an unusable record; `plain` shows what plain lines look like, once that is
    known.
    """

    def __init__(self, limits: Limits, blank: Row) -> None:
        self._limits, self._blank, self._names = limits, blank, ColumnNames(limits)
        self._plain: PlainLines | None = None
        # Of the batch under way: the number of its first row, and the bytes of its records so far.
        self._first, self._bytes = 1, 0
        # That `judged` took from the file behind the last record that it added.
        self._lines_ahead = 0
        self._rows: list[Row] = []  # of the batch under way, with `blank` for unusable records
        # By their place in the batch, the beginnings of unusable records, and why they are.
        self._bad: dict[int, tuple[str, str]] = {}

    @property
    @abstractmethod
    def columns(self) -> dict[str, str]:
        """The file's columns in the order of their first appearance: name -> STRING, BIGINT,
        BOOLEAN or NUMBER.

        Complete after the last batch.
        """

    @abstractmethod
    def judged(self, lines: TextLines) -> Iterator[None]:
        """Add at most one record per step; raises Unreadable if the file cannot be used at all."""

    @abstractmethod
    def cut(self, rows: list[Row]) -> dict[str, Values]:
        """Turn rows into columns."""

    def batches(self, lines: TextLines) -> Iterator[Batch]:
        """Yield all records in file order; a batch has the columns known at its end. Raises
        Unreadable."""
        judged, done = self.judged(lines), object()
        while True:
            # Where `judged` has read ahead, the next lines are its own.
            plain = None if self._lines_ahead else self._plain
            stretch = lines.ahead(plain.pattern) if plain else b""
            columns = self._plain_columns(stretch)
            if columns is not None:
                if self._rows:
                    yield self._take_batch()
                size = len(next(iter(columns.values())))
                yield Batch(first=self._first, size=size, columns=columns, bad={})
                self._first += size
                lines.skip(stretch)
                continue
            # The library cannot read this stretch: each record is judged alone until its end.
            behind = lines.number + stretch.count(b"\n")
            while lines.number <= behind:
                if next(judged, done) is done:
                    yield self._take_batch()
                    return
                if self._is_full():
                    yield self._take_batch()

    def spans(self, lines: TextLines) -> Iterator[range]:
        """Yield the physical lines of each record, numbered from 0; raises Unreadable."""
        before = 0
        for _ in self.judged(lines):
            end = lines.number - self._lines_ahead
            if self._rows:
                yield range(before, end)
                self._take_batch()
            before = end

    def add(self, row: Row, size_bytes: int) -> None:
        """Add a usable record and the length of its text."""
        self._rows.append(row)
        self._bytes += size_bytes

    def add_bad(self, record: bytes, reason: str) -> None:
        """Add an unusable record."""
        self._bad[len(self._rows)] = (record_beginning(record, self._limits), reason)
        self.add(self._blank, len(self._bad[len(self._rows)][0]))

    def _plain_columns(self, stretch: bytes) -> Mapping[str, Values] | None:
        """The columns of plain lines; None of few ones, and where the library cannot read them."""
        if self._plain is None or len(stretch) < self._limits.plain_bytes:
            return None
        return self._plain.read(stretch)

    def _is_full(self) -> bool:
        """Whether the records that wait are as many rows, bytes or cells as a batch may have."""
        rows, limits = len(self._rows), self._limits
        if rows >= limits.batch_rows or self._bytes >= limits.batch_bytes:
            return True
        return rows * len(self._names.known) >= limits.batch_cells

    def _take_batch(self) -> Batch:
        """The records that wait (perhaps none) as a batch; starts the next one."""
        made = Batch(self._first, len(self._rows), self.cut(self._rows), self._bad)
        self._first += len(self._rows)
        self._rows, self._bad, self._bytes = [], {}, 0
        return made


class ColumnNames:
    """The column names of a file; as for Spark, case makes no difference."""

    def __init__(self, limits: Limits) -> None:
        self.known: dict[str, None] = {}
        self._folded: dict[str, str] = {}  # as Spark compares names -> as the file first spelled it
        self._most = limits.max_columns

    def admit(self, names: Iterable[str]) -> None:
        """Add new names, all or none; raises BadRecord naming the first unusable one."""
        fresh: dict[str, str] = {}
        for name in names:
            folded = folded_name(name)
            if folded in fresh:
                raise BadRecord(f"the name {quoted_text(name)} occurs twice, case aside")
            if folded in self._folded:
                before = quoted_text(self._folded[folded])
                raise BadRecord(
                    f"the name {quoted_text(name)} was {before} in a line before, and case makes "
                    "no "
                    "difference"
                )
            why = name_fault(name)
            if why:
                raise BadRecord(why)
            fresh[folded] = name
            if len(self.known) + len(fresh) > self._most:
                raise BadRecord(f"it would give the file more than {self._most} columns")
        self._folded |= fresh
        self.known.update(dict.fromkeys(fresh.values()))


def folded_name(name: str) -> str:
    """The name as Spark compares it: names of one folded form are the same to Spark."""
    return name.upper().lower()


def name_fault(name: str) -> str | None:
    """The reason why this cannot be a column's name; None for a usable name."""
    if not name.strip():
        return "a column has a blank name: name it, or leave it out (of pandas: index=False)"
    if len(name) > NAME_CHARS:
        return f"a column's name is longer than {NAME_CHARS} characters"
    if any(ord(c) < 32 for c in name):
        return f"the name {quoted_text(name)} has control characters"
    return f"the name {quoted_text(name)} is reserved" if RESERVED.fullmatch(name) else None


def refuse_mark(record: bytes) -> None:
    """Raise BadRecord for a record that begins with a byte order mark: the file's own is no part of
    a record."""
    if record.startswith(UTF8_MARK):
        raise BadRecord(
            "it begins with a byte order mark, as where a second file was put behind a first one"
        )


def quoted_text(text: str) -> str:
    """A name or value quoted, escaped, and cut at 80 characters, for a reason."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")


def record_beginning(record: bytes, limits: Limits) -> str:
    """The beginning of an unusable record as text: invalid UTF-8 as \\xNN, NUL as \\x00."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    text = decoder.decode(record[: limits.text_bytes], final=len(record) <= limits.text_bytes)
    return text.replace("\0", "\\x00")[: limits.text_bytes]
