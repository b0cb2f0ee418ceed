"""From the bytes of a landed file to its physical lines, with a bound on all that a hostile file
could make grow.

Not here: the meaning of a line (`json_lines`, `csv_records`) and opening the file (`files`). The
first two bytes decide whether a file is gzip, never its name: no text file can start with them,
because the second is not UTF-8.
"""

import codecs
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

GZIP_MAGIC = b"\x1f\x8b"
BYTES_PER_BAD_ROW = 4
UTF8_MARK = b"\xef\xbb\xbf"
OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


@dataclass(frozen=True)
class Limits:
    """Bounds on a landed file. The first group decides which rows are refused, the second only how
    a file is read."""

    # the longest event of our sources has 40 KiB; a row must fit many times into memory
    max_row_bytes: int = 1 << 20
    max_bytes: int = 8 << 30  # after decompression: a day of more text should come in several files
    max_ratio: int = 250  # logs compress 10 to 100 fold, deflate ends at 1,032 fold
    bomb_floor_bytes: int = 64 << 20  # from which on the ratio counts
    # Levels of JSON: MongoDB's bound, far below where Python's own parser gives up.
    max_depth: int = 100
    max_columns: int = 2_000  # beyond it Spark's generated code no longer compiles well
    # of 4,096 rows of Parquet, which Spark decodes at once: a quarter of its heap
    max_window_bytes: int = 256 << 20
    # And one for every 4 bytes of a file: 65 kB of gzip can hold 33 million.
    max_bad_rows: int = 100_000
    text_bytes: int = 8 << 10  # kept of an unusable record: enough to find it in the landed file

    # At most some 100 MB of Python objects, whatever the file; larger batches are slower, because
    # Python's garbage collector walks over all waiting rows (measured).
    block_bytes: int = 256 << 10
    batch_rows: int = 512
    batch_bytes: int = 8 << 20
    batch_cells: int = 1_000_000
    # the least for a call of pyarrow, which costs as much as parsing 50 rows here
    plain_bytes: int = 16 << 10

    def deciding(self) -> tuple[int, ...]:
        """The limits that decide over rows, in a fixed order; a stored copy is valid only under
        equal ones."""
        return (
            self.max_row_bytes,
            self.max_bytes,
            self.max_ratio,
            self.bomb_floor_bytes,
            self.max_depth,
            self.max_columns,
            self.max_window_bytes,
            self.max_bad_rows,
            self.text_bytes,
        )

    def flood(self, bad_rows: int, size: int) -> str | None:
        """The reason to refuse a file of `size` bytes for its number of unusable rows; None within
        the bound."""
        most = self.max_bad_rows + size // BYTES_PER_BAD_ROW
        if bad_rows <= most:
            return None
        return f"more than {most} of its rows are unusable: too many to keep each"


class Unreadable(Exception):
    """The file cannot be used as a whole; the text is the reason in the ledger. Never shown as a
    failure."""


@dataclass
class Oversized:
    """The beginning of a physical line longer than the limit, its size in bytes and its number of
    quotes."""

    head: bytes
    size: int = 0
    quotes: int = 0
    quote: bytes = b'"'  # empty: there is none

    def extend(self, piece: bytes) -> None:
        """Count a further piece of the line."""
        self.size += len(piece)
        self.quotes += piece.count(self.quote) if self.quote else 0


Line = bytes | Oversized


class HashedReader:
    """The first `size` bytes behind a descriptor, hashed as they are read: a file that grows has no
    end."""

    def __init__(self, descriptor: int, block_bytes: int, size: int) -> None:
        """`size`: the bytes to read at most."""
        self._descriptor, self._block_bytes, self._left = descriptor, block_bytes, size
        self._digest = hashlib.sha256()

    def blocks(self) -> Iterator[bytes]:
        """Yield the remaining bytes in blocks that are never empty."""
        while block := os.read(self._descriptor, min(self._block_bytes, self._left)):
            self._left -= len(block)
            self._digest.update(block)
            yield block

    def sha256(self) -> str:
        """The SHA-256 of all of them; reads the rest if a parser gave up early."""
        for _ in self.blocks():
            pass
        return self._digest.hexdigest()


