"""From bytes to lines: every line once, whatever the blocks, and no file that grows without bound.

Lives here: line cutting, byte order marks, gzip and its bombs. Does not live here: what a line
means.
"""

import gzip
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.intake.text_lines import Limits, Oversized, Unreadable, text_lines

TEXT = b"alpha\nbeta\r\n\ngamma"


def lines(content: bytes, limits: Limits | None = None) -> list[bytes | Oversized]:
    limits = limits or Limits()
    blocks = (
        content[i : i + limits.block_bytes] for i in range(0, len(content), limits.block_bytes)
    )
    return list(text_lines(blocks, len(content), limits))


@given(st.binary(max_size=60), st.integers(1, 20), st.booleans())
def test_lines_do_not_depend_on_blocks_or_compression(
    content: bytes, block_bytes: int, packed: bool
) -> None:
    content = b"head\n" + content
    expected = content.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    data = gzip.compress(content) if packed else content
    assert lines(data, Limits(block_bytes=block_bytes)) == expected


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 9))
def test_a_long_line_is_counted_in_full_and_kept_in_part(
    sizes: list[int], block_bytes: int
) -> None:
    limits = Limits(max_row_bytes=10, text_bytes=4, block_bytes=block_bytes)
    content = b"".join(b'"' * n + b"\n" for n in sizes)
    found = lines(content, limits)
    assert [line.size if isinstance(line, Oversized) else len(line) for line in found] == sizes
    long = [line for line in found if isinstance(line, Oversized)]
    assert [line.quotes for line in long] == [n for n in sizes if n > 10]
    assert all(line.head == b'""""' for line in long)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_other_encodings_are_named_rather_than_guessed(encoding: str) -> None:
    with pytest.raises(Unreadable, match="UTF-16 or UTF-32"):
        lines(
            "\ufeffid\n1\n".encode(encoding)
            if encoding.endswith("be")
            else "id\n1\n".encode(encoding)
        )


@pytest.mark.parametrize("block_bytes", [1, 12, 4096])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_long_line_is_long_with_and_without_its_line_feed(block_bytes: int, end: bytes) -> None:
    limits = Limits(max_row_bytes=10, block_bytes=block_bytes)
    short, long = lines(b"x" * 10 + b"\n" + b'y"' * 6 + end, limits)
    assert short == b"x" * 10
    assert isinstance(long, Oversized)
    assert (long.size, long.quotes) == (12, 6)


def test_members_follow_one_another_and_zeros_behind_them_are_padding() -> None:
    assert lines(gzip.compress(b"a\nb") + gzip.compress(b"c\n") + bytes(512)) == [b"a", b"bc"]
    assert lines(gzip.compress(b"")) == []


def every_cut() -> Iterator[int]:
    yield from range(2, len(gzip.compress(TEXT)))


@pytest.mark.parametrize("block_bytes", [1, 7, 4096])
def test_gzip_cut_anywhere_is_unreadable(block_bytes: int) -> None:
    for cut in every_cut():
        with pytest.raises(Unreadable, match="cut off"):
            lines(gzip.compress(TEXT)[:cut], Limits(block_bytes=block_bytes))


@pytest.mark.parametrize(
    "garbage", [b"x", b"\x1f", b"\0\0trailing", gzip.compress(b"second", mtime=0)[:-1]]
)
def test_bytes_behind_the_gzip_data_are_unreadable(garbage: bytes) -> None:
    with pytest.raises(Unreadable):
        lines(gzip.compress(TEXT) + garbage)


def test_any_flipped_bit_in_the_data_is_found_by_the_checksum() -> None:
    whole = bytearray(gzip.compress(os.urandom(200)))
    for position in range(10, len(whole)):
        broken = bytearray(whole)
        broken[position] ^= 1
        with pytest.raises(Unreadable):
            lines(bytes(broken))


def test_a_bomb_is_refused_by_ratio_only_above_the_floor() -> None:
    packed = gzip.compress(b"x\n" * 50_000)
    assert len(lines(packed)) == 50_000
    for block_bytes in (100, 1 << 20):
        with pytest.raises(Unreadable, match="bomb"):
            lines(packed, Limits(bomb_floor_bytes=50_000, max_ratio=50, block_bytes=block_bytes))


def test_a_file_is_refused_above_the_absolute_limit() -> None:
    for content in (TEXT, gzip.compress(TEXT)):
        with pytest.raises(Unreadable, match="limit of 10"):
            lines(content, Limits(max_bytes=10))
