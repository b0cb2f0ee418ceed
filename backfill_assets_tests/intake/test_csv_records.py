"""Which records are usable, where a broken one ends, and which headers make a file unreadable.

Lives here: CSV, by example and as a property over any mixture. Does not live here: long lines and
gzip as bytes (`test_text_lines.py`).
"""

import gzip
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.intake.csv_records import CsvRecords
from backfill_assets.intake.dialect import Dialect
from backfill_assets.intake.text_lines import Limits, TextLines
from backfill_assets_tests.landed import (
    bad_rows,
    good_rows,
    parse,
    parsed_rows,
    small,
    stock_rows,
    take_in,
)

UNUSABLE = {
    "a field too few": (b"1", "1 fields where the header has 2"),
    "a field too many": (b"1,2,3", "3 fields where the header has 2"),
    "blanks only": (b"  ", "1 fields"),
    "a quote inside a field": (b'5" pipe,1', "broken quoting on line 3"),
    "text behind a closing quote": (b'"a"b,1', "broken quoting on line 3"),
    "blank before a quote": (b'1, "a"', "broken quoting on line 3"),
    "escaped by a backslash": (rb'"a\"b",1', "broken quoting on line 3"),
    "a broken quote on its second line": (
        b'"a\nb"c,1',
        "broken quoting on line 4 of a record that starts on line 3",
    ),
    "a NUL byte": (b"a\x00,1", "a NUL byte at character 2"),
    "a NUL byte in quotes": (b'"a\x00",1', "a NUL byte at character 3"),
    "invalid UTF-8": (b"caf\xe9,1", "not UTF-8: byte 0xe9 at byte 4"),
    "invalid UTF-8 in quotes": (b'"\xff",1', "not UTF-8"),
    "a carriage return inside": (b"a\rb,1", "carriage return"),
    "a carriage return beside quotes": (b'"a",b\rc', "broken quoting"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_record_is_kept_with_its_reason_and_its_neighbours_are_used(
    tmp_path: Path, name: str
) -> None:
    record, reason = UNUSABLE[name]
    intake = take_in(tmp_path, "a.csv", b"k,v\nx,1\n" + record + b"\ny,2\n")
    found = bad_rows(intake)
    assert list(found) == [2]
    assert reason in found[2]
    assert good_rows(intake) == [{"k": "x", "v": "1"}, {"k": "y", "v": "2"}]


def test_a_quote_never_closed_is_one_bad_record_that_names_all_its_lines(tmp_path: Path) -> None:
    intake = take_in(tmp_path, "a.csv", b'k,v\n1,2\n3,"4\n5,6\n7,8\n')
    assert good_rows(intake) == [{"k": "1", "v": "2"}]
    assert bad_rows(intake) == {
        2: "a quote is never closed: the record takes in lines 3 to 5, the last one"
    }
    assert stock_rows(intake)[1]["__bad_text"] == '3,"4\n5,6\n7,8'


LIMITS = Limits(max_row_bytes=20, text_bytes=8)
TOO_LONG = {
    "one long line": (b"x" * 30 + b",1", "ends on line 3"),
    "one long line with quotes": (b'"' + b"x" * 30 + b'",1', "ends on line 3"),
    "quotes over many lines": (
        b'"' + b"1,2\n" * 8 + b'",1',
        "ends on line 11 of a record that starts on line 3",
    ),
    "a long line inside quotes": (b'"a\n' + b"x" * 30 + b'""\n""\n1,2\n",1', "ends on line 7"),
    "a long line that opens quotes": (b"x" * 30 + b',"\n1,2\n",', "ends on line 5"),
}


@pytest.mark.parametrize("name", TOO_LONG)
@pytest.mark.parametrize("block_bytes", [1, 5, 1000])
def test_a_record_beyond_the_limit_is_one_bad_record_to_its_end(
    name: str, block_bytes: int
) -> None:
    record, reason = TOO_LONG[name]
    limits = small(LIMITS, block_bytes, 100)
    batches = parse(CsvRecords(limits), b"k,v\nx,1\n" + record + b"\ny,2\n", limits)
    (_, first), (_, found), (_, last) = parsed_rows(batches)
    assert (first, last) == ({"k": "x", "v": "1"}, {"k": "y", "v": "2"})
    assert isinstance(found, str)
    assert found.startswith("longer than the limit of 20 bytes; ")
    assert reason in found
    assert all(len(text) <= 8 for b in batches for text, _ in b.bad.values())


UNREADABLE_HEADERS = {
    "an empty file": (b"", "no header"),
    "a mark only": (b"\xef\xbb\xbf", "no header"),
    "a blank first line": (b"\nk,v\n", "blank name"),
    "a blank name": (b"k,,v\n1,2,3\n", "blank name"),
    "a trailing comma": (b"k,v,\n1,2,\n", "blank name"),
    "a duplicate": (b"k,v,k\n1,2,3\n", "'k' occurs twice"),
    "a duplicate in another case": (b"k,v,K\n1,2,3\n", "'K' occurs twice"),
    "a reserved name": (b"k,__bad_text\n1,2\n", "reserved"),
    "not UTF-8": (b"k,caf\xe9\n1,2\n", "not UTF-8"),
    "a NUL byte": (b"k,\x00\n1,2\n", "NUL"),
    "broken quoting": (b'k,"v"x\n1,2\n', "broken quoting"),
    "an open quote": (b'k,"v\n1,2\n', "never closed"),
    "old line ends": (b"k,v\r1,2\r", "carriage return"),
    "too many columns": (b",".join(b"c%d" % i for i in range(2001)), "more than 2000 columns"),
    "too long": (b"k" * (2 << 20), "longer than the limit"),
}


@pytest.mark.parametrize("name", UNREADABLE_HEADERS)
def test_a_header_that_cannot_be_used_makes_the_file_unreadable(tmp_path: Path, name: str) -> None:
    content, reason = UNREADABLE_HEADERS[name]
    intake = take_in(tmp_path, "a.csv", content)
    assert (intake.rows, intake.bad_rows) == (1, 1)
    assert intake.refused is not None
    assert reason in intake.refused


@pytest.mark.slow
def test_quotes_take_linear_time_however_they_are_arranged() -> None:
    limits = Limits()
    for hostile in (
        b'""' * 90_000,
        b'"",' * 90_000 + b'"x',
        b'"\n' + b'""\n' * 90_000,
        b'"a"' * 90_000,
    ):
        rows = parsed_rows(parse(CsvRecords(limits), b"k,v\n" + hostile, limits))
        assert all(isinstance(found, str) for _, found in rows)


fields = st.text(st.sampled_from('ab,"\n\r é'), max_size=6)
usable = st.lists(fields, min_size=2, max_size=2)
unusable = st.sampled_from([record for record, _ in UNUSABLE.values()])


@given(
    st.lists(st.one_of(usable, unusable), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
    st.integers(1, 5),
    st.booleans(),
)
def test_any_mixture_gives_every_record_once_in_order_whatever_the_batches(
    items: list[list[str] | bytes], end: str, block_bytes: int, batch_rows: int, quote_all: bool
) -> None:
    content = b"k,v\n" + b"".join(_written(i, end, quote_all) for i in items)
    limits = small(Limits(), block_bytes, batch_rows)
    rows = parsed_rows(parse(CsvRecords(limits), content, limits))
    assert [n for n, _ in rows] == list(range(1, len(items) + 1))
    for (_, found), written in zip(rows, items, strict=True):
        assert (
            isinstance(found, str)
            if isinstance(written, bytes)
            else found == {"k": written[0], "v": written[1]}
        )


def _written(item: list[str] | bytes, end: str, quote_all: bool) -> bytes:
    """After RFC 4180; Python's own writer leaves a carriage return unquoted."""
    if isinstance(item, bytes):
        return item + end.encode()
    quoted = [
        f'"{f.replace(chr(34), chr(34) * 2)}"' if quote_all or set(f) & set(',"\r\n') else f
        for f in item
    ]
    return (",".join(quoted) + end).encode()


PLAIN_ONLY, NEVER_PLAIN = (
    1,
    1 << 40,
)  # of `Limits.plain_bytes`: pyarrow reads all that it may, or nothing
AWKWARD = [
    *(record + b"\n" for record, _ in UNUSABLE.values()),
    *(record + b"\n" for record, _ in TOO_LONG.values()),
    b"\n",
    b"\r\n",
    b"\xef\xbb\xbf1,2\n",
    b"a,b\n" * 3,
    b'"a""\r\n\n""",""\r\n',
    b",\n",
    '"é",\U0001f600\n'.encode(),
    b"x\xc3",
    b'"',
    b"1,2,\n",
    b'1,"1.234,5"\n' * 2,
    b"1,1.234\n" * 2,
    '1\u202f000,"1,5"\n'.encode(),
    b"1.2345,12.34\n",
]
DIALECTS = [
    Dialect(),
    Dialect(separator=";", quote="'"),
    Dialect(separator="\t", quote=""),
    Dialect(separator=" ", names=("a", "b")),
    Dialect(separator="|", numbers=("V", "w"), decimal=",", thousands="."),
    Dialect(numbers=("k",), thousands="\u202f"),
]
BYTES = [bytes([b]) for b in b'",\r\n\x00\xff\xc3\xa9 a'] + [b""]


@given(
    st.sampled_from([b"k", b"k,v", b'"k",v,"w,x"']),
    st.lists(st.sampled_from(AWKWARD), max_size=12),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from(BYTES)), max_size=4),
    st.sampled_from([1, 7, 40, 10_000]),
    st.sampled_from([20, 60, 1 << 20]),
    st.sampled_from(DIALECTS),
)
def test_pyarrow_reads_no_record_otherwise_than_our_own_parser(
    header: bytes,
    records: list[bytes],
    edits: list[tuple[int, bytes]],
    block_bytes: int,
    max_row_bytes: int,
    dialect: Dialect,
) -> None:
    body = b"".join(records)
    for place, piece in edits:
        body = body[:place] + piece + body[place + 1 :]
    signs = (dialect.separator + (dialect.quote or '"')).encode()
    content = (header + b"\n" + body).translate(bytes.maketrans(b',"' + signs, signs + b',"'))
    limits = Limits(block_bytes=block_bytes, max_row_bytes=max_row_bytes, batch_rows=5)
    found = [
        read_all(content, replace(limits, plain_bytes=p), dialect)
        for p in (PLAIN_ONLY, NEVER_PLAIN)
    ]
    assert found[0] == found[1]


def read_all(content: bytes, limits: Limits, dialect: Dialect) -> list[tuple[int, object]]:
    """Every record: its number, and its values, or the text and the reason of an unusable one."""
    batches = parse(CsvRecords(limits, dialect), content, limits, dialect)
    kept = {b.first + i: bad for b in batches for i, bad in b.bad.items()}
    return [(n, kept.get(n, found)) for n, found in parsed_rows(batches)]


def test_plain_records_are_read_by_pyarrow() -> None:
    for end in (b"\n", b"\r\n"):
        content = (b"k,v^" + b'1,"a\n""b"""^' * 9 + b"x^" + b"2,^" * 5).replace(b"^", end)
        batches = parse(CsvRecords(Limits(plain_bytes=1)), content, Limits())
        found = [(b.first, b.size, isinstance(b.columns["k"], pa.Array)) for b in batches]
        assert found == [(1, 9, True), (10, 1, False), (11, 5, True), (16, 0, False)]


pieces = st.text(st.sampled_from("ab \n"), max_size=4)
ENDS = ("\r\n", "\n")


@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(
            st.lists(pieces, min_size=width, max_size=width), min_size=1, max_size=8
        )
    ),
    st.sampled_from(ENDS),
    st.sampled_from(["utf-8", "utf-16"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 7, 1 << 18]),
    st.sampled_from([PLAIN_ONLY, NEVER_PLAIN]),
)
def test_no_value_of_a_file_of_cr_lf_is_cut_at_a_line_feed(
    rows: list[list[str]],
    header_end: str,
    encoding: str,
    packed: bool,
    quoted: bool,
    block_bytes: int,
    plain: int,
) -> None:
    names = [f"c{n}" for n in range(len(rows[0]))]
    rows = [["a", *row[1:]] if header_end == "\n" and n == 0 else row for n, row in enumerate(rows)]
    if header_end == "\n":  # the first row tells how lines end
        rows[0] = [value.replace("\n", "") for value in rows[0]]
    around = '"' if quoted else ""
    lines = [",".join(f"{around}{value}{around}" for value in row) for row in rows]
    written = ",".join(names) + header_end + "".join(line + "\r\n" for line in lines)
    content = written.encode(encoding)
    dialect, limits = (
        Dialect(encoding=encoding),
        Limits(block_bytes=block_bytes, plain_bytes=plain, batch_rows=3),
    )
    content = gzip.compress(content) if packed else content
    found = parsed_rows(parse(CsvRecords(limits, dialect), content, limits, dialect))
    whole = [dict(zip(names, row, strict=True)) for row in rows]
    wanted = [row if quoted or "\n" not in "".join(row.values()) else None for row in whole]
    assert [row if isinstance(row, dict) else None for _, row in found] == wanted