class TextLines:
    """The physical lines of blocks of bytes, without their line feed; a last one without line feed
    counts.

    `number` counts the lines so far. Between two lines, a parser may take whole lines from the
    front of the buffer by itself (`ahead`, `skip`).
    """

    def __init__(self, blocks: Iterator[bytes], limits: Limits, quote: bytes = b'"') -> None:
        """`quote`: the sign that is counted in lines that are too long; empty: none is."""
        # `_at`: where the next line begins in the buffer; `_utf8_end`: as far as it is valid UTF-8.
        self._blocks, self._limits, self._quote = blocks, limits, quote
        self._buffer, self._at, self._utf8_end = b"", 0, 0
        self.number = 0

    def __iter__(self) -> Iterator[Line]:
        while True:
            start, end = self._at, self._buffer.find(b"\n", self._at)
            if end < 0:
                line = self._line_across_blocks()
                if line is None:
                    return
                self.number += 1
                yield line
                continue
            self._at = end + 1
            self.number += 1
            yield self._within_limit(self._buffer[start:end])

    def ahead(self, pattern: re.Pattern[bytes]) -> bytes:
        """The match of `pattern` at the front of the buffer: valid UTF-8, at most max_row_bytes, no
        byte order mark."""
        has_line = self._buffer.find(b"\n", self._at) >= 0
        if not has_line and len(self._buffer) - self._at < self._limits.max_row_bytes:
            self._buffer = self._buffer[self._at :] + next(self._blocks, b"")
            self._at = self._utf8_end = 0
        start, end = self._at, min(len(self._buffer), self._at + self._limits.max_row_bytes)
        if self._utf8_end <= start < end:
            self._utf8_end = start + _utf8_length(memoryview(self._buffer)[start:])
        if self._buffer.startswith(UTF8_MARK, start):
            return b""
        found = pattern.match(self._buffer, start, min(end, self._utf8_end))
        return found[0] if found else b""

    def skip(self, stretch: bytes) -> None:
        """Drop the whole lines that `ahead` returned."""
        self._at += len(stretch)
        self.number += stretch.count(b"\n")

    def _line_across_blocks(self) -> Line | None:
        """The line from the end of the buffer into the next blocks; None after the last line."""
        line = self._within_limit(self._buffer[self._at :])
        self._buffer, self._at, self._utf8_end = b"", 0, 0  # in case that the last line is it
        for block in self._blocks:
            end = block.find(b"\n")
            piece = block if end < 0 else block[:end]
            if isinstance(line, Oversized):
                line.extend(piece)
            else:
                line = self._within_limit(line + piece)
            if end >= 0:
                self._buffer, self._at = block, end + 1
                return line
        return line or None

    def _within_limit(self, line: bytes) -> Line:
        """The line, or its beginning where it is longer than a row may be."""
        if len(line) <= self._limits.max_row_bytes:
            return line
        found = Oversized(line[: self._limits.text_bytes], quote=self._quote)
        found.extend(line)
        return found


def _utf8_length(text: memoryview) -> int:
    """The length of the longest beginning that is valid UTF-8."""
    try:
        return codecs.utf_8_decode(text, "strict", False)[1]
    except UnicodeDecodeError as error:
        return error.start


def head_and_blocks(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first four bytes or more, as far as there are any, and all blocks."""
    head = b""
    while len(head) < 4 and (block := next(blocks, b"")):
        head += block
    return head, chain([head], blocks)


def without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks of UTF-8 without a byte order mark. Raises Unreadable for that of another
    encoding."""
    head, blocks = head_and_blocks(blocks)
    if head.startswith(OTHER_MARKS):
        raise Unreadable("its byte order mark says UTF-16 or UTF-32; only UTF-8 is read")
    next(blocks)
    yield head.removeprefix(UTF8_MARK)
    yield from blocks


def text_lines(
    raw: Iterator[bytes],
    size: int,
    limits: Limits,
    read: Callable[[Iterator[bytes]], Iterator[bytes]] = without_mark,
    quote: bytes = b'"',
) -> TextLines:
    """The physical lines of a file of `size` bytes; `read` gives its unpacked blocks in UTF-8,
    without a mark.

    Raises Unreadable for broken gzip, decompression bombs, too large files, and what `read` raises.
    """
    head, blocks = head_and_blocks(raw)
    if head.startswith(GZIP_MAGIC):
        blocks = _unzipped_blocks(blocks, size, limits)
    elif size > limits.max_bytes:
        raise Unreadable(f"the file has {size} bytes, more than the limit of {limits.max_bytes}")
    return TextLines(read(blocks), limits, quote)


def _unzipped_blocks(raw: Iterable[bytes], size: int, limits: Limits) -> Iterator[bytes]:
    """Decompress all gzip members in turn; zero bytes after a member are padding, as for GNU
    gzip."""
    total, members, member = 0, 0, zlib.decompressobj(wbits=31)
    started = False
    for block in raw:
        while block:
            is_between_members = members > 0 and not started
            if is_between_members:
                block = block.lstrip(b"\0")
                if not block:
                    break
            started = True
            try:
                for piece in _inflated_pieces(member, block, limits.block_bytes):
                    total += len(piece)
                    _refuse_bomb(total, size, limits)
                    yield piece
            except zlib.error as error:
                where = "its gzip data is broken"
                if members:
                    where = "after its end it has bytes that are no gzip"
                raise Unreadable(f"{where} ({error})") from None
            block = member.unused_data
            if member.eof:
                members, member, started = members + 1, zlib.decompressobj(wbits=31), False
    if started:
        raise Unreadable("its gzip data ends too early: it was cut off")


def _inflated_pieces(member: "zlib._Decompress", block: bytes, most: int) -> Iterator[bytes]:
    """Decompress a block of a member into pieces of at most `most` bytes."""
    while True:
        piece = member.decompress(block, most)
        if piece:
            yield piece
        block = member.unconsumed_tail
        # A full piece may leave output inside zlib even when it has taken all input.
        if member.eof or (not block and len(piece) < most):
            return


def _refuse_bomb(total: int, size: int, limits: Limits) -> None:
    """Raise Unreadable where a file of `size` bytes gave `total` unpacked ones, more than it
    may."""
    if total > limits.max_bytes:
        raise Unreadable(f"it decompresses to more than the limit of {limits.max_bytes} bytes")
    if total > limits.bomb_floor_bytes and total > limits.max_ratio * size:
        raise Unreadable(f"it decompresses more than {limits.max_ratio} fold: a decompression bomb")
