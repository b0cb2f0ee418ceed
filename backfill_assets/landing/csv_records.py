"""CSV after RFC 4180, read strictly: a header, then records of as many fields; others are unusable, with a reason.

Not here: physical lines (`text_lines`), batches (`batches`), and NULL: an empty field is the empty text. Every library
tried changes the accepted rows or values, so pyarrow reads only records that a strict regular expression proves to be
plain. A record with broken quoting ends at the end of its physical line. An unclosed quote makes everything from the
beginning of its record to the end of the file one unusable record, because text inside quotes must never become rows.
Empty lines are no records, except in a file of one column. An unusable header makes the file unreadable.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv as pc

from backfill_assets.landing.batches import BadRecord, PlainLines, TextParser, Values
from backfill_assets.landing.text_lines import Limits, Line, Oversized, TextLines, Unreadable

# Possessive throughout (`++`, `*+`), so that no line can make them take more than linear time.
_BODY = rb'(?:[^"]++|"")*+'
_PLAIN = rb'[^",\r]*+'
_REST = rb'(?:(?:"' + _BODY + rb'"|' + _PLAIN + rb"),)*+(?:(?:\"" + _BODY + rb'(?:(?P<%s>\Z)|"\Z))|' + _PLAIN + rb"\Z)"
FROM_START = re.compile(_REST % b"opened")
FROM_INSIDE = re.compile(_BODY + rb'(?:(?P<still>\Z)|"(?:\Z|,(?:' + _REST % b"opened" + rb")))")
_FIELD = rb'(?:"(?:[^"\0]++|"")*+"|[^",\r\n\0]*+)'
# Whole records of `%d` + 1 fields and strict quoting, without NUL and without CR outside quotes.
PLAIN_RECORDS = b"(?:(?:" + _FIELD + b",){%d}+" + _FIELD + rb"\r?\n)*+"
FIELDS = re.compile(r'(?:"((?:[^"]++|"")*+)"|([^",]*+)),')

Fields = Sequence[str | None]


class _End(Enum):
    """The end of a physical line: its record ends too, it is inside quotes, or its quoting is broken."""

    RECORD = 0
    QUOTED = 1
    BROKEN = 2


def _end_of(line: bytes, inside: bool) -> _End:
    found = (FROM_INSIDE if inside else FROM_START).match(line)
    if found is None:
        return _End.BROKEN
    return _End.QUOTED if any(v is not None for v in found.groupdict().values()) else _End.RECORD


class _Cut(NamedTuple):
    """A record as bytes; with a `reason` the beginning of an unusable one."""

    record: bytes
    reason: str | None = None


class CsvRecords(TextParser[Fields]):
    """The parser of one file."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits, ())

    @property
    def columns(self) -> dict[str, str]:
        """The names of the header, each with STRING."""
        return dict.fromkeys(self._names.known, "STRING")

    def judged(self, lines: TextLines) -> Iterator[None]:
        """Take the header in the first step, then add one record per step. Raises Unreadable for an unusable header."""
        self._lines = lines
        records = self._records(iter(lines))
        self._take_header(next(records, None))
        names, width = self._names.known, len(self._names.known)
        self._blank = [None] * width
        self._plain = PlainLines(re.compile(PLAIN_RECORDS % (width - 1)), lambda stretch: _read_plain(stretch, names))
        yield
        for cut in records:
            if cut.record or cut.reason is not None or width == 1:
                try:
                    self.add(self._fields(cut, width), len(cut.record))
                except BadRecord as error:
                    self.add_bad(cut.record, str(error))
            yield

    def _take_header(self, cut: _Cut | None) -> None:
        if cut is None:
            raise Unreadable("it has no header: the file is empty")
        try:
            self._names.admit(_split(cut))
        except BadRecord as error:
            raise Unreadable(f"its header cannot be used: {error}") from None

    def cut(self, rows: list[Fields]) -> dict[str, Values]:
        """The fields of each column."""
        if not rows:
            return dict.fromkeys(self._names.known, ())
        return dict(zip(self._names.known, zip(*rows, strict=True), strict=True))

    def _fields(self, cut: _Cut, width: int) -> Fields:
        fields = _split(cut)
        if len(fields) != width:
            raise BadRecord(f"{len(fields)} fields where the header has {width}")
        return fields

    def _records(self, source: Iterator[Line]) -> Iterator[_Cut]:
        for line in source:
            if isinstance(line, bytes) and b'"' not in line:
                yield _Cut(line.removesuffix(b"\r"))
            else:
                yield self._quoted(line, source)

    def _quoted(self, line: Line, source: Iterator[Line]) -> _Cut:
        """The record that begins with this line; takes the lines that its quotes span from `source`."""
        parts: list[bytes] = []
        size, start, inside = 0, self._lines.number, False
        while True:
            size += line.size if isinstance(line, Oversized) else len(line)
            if isinstance(line, Oversized) or size > self._limits.max_row_bytes:
                return self._too_long(parts, line, inside, start, source)
            whole = line.removesuffix(b"\r")
            end = _end_of(whole, inside)
            parts.append(whole if end is _End.RECORD else line)
            if end is _End.RECORD:
                return _Cut(b"\n".join(parts))
            if end is _End.BROKEN:
                return _Cut(b"\n".join(parts), f"broken quoting on line {self._lines.number}{self._since(start)}")
            inside = True
            following = next(source, None)
            if following is None:
                why = (
                    f"a quote is never closed: the record takes in lines {start} to {self._lines.number}, the last one"
                )
                return _Cut(b"\n".join(parts), why)
            line, size = following, size + 1

    def _too_long(self, parts: list[bytes], line: Line, inside: bool, start: int, source: Iterator[Line]) -> _Cut:
        """Skip to the end of a record that is too long, and keep its beginning. Every `"` counts as a quote here."""
        head = b"\n".join([*parts, line.head if isinstance(line, Oversized) else line])[: self._limits.text_bytes]
        open_quote = inside ^ _odd(line)
        while open_quote:
            following = next(source, None)
            if following is None:
                break
            open_quote ^= _odd(following)
        never = " and a quote in it is never closed" if open_quote else ""
        why = f"longer than the limit of {self._limits.max_row_bytes} bytes{never}; ends on line {self._lines.number}"
        return _Cut(head, why + self._since(start))

    def _since(self, start: int) -> str:
        return "" if start == self._lines.number else f" of a record that starts on line {start}"


