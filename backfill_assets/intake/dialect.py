"""How the text files of a source are written: separator, quote, forms of numbers, encoding, lines
around the records.

Not here: records (`csv_records`, `json_lines`), physical lines and gzip (`text_lines`). Nothing is
tried in a second way: what does not fit the declared one is an unusable row, or makes the whole
file unreadable, by name.
"""

import codecs
import io
import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, BinaryIO, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from backfill_assets.intake.batches import BadRecord, ColumnNames, quoted_text
from backfill_assets.intake.text_lines import (
    UTF8_MARK,
    Limits,
    Line,
    Oversized,
    TextLines,
    Unreadable,
    head_and_blocks,
    text_lines,
    without_mark,
)

# Names of Python's codecs. A search for a forgotten name knows these (`erasure.traces`), and no
# others.
SINGLE_BYTE, WIDE = ("iso8859-1", "cp1252"), ("utf-16", "utf-16-le", "utf-16-be")
MARKS = {
    UTF8_MARK: "utf-8",
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
# Of a number with its blanks; engines take quadratic time over the digits of a long one.
MOST_SIGNS = 1_000
ANY_LINE = "\x01\x02\x03"  # fits a glob of wildcards alone, which could take a row


class Dialect(BaseModel):
    """How text files are written; what is left out is as RFC 4180 has it, in UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    separator: str = ","  # one ASCII sign
    # One ASCII sign; empty: none, so that no field holds the separator or a line feed.
    quote: str = '"'
    # With a byte order mark or without; or latin-1, cp1252, utf-16 (with a mark), -le, -be.
    encoding: str = "utf-8"
    names: tuple[str, ...] = ()  # of the columns of files without a header
    # a glob for each line before the header
    preamble: tuple[str, ...] = Field(default=(), max_length=100)
    # and for each line behind the last record
    trailer: tuple[str, ...] = Field(default=(), max_length=100)
    numbers: tuple[str, ...] = ()  # columns of numbers
    decimal: str = "."  # before their fraction
    thousands: str = ""  # between groups of three of their digits

    @field_validator("separator", "quote")
    @classmethod
    def _check_sign(cls, value: str) -> str:
        if len(value) > 1 or not value.isascii() or value.isalnum() or value in ("\n", "\r", "\0"):
            raise ValueError("it is one ASCII sign that is no letter, digit or end of a line")
        return value

    @field_validator("decimal", "thousands")
    @classmethod
    def _check_number_sign(cls, value: str) -> str:
        if len(value) > 1 or re.match(r"[\w+\n\r\0-]", value):
            raise ValueError("it is one sign that is no letter, digit, + or -")
        return value

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, value: str) -> str:
        """Python's own name of an encoding that is read; raises ValueError for others."""
        try:
            name = codecs.lookup(value).name.removesuffix("-sig")
        except (LookupError, ValueError):
            name = ""
        if name not in ("utf-8", *SINGLE_BYTE, *WIDE):
            raise ValueError("it is one of utf-8, latin-1, cp1252, utf-16, utf-16-le, utf-16-be")
        return name

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        """Raise ValueError where one key makes another one mean nothing, or take rows."""
        if not self.separator or self.separator == self.quote:
            raise ValueError("separator: it is one sign, and not that of quotes")
        if not self.decimal or self.decimal == self.thousands:
            raise ValueError("decimal: it is one sign, and not that between thousands")
        if not self.numbers and self.has_own_numbers:
            raise ValueError(
                "numbers: decimal and thousands need the columns that hold such numbers"
            )
        try:
            ColumnNames(Limits()).admit(self.names)
        except BadRecord as error:
            raise ValueError(f"names: {error}") from None
        # With a header, a preamble that took a row would be found out by it.
        beside_rows = (*self.trailer, *self.preamble) if self.names else self.trailer
        wide = [glob for glob in beside_rows if fnmatchcase(ANY_LINE, glob)]
        if wide:
            raise ValueError(
                f"{wide[0]!r} would take any row for a line around the rows: say how that line "
                "begins"
            )
        return self

    @property
    def declared(self) -> dict[str, Any]:
        """What is not as RFC 4180 has it, for digests and records; empty for plain files."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def has_own_numbers(self) -> bool:
        """Whether numbers are written otherwise than with a point alone."""
        return (self.decimal, self.thousands) != (".", "")

    @cached_property
    def number(self) -> str:
        """The regular expression (of Python and RE2) of a number, or of a field without one. Blanks
        behind belong to the number alone, so that Python reads a field of blanks once: it tries
        each split between two patterns."""
        point, comma = re.escape(self.decimal), re.escape(self.thousands)
        whole = rf"[0-9]+|[0-9]{{1,3}}(?:{comma}[0-9]{{3}})+" if comma else "[0-9]+"
        return rf" *(?:[+-]?(?:(?:{whole})(?:{point}[0-9]+)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)? *)?"

    def as_number(self, column: str, text: str) -> str:
        """The number with `.` and without signs between thousands. Raises BadRecord where it is
        none of this form."""
        if len(text) > MOST_SIGNS:
            raise BadRecord(
                f"{column} has {len(text):,} signs, and a number has {MOST_SIGNS:,} at most"
            )
        if re.fullmatch(self.number, text) is None:
            form = f"{self.decimal!r} before its fraction"
            if self.thousands:
                form += f", {self.thousands!r} between thousands"
            raise BadRecord(f"{column} is {quoted_text(text)}, which is no number with {form}")
        if self.thousands:
            text = text.replace(self.thousands, "")
        return text.replace(self.decimal, ".")

    def grouped(self, text: str) -> str:
        """A whole number in digits as files may write it; another text as it is."""
        is_long_number = re.fullmatch("-?[1-9][0-9]{3,37}", text) is not None
        if not self.thousands or not is_long_number:
            return text
        return f"{int(text):,}".replace(",", self.thousands)

    def undecodable(self, record: bytes, error: UnicodeDecodeError, of: str) -> str:
        """Why a record (`of`: what it is called) is no text."""
        byte = f"byte 0x{record[error.start]:02x}"
        if self.encoding == "utf-8":
            return f"not UTF-8: {byte} at byte {error.start + 1} of the {of}"
        what = "half of a surrogate pair" if self.encoding in WIDE else byte
        before = len(record[: error.start].decode(errors="replace"))
        return f"not {self.encoding}: {what} at character {before + 1} of the {of}"

    def lines(self, raw: Iterator[bytes], size: int, limits: Limits) -> TextLines:
        """The physical lines of a file of `size` bytes in UTF-8, without the trailer.

        Raises Unreadable as `text_lines` does, and where mark, end or trailer are not as declared.
        """
        return text_lines(
            raw,
            size,
            limits,
            lambda blocks: self._without_trailer(self._in_utf8(blocks), limits),
            self.quote.encode(),
        )

    def after_preamble(self, lines: Iterator[Line]) -> Iterator[Line]:
        """The lines behind the preamble. Raises Unreadable where a line of it is another one."""
        for number, glob in enumerate(self.preamble, 1):
            _refuse_other_line(f"line {number}", next(lines, None), glob, "preamble")
        return lines

    def kept_lines(self, raw: BinaryIO, dropped: Collection[int]) -> Iterator[bytes]:
        """An unpacked file as it is, without some of its physical lines (from 0, as in `lines`); a
        mark stays."""
        if self.encoding not in WIDE:
            yield from (line for number, line in enumerate(raw) if number not in dropped)
            return
        mark = raw.read(2)
        if mark in MARKS:
            yield mark
        else:
            raw.seek(0)
        codec = MARKS.get(mark, self.encoding)
        for number, line in enumerate(io.TextIOWrapper(raw, codec, "surrogatepass", newline="\n")):
            if number not in dropped:
                yield line.encode(codec, "surrogatepass")

    def _in_utf8(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks in UTF-8. What cannot be decoded becomes bytes that are no UTF-8 either."""
        if self.encoding == "utf-8":
            yield from without_mark(blocks)
            return
        head, blocks = head_and_blocks(blocks)
        mark = next((name for sign, name in MARKS.items() if head.startswith(sign)), "")
        if mark and not mark.startswith(self.encoding):
            raise Unreadable(f"its byte order mark says {mark}, and not {self.encoding}")
        if self.encoding == "utf-16" and not mark and head:
            raise Unreadable("it has no byte order mark: name utf-16-le or utf-16-be as encoding")
        # Bytes that Windows-1252 has not are no beginnings of UTF-8, and halves of pairs are not
        # allowed in it.
        errors = "surrogatepass" if self.encoding in WIDE else "surrogateescape"
        decoder = codecs.getincrementaldecoder(mark or self.encoding)(errors)
        try:
            for number, block in enumerate(blocks):
                text = decoder.decode(block)
                if mark and number == 0:
                    text = text.removeprefix("\ufeff")
                yield text.encode("utf-8", errors)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            raise Unreadable(
                f"it ends within a character of {self.encoding}: it was cut off"
            ) from None

    def _without_trailer(self, blocks: Iterator[bytes], limits: Limits) -> Iterator[bytes]:
        """The blocks without the last lines, which must be those of the trailer."""
        if not self.trailer:
            yield from blocks
            return
        waiting, many = b"", len(self.trailer)
        for block in blocks:
            waiting += block
            at = len(waiting)
            for _ in range(many + 1):  # the last line may go on, and the trailer is before it
                at = waiting.rfind(b"\n", 0, max(at, 0))
            if at >= 0:
                yield waiting[: at + 1]
                waiting = waiting[at + 1 :]
            elif len(waiting) > (many + 1) * limits.max_row_bytes:
                raise Unreadable(
                    f"a line is longer than {limits.max_row_bytes} bytes, where the last {many} "
                    "are its trailer"
                )
        lines = waiting.split(b"\n")
        rest, last = _split_off_last(lines[:-1] if lines[-1] == b"" else lines, many)
        for number, (line, glob) in enumerate(zip(last, self.trailer, strict=True)):
            is_last = number == many - 1
            where = "the last line" if is_last else f"line {many - number} from the end"
            _refuse_other_line(where, line, glob, "trailer")
        if rest:
            yield b"\n".join(rest) + b"\n"


PLAIN_TEXT = Dialect()


def _split_off_last(
    lines: Sequence[bytes], last: int
) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
    """The lines before the last ones, and these; None for each that is missing."""
    missing, first = max(0, last - len(lines)), max(0, len(lines) - last)
    return lines[:first], [*([None] * missing), *lines[first:]]


def _refuse_other_line(where: str, line: Line | None, glob: str, key: str) -> None:
    """Raise Unreadable unless the line (None: there is none) fits the glob that `key` of the
    dialect has for it; `where`: what the line is called."""
    if line is None:
        raise Unreadable(f"{where} is missing: {key} says {quoted_text(glob)}")
    shown_bytes = line.head if isinstance(line, Oversized) else line
    text = shown_bytes.removesuffix(b"\r").decode(errors="backslashreplace")
    if not fnmatchcase(text, glob):
        raise Unreadable(f"{where} is {quoted_text(text)}, and {key} says {quoted_text(glob)}")