def test_rows_of_two_line_ends_are_rows_where_all_of_them_are_whole() -> None:
    content = b"k,v\r\n1,a\n2,b\n\n3,c\r\n4,d\r\n5\n6,f\n7,g\nx\n8,h\n"
    found = parsed_rows(parse(CsvRecords(Limits()), content, Limits()))
    usable = [row["k"] for _, row in found if isinstance(row, dict)]
    assert usable == ["1", "2", "3", "4", "8"]
    why = (
        "a line feed without a carriage return ends line {} outside quotes, and the file's lines "
        "end in both"
    )
    assert [row for _, row in found if isinstance(row, str)] == [why.format(7), why.format(9)]


@pytest.mark.parametrize(
    "content", [b"k,v\r\n1,a\nb\r\n2,c\r\n", b"k,v\r\n1,a\n2,b\n\n3,c\n4,d\r\n"]
)
def test_lines_of_a_record_are_its_own_though_the_next_record_was_looked_at(content: bytes) -> None:
    lines = TextLines(iter([content]), Limits())
    spans = list(CsvRecords(Limits()).spans(lines))
    parts = content.split(b"\n")
    begins = [parts[span.start].split(b",")[0] for span in spans]
    assert begins == [b"1", b"2", b"3", b"4"][: len(spans)]
    assert all(one.stop == other.start for one, other in pairwise(spans))


@pytest.mark.parametrize("plain", [PLAIN_ONLY, NEVER_PLAIN])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_second_file_behind_the_first_one_is_told(encoding: str, plain: int) -> None:
    dialect, limits = Dialect(encoding=encoding), Limits(plain_bytes=plain)
    parts = ["k,v\r\n1,a\r\n", "k,v\r\n2,b\r\n", "3,c\r\n"]
    content = b"".join(part.encode(encoding) for part in parts)
    found = parsed_rows(parse(CsvRecords(limits, dialect), content, limits, dialect))
    assert [row["k"] for _, row in found if isinstance(row, dict)] == ["1", "2"]
    assert ["byte order mark" in row for _, row in found if isinstance(row, str)] == [True, True]