def _read_plain(stretch: bytes, names: Iterable[str]) -> Mapping[str, pa.Array] | None:
    """Read records that PLAIN_RECORDS matches into text columns; None if pyarrow refuses them."""
    try:
        table = pc.read_csv(
            pa.BufferReader(stretch),
            read_options=pc.ReadOptions(use_threads=False, column_names=list(names), block_size=len(stretch) + 1),
            parse_options=pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    return dict(zip(table.column_names, table.combine_chunks().to_batches()[0].columns, strict=True))


def _odd(line: Line) -> bool:
    return bool((line.quotes if isinstance(line, Oversized) else line.count(b'"')) % 2)


def _split(cut: _Cut) -> list[str]:
    """Split a record into fields; raises BadRecord with the reason."""
    if cut.reason is not None:
        raise BadRecord(cut.reason)
    try:
        text = cut.record.decode()
    except UnicodeDecodeError as error:
        where = f"byte 0x{cut.record[error.start]:02x} at byte {error.start + 1} of the record"
        raise BadRecord(f"not UTF-8: {where}") from None
    if "\0" in text:
        raise BadRecord(f"a NUL byte at character {text.index(chr(0)) + 1}")
    if '"' in text:
        return [plain or quoted.replace('""', '"') for quoted, plain in FIELDS.findall(text + ",")]
    if "\r" in text:
        raise BadRecord("a carriage return outside quotes")
    return text.split(",")
