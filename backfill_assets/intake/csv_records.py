"""CSV after RFC 4180, read strictly: a header, then records of as many fields; others are unusable,
with a reason.

Not here: physical lines (`text_lines`), batches (`batches`), and NULL: an empty field is the empty
text. Every library tried changes the accepted rows or values, so pyarrow reads only records that a
strict regular expression proves to be plain. A record with broken quoting ends at the end of its
physical line. An unclosed quote makes everything from the beginning of its record to the end of the
file one unusable record, because text inside quotes must never become rows. From the first line on
that ends in CR LF, a line feed alone ends a record only where whole records stand before and behind
it; else it lies within a field, and the record is unusable to its CR LF. Empty lines are no
records, except in a file of one column. An unusable header makes the file unreadable.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as pc

from backfill_assets.intake.batches import (
    BadRecord,
    PlainLines,
    TextParser,
    Values,
    folded_name,
    refuse_mark,
)
from backfill_assets.intake.dialect import MOST_SIGNS, PLAIN_TEXT, Dialect
from backfill_assets.intake.text_lines import (
    UTF8_MARK,
    Limits,
    Line,
    Oversized,
    TextLines,
    Unreadable,
)

Fields = Sequence[str | None]


class _LineEnd(Enum):
    """The end of a physical line: its record ends too, it is inside quotes, or its quoting is
    broken."""

    RECORD = 0
    QUOTED = 1
    BROKEN = 2


class _CutRecord(NamedTuple):
    """A record, cut out of a file."""

    record: bytes  # of an unusable one its beginning
    reason: str | None = None  # why it is unusable
    is_bare: bool = False  # its last line ends without a carriage return

    @property
    def is_blank(self) -> bool:
        """Whether it is an empty line that ends in a line feed alone."""
        return not self.record and self.reason is None and self.is_bare


class _Grammar:
    """The regular expressions of a separator and a quote, possessive throughout (`++`, `*+`), so
    that no line can make them take more than linear time.

    Without a quote, a record with one never comes up, and plain fields alone remain.
    """

    def __init__(self, separator: str, quote: str) -> None:
        """`_from_start` and `_from_inside` tell the end of a line that begins outside or inside of
        quotes, `_fields` the fields of a record, `_field` is one plain or quoted field."""
        # Both signs as escapes, so that none means anything in a regular expression.
        s, q = rf"\x{ord(separator):02x}", rf"\x{ord(quote):02x}" if quote else ""
        body, plain = f"(?:[^{q}]++|{q}{q})*+", rf"[^{q}{s}\r]*+"
        rest = (
            rf"(?:(?:{q}{body}{q}|{plain}){s})*+(?:(?:{q}{body}(?:(?P<opened>\Z)|{q}\Z))|{plain}\Z)"
        )
        field = rf"[^{q}{s}\r\n\0]*+"
        if quote:
            self._from_start = re.compile(rest.encode())
            self._from_inside = re.compile(
                rf"{body}(?:(?P<still>\Z)|{q}(?:\Z|{s}(?:{rest})))".encode()
            )
            self._fields = re.compile(rf"(?:{q}({body}){q}|([^{q}{s}]*+)){s}")
            field = rf"(?:{q}(?:[^{q}\0]++|{q}{q})*+{q}|{field})"
        self._separator, self._quote, self._field, self._s = separator, quote, field, s

    def records(self, width: int, end: bytes) -> re.Pattern[bytes]:
        """Whole records of so many fields and strict quoting, each with this end, without NUL,
        without CR outside quotes, and without a byte order mark at their beginning."""
        mark = re.escape(UTF8_MARK)
        fields = rf"(?:{self._field}{self._s}){{{width - 1}}}+{self._field}"
        return re.compile(b"(?:(?!" + mark + b")" + fields.encode() + re.escape(end) + b")*+")

    def width(self, record: bytes) -> int:
        """The number of fields of a record of strict quoting; its signs are ASCII in any encoding
        that is read."""
        return len(self.fields(record.decode("latin-1")))

    def end_of(self, line: bytes, inside: bool) -> _LineEnd:
        """The end of a line that may have quotes."""
        found = (self._from_inside if inside else self._from_start).match(line)
        if found is None:
            return _LineEnd.BROKEN
        is_open = any(group is not None for group in found.groupdict().values())
        return _LineEnd.QUOTED if is_open else _LineEnd.RECORD

    def fields(self, text: str) -> list[str]:
        """The fields of a record of strict quoting."""
        if not self._quote or self._quote not in text:
            return text.split(self._separator)
        found = self._fields.findall(text + self._separator)
        return [plain or quoted.replace(self._quote * 2, self._quote) for quoted, plain in found]


_grammar = lru_cache(maxsize=16)(_Grammar)


class CsvRecords(TextParser[Fields]):
    """The parser of one file."""

    def __init__(self, limits: Limits, dialect: Dialect = PLAIN_TEXT) -> None:
        super().__init__(limits, ())
        self._dialect, self._grammar = dialect, _grammar(dialect.separator, dialect.quote)
        self._quote = dialect.quote.encode()
        self._numbers = dict[int, str]()  # columns that the dialect writes numbers in, by place
        self._has_crlf = False  # a line before ended in CR LF

    @property
    def columns(self) -> dict[str, str]:
        """The names of the header, each with STRING."""
        return dict.fromkeys(self._names.known, "STRING")

    def judged(self, lines: TextLines) -> Iterator[None]:
        """Take the header in the first step, then add one record per step. Raises Unreadable for an
        unusable header."""
        self._lines, names = lines, self._names.known
        records = self._cut_records(self._dialect.after_preamble(iter(lines)))
        if self._dialect.names:
            self._names.admit(self._dialect.names)
        else:
            self._take_header(next(records, None))
        numbers, width = {*map(folded_name, self._dialect.numbers)}, len(names)
        self._blank = [None] * width
        self._numbers = {i: n for i, n in enumerate(names) if folded_name(n) in numbers}
        self._plain = None if self._dialect.names else self._plain_records()
        yield
        if self._dialect.names and (first := next(records, None)) is not None:
            self._refuse_header(first)
            records, self._plain = chain([first], records), self._plain_records()
        for cut in self._whole_records(records, width):
            is_empty_line = not cut.record and cut.reason is None
            if not is_empty_line or width == 1:
                try:
                    self.add(self._fields(cut, width), len(cut.record))
                except BadRecord as error:
                    self.add_bad(cut.record, str(error))
            yield

    def _take_header(self, cut: _CutRecord | None) -> None:
        """Take the names of the first record (None: there is none). Raises Unreadable for names
        that cannot be used."""
        if cut is None:
            raise Unreadable("it has no header: the file is empty")
        try:
            self._names.admit(self._split_fields(cut))
        except BadRecord as error:
            raise Unreadable(f"its header cannot be used: {error}") from None

    def cut(self, rows: list[Fields]) -> dict[str, Values]:
        """The fields of each column."""
        if not rows:
            return dict.fromkeys(self._names.known, ())
        return dict(zip(self._names.known, zip(*rows, strict=True), strict=True))

    def _fields(self, cut: _CutRecord, width: int) -> Fields:
        """The fields of a record, numbers in plain form. Raises BadRecord unless they are `width`
        fields, and for a number of another form."""
        fields = self._split_fields(cut)
        if len(fields) != width:
            who = "names" if self._dialect.names else "the header"
            raise BadRecord(f"{len(fields)} fields where {who} has {width}")
        for place, name in self._numbers.items():
            fields[place] = self._dialect.as_number(name, fields[place])
        return fields

    def _refuse_header(self, cut: _CutRecord) -> None:
        """Raise Unreadable where the dialect declares names, and the first record repeats them."""
        with suppress(BadRecord):
            found = [folded_name(field) for field in self._split_fields(cut)]
            if found == [folded_name(name) for name in self._names.known]:
                raise Unreadable("its first record is a header: leave `names` of the dialect out")

    def _plain_records(self) -> PlainLines:
        """The records that pyarrow can read: of strict quoting, and with the file's end of line."""
        end = b"\r\n" if self._has_crlf else b"\n"
        return PlainLines(self._grammar.records(len(self._names.known), end), self._read_plain)

    def _whole_records(self, records: Iterator[_CutRecord], width: int) -> Iterator[_CutRecord]:
        """The records; those that line feeds within a field cut apart as one that is unusable."""
        waiting: _CutRecord | None = None
        while (cut := waiting or next(records, None)) is not None:
            waiting, self._lines_ahead = None, 0
            if self._has_crlf and cut.is_bare and cut.reason is None:
                cut, waiting = self._joined_record(cut, records, width)
            yield cut

    def _joined_record(
        self, first: _CutRecord, records: Iterator[_CutRecord], width: int
    ) -> tuple[_CutRecord, _CutRecord | None]:
        """The record that begins with `first`, which ends in a line feed alone, and the one behind
        it, if that was read. A whole record behind it is one of its own, unless both together would
        be one record."""
        parts, size, fields = [first], len(first.record), self._grammar.width(first.record)
        line, following = self._lines.number, None
        while parts[-1].is_bare:
            before = self._lines.number
            if (following := next(records, None)) is None:
                break
            more = 0 if following.reason is not None else self._grammar.width(following.record)
            if more == width and fields > 1:  # a whole record of its own, which was read ahead
                self._lines_ahead = self._lines.number - before
                break
            # Joined, the last field of the one and the first of the other are one field.
            fields, size = fields + more - 1, size + 1 + len(following.record)
            if size > self._limits.max_row_bytes:  # enough is kept for its text
                parts[-1] = parts[-1]._replace(is_bare=following.is_bare)
            else:
                parts.append(following)
            following = None
        while width > 1 and len(parts) > 1 and parts[-1].is_blank:
            parts.pop()
        if len(parts) == 1:
            return first, following
        why = (
            f"a line feed without a carriage return ends line {line} outside quotes, and the "
            "file's lines end in both"
        )
        return _CutRecord(b"\n".join(p.record for p in parts), why), following

    def _cut_records(self, source: Iterator[Line]) -> Iterator[_CutRecord]:
        """The records of the lines: a line without a quote is one, another may go on in the next
        lines."""
        for line in source:
            if isinstance(line, bytes) and not (self._quote and self._quote in line):
                yield self._ended_record(line.removesuffix(b"\r"), line)
            else:
                yield self._quoted_record(line, source)

    def _ended_record(self, record: bytes, last: bytes, reason: str | None = None) -> _CutRecord:
        """The record whose last line is `last`; notes how it ends."""
        is_bare = not last.endswith(b"\r")
        if not is_bare and not self._has_crlf:
            self._has_crlf = True
            # What plain records look like depends on how lines end.
            self._plain = self._plain and self._plain_records()
        return _CutRecord(record, reason, is_bare)

    def _quoted_record(self, line: Line, source: Iterator[Line]) -> _CutRecord:
        """The record that begins with this line; takes the lines that its quotes span from
        `source`."""
        parts: list[bytes] = []
        size, start, inside = 0, self._lines.number, False
        while True:
            size += line.size if isinstance(line, Oversized) else len(line)
            if isinstance(line, Oversized) or size > self._limits.max_row_bytes:
                return self._oversized_record(parts, line, inside, start, source)
            whole = line.removesuffix(b"\r")
            end = self._grammar.end_of(whole, inside)
            parts.append(whole if end is _LineEnd.RECORD else line)
            if end is _LineEnd.RECORD:
                return self._ended_record(b"\n".join(parts), line)
            if end is _LineEnd.BROKEN:
                why = f"broken quoting on line {self._lines.number}{self._start_clause(start)}"
                return self._ended_record(b"\n".join(parts), line, why)
            inside = True
            following = next(source, None)
            if following is None:
                why = (
                    f"a quote is never closed: the record takes in lines {start} to "
                    f"{self._lines.number}, the last one"
                )
                return _CutRecord(b"\n".join(parts), why)
            line, size = following, size + 1

    def _oversized_record(
        self, parts: list[bytes], line: Line, inside: bool, start: int, source: Iterator[Line]
    ) -> _CutRecord:
        """Skip to the end of a record that is too long, and keep its beginning. Each of its quotes
        counts here."""
        parts = [*parts, line.head if isinstance(line, Oversized) else line]
        head = b"\n".join(parts)[: self._limits.text_bytes]
        open_quote = inside ^ self._has_odd_quotes(line)
        while open_quote:
            following = next(source, None)
            if following is None:
                break
            open_quote ^= self._has_odd_quotes(following)
        never = " and a quote in it is never closed" if open_quote else ""
        why = (
            f"longer than the limit of {self._limits.max_row_bytes} bytes{never}; ends on line "
            f"{self._lines.number}"
        )
        return _CutRecord(head, why + self._start_clause(start))

    def _start_clause(self, start: int) -> str:
        """Words about the line where a record starts; empty if that is the line at hand."""
        return "" if start == self._lines.number else f" of a record that starts on line {start}"

    def _has_odd_quotes(self, line: Line) -> bool:
        """Whether a line opens or closes a quote in all."""
        if not self._quote:
            return False
        quotes = line.quotes if isinstance(line, Oversized) else line.count(self._quote)
        return bool(quotes % 2)

    def _split_fields(self, cut: _CutRecord) -> list[str]:
        """Split a record into fields; raises BadRecord with the reason."""
        if cut.reason is not None:
            raise BadRecord(cut.reason)
        refuse_mark(cut.record)
        try:
            text = cut.record.decode()
        except UnicodeDecodeError as error:
            raise BadRecord(self._dialect.undecodable(cut.record, error, "record")) from None
        if "\0" in text:
            raise BadRecord(f"a NUL byte at character {text.index(chr(0)) + 1}")
        has_quotes = self._quote and self._quote in cut.record
        if "\r" in text and not has_quotes:
            raise BadRecord("a carriage return outside quotes")
        return self._grammar.fields(text)

    def _read_plain(self, stretch: bytes) -> Mapping[str, pa.Array] | None:
        """Read plain records into text columns; None if pyarrow refuses them, or a number is of
        another form."""
        names = list(self._names.known)
        try:
            table = pc.read_csv(
                pa.BufferReader(stretch),
                read_options=pc.ReadOptions(
                    use_threads=False, column_names=names, block_size=len(stretch) + 1
                ),
                parse_options=pc.ParseOptions(
                    delimiter=self._dialect.separator,
                    quote_char=self._dialect.quote or False,
                    newlines_in_values=bool(self._quote),
                    ignore_empty_lines=False,
                ),
                convert_options=pc.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        (batch,) = table.combine_chunks().to_batches()
        columns = dict(zip(table.column_names, batch.columns, strict=True))
        for name in self._numbers.values():
            if not self._are_numbers(columns[name]):
                return None  # each record is judged alone
            columns[name] = self._plain_numbers(columns[name])
        return columns

    def _plain_numbers(self, column: pa.Array) -> pa.Array:
        """The numbers of a column with a point and without signs between thousands."""
        if self._dialect.thousands:
            column = compute.replace_substring(column, self._dialect.thousands, "")
        return compute.replace_substring(column, self._dialect.decimal, ".")

    def _are_numbers(self, column: pa.Array) -> bool:
        """Whether every field of a column is a number as `Dialect.as_number` takes one."""
        if (compute.max(compute.utf8_length(column)).as_py() or 0) > MOST_SIGNS:
            return False
        fits = compute.match_substring_regex(column, rf"\A(?:{self._dialect.number})\z")
        return bool(compute.all(fits).as_py())
