"""Text files of declared dialects: rows come back equal, whatever does not fit is set aside or
refused by name.

Tested here: `intake.dialect`, with the parsers that take it. Not tested here: plain files
(`test_csv_records`, `test_json_lines`), and a lake whose dialect changes
(`intake.test_counting_dialects`).
"""

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from backfill_assets.intake.csv_records import CsvRecords
from backfill_assets.intake.dialect import Dialect
from backfill_assets.intake.text_lines import Limits
from backfill_assets_tests.landed import (
    bad_rows,
    good_rows,
    land,
    parse,
    parsed_rows,
    small,
    take_in,
)
from backfill_assets_tests.sources import CHECKOUT, PACKAGE

GERMAN = Dialect(separator=";", encoding="cp1252", numbers=("total",), decimal=",", thousands=".")


def read(
    content: bytes, dialect: Dialect, block_bytes: int = 100, batch_rows: int = 5
) -> list[object]:
    limits = small(Limits(), block_bytes, batch_rows)
    return [
        found
        for _, found in parsed_rows(parse(CsvRecords(limits, dialect), content, limits, dialect))
    ]


def test_a_german_export_is_read_and_each_number_of_another_form_is_set_aside(
    tmp_path: Path,
) -> None:
    totals = {
        "1.234,5": "1234.5",
        "1.234": "1234",
        "-0,50": "-0.50",
        ",5": ".5",
        "1234567,1": "1234567.1",
        "": "",
        " 7 ": " 7 ",
        "1.2345": None,
        "12.34": None,
        "1,234.5": None,
        "1,2,3": None,
        "1.234.5": None,
        "5-": None,
        "NaN": None,
        "7,": None,
    }
    content = "id;total\n" + "".join(f"{t};{t}\n" for t in totals)
    intake = take_in(tmp_path, "a.csv", content.encode("cp1252"), dialect=GERMAN)
    assert {r["id"]: r["total"] for r in good_rows(intake)} == {
        t: n for t, n in totals.items() if n is not None
    }
    assert len(bad_rows(intake)) == sum(n is None for n in totals.values())
    assert (
        bad_rows(intake)[8]
        == "total is '1.2345', which is no number with ',' before its fraction, '.' between "
        "thousands"
    )


def test_bytes_that_the_encoding_has_not_cost_their_row_and_are_kept(tmp_path: Path) -> None:
    intake = take_in(
        tmp_path, "a.csv", b"id;total\nM\xfcller \x80;1\ncaf\xe9\x81;2\n", dialect=GERMAN
    )
    assert [r["id"] for r in good_rows(intake)] == ["Müller €"]
    assert bad_rows(intake) == {2: "not cp1252: byte 0x81 at character 5 of the record"}
    (batch,) = parse(CsvRecords(Limits(), GERMAN), b"id;total\ncaf\xe9\x81;2\n", Limits(), GERMAN)
    assert batch.bad[0][0] == "café\\x81;2"


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize(
    ("is_marked", "named"), [(True, "utf-16"), (True, "utf-16-{}"), (False, "utf-16-{}")]
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_utf_16_needs_no_mark(
    tmp_path: Path, order: str, is_marked: bool, named: str, is_packed: bool
) -> None:
    content = ("\ufeff" * is_marked + 'k,v\n"\u0a0a\n\U0001f600",x\n\ud800,y\n1,z').encode(
        f"utf-16-{order}", "surrogatepass"
    )
    name, content = ("a.csv.gz", gzip.compress(content)) if is_packed else ("a.csv", content)
    intake = take_in(tmp_path, name, content, dialect=Dialect(encoding=named.format(order)))
    assert good_rows(intake) == [{"k": "\u0a0a\n\U0001f600", "v": "x"}, {"k": "1", "v": "z"}]
    assert bad_rows(intake) == {
        2: "not utf-16: half of a surrogate pair at character 1 of the record".replace(
            "utf-16", named.format(order)
        )
    }


REPORT = Dialect(preamble=("Report of *", "*"), trailer=("Total;*",), separator=";")
LISTED = Dialect(names=("k", "v"), trailer=("END*", ""))
UNFIT = {
    "a report without its first line": (
        REPORT,
        b"k;v\n1;2\nTotal;1\n",
        "line 1 is 'k;v', and preamble says",
    ),
    "one that ends within": (
        Dialect(preamble=REPORT.preamble),
        b"Report of May\n",
        "line 2 is missing: preamble",
    ),
    "one that was cut off": (
        REPORT,
        b"Report of May\n\nk;v\n1;2\n",
        "the last line is '1;2', and trailer says",
    ),
    "a list without its end": (
        LISTED,
        b"1,2\n3,4\n",
        "line 2 from the end is '1,2', and trailer says 'END*'",
    ),
    "one line in place of two": (LISTED, b"END", "line 2 from the end is missing"),
    "a header where names are declared": (
        Dialect(names=("k", "v")),
        b"K,v\n1,2\n",
        "its first record is a header",
    ),
    "a foreign mark": (
        Dialect(encoding="cp1252"),
        b"\xef\xbb\xbfk,v\n",
        "mark says utf-8, and not cp1252",
    ),
    "another order": (
        Dialect(encoding="utf-16-le"),
        b"\xfe\xff\0k",
        "its byte order mark says utf-16-be, and not",
    ),
    "32 bits": (
        Dialect(encoding="utf-16"),
        b"\xff\xfe\0\0k\0\0\0",
        "its byte order mark says utf-32, and not utf-16",
    ),
    "no mark": (
        Dialect(encoding="utf-16"),
        b"k\0,\0",
        "it has no byte order mark: name utf-16-le or utf-16-be",
    ),
    "half a sign": (
        Dialect(encoding="utf-16-le"),
        b"k\0\n\x001\0\n",
        "it ends within a character of utf-16-le",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_file_that_is_not_as_declared_is_refused_as_a_whole(tmp_path: Path, name: str) -> None:
    dialect, content, reason = UNFIT[name]
    intake = take_in(tmp_path, "a.csv", content, dialect=dialect)
    assert (intake.rows, intake.bad_rows) == (1, 1)
    assert reason in (intake.refused or "")


def test_a_preamble_a_trailer_and_names_leave_exactly_the_rows(tmp_path: Path) -> None:
    intake = take_in(
        tmp_path, "a.csv", b'Report of May\r\n"\r\nk;v\r\n1;2\r\nTotal;1\r\n', dialect=REPORT
    )
    assert good_rows(intake) == [{"k": "1", "v": "2"}]
    intake = take_in(tmp_path, "b.csv", b"1,2\n3,4,5\nEND of list\n\n", dialect=LISTED)
    assert good_rows(intake) == [{"k": "1", "v": "2"}]
    assert bad_rows(intake) == {2: "3 fields where names has 2"}


def test_a_line_that_never_ends_before_a_trailer_is_refused_and_not_held() -> None:
    limits = Limits(max_row_bytes=100, block_bytes=50)
    lines = REPORT.lines(iter([b"x" * 50] * 1000), 50_000, limits)
    with pytest.raises(Exception, match="a line is longer than 100 bytes"):
        list(lines)
    as_long = REPORT.lines(
        iter([b"x" * 50, b"x" * 49 + b"\n", b"y" * 50, b"y" * 50, b"\n"]), 201, limits
    )
    with pytest.raises(Exception, match="the last line is 'yyy"):
        list(as_long)


WRONG: dict[str, list[object]] = {
    "separator": ["", ";;", "a", "\n", "é", '"'],
    "quote": ["''", "1"],
    "decimal": ["", "1", "a", "-"],
    "encoding": ["utf-7", "shift_jis", "rot13", "", "\0"],
    "names": [["a", "A"], [" "], ["__json"]],
    "thousands": ["1"],
    "nonsense": [1],
    "preamble": [["*"] * 101],
}


@pytest.mark.whole_house
@pytest.mark.parametrize("key", Dialect.model_fields)
def test_a_key_of_a_dialect_stands_in_the_guide_and_in_a_new_lake_toml(key: str) -> None:
    package = CHECKOUT / PACKAGE
    assert f"`{key}`" in (package / "guides" / "as-others-write.md").read_text("utf-8")
    shown = (package / "learn" / "new_lake.toml").read_text("utf-8").splitlines()
    (line,) = [line for line in shown if line.startswith("# separator = ")]
    assert key in line


@pytest.mark.parametrize("key", WRONG)
def test_a_dialect_that_cannot_be_meant_is_refused(key: str) -> None:
    for value in WRONG[key]:
        with pytest.raises(ValidationError, match=key):
            Dialect.model_validate({"numbers": ["total"], key: value})
    with pytest.raises(ValidationError, match="numbers: decimal and thousands need the columns"):
        Dialect(decimal=",")
    with pytest.raises(ValidationError, match="would take any row"):
        Dialect(names=("a",), preamble=("*",))


SIGNS = "ab1 ;,|'\"\té€\U0001f600\n.-"
dialects = st.builds(
    Dialect,
    separator=st.sampled_from(",;|\t "),
    quote=st.sampled_from(["", '"', "'"]),
    encoding=st.sampled_from(["utf-8", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"]),
    names=st.sampled_from([(), ("k", "v")]),
    preamble=st.sampled_from([(), ("#*", "")]),
    trailer=st.sampled_from([(), ("#*",)]),
)


def written(
    dialect: Dialect, rows: list[list[str]], end: str = "\n", quote_all: bool = False
) -> bytes:
    """The rows as Python's own csv module writes them, between the lines that the dialect has
    around them."""
    text = io.StringIO()
    writer = csv.writer(
        text,
        delimiter=dialect.separator,
        quotechar=dialect.quote or None,
        lineterminator=end,
        quoting=csv.QUOTE_NONE
        if not dialect.quote
        else csv.QUOTE_ALL
        if quote_all
        else csv.QUOTE_MINIMAL,
    )
    writer.writerows([*([] if dialect.names else [["k", "v"]]), *rows])
    around = [
        "#1" + end + end if dialect.preamble else "",
        text.getvalue(),
        "#end" if dialect.trailer else "",
    ]
    return "".join(around).encode(dialect.encoding)


@given(
    st.data(),
    dialects,
    st.sampled_from(["\n", "\r\n"]),
    st.integers(2, 40),
    st.integers(1, 5),
    st.booleans(),
)
def test_rows_of_any_dialect_come_back_equal(
    data: st.DataObject,
    dialect: Dialect,
    end: str,
    block_bytes: int,
    batch_rows: int,
    quote_all: bool,
) -> None:
    out = "" if dialect.quote else dialect.separator + "\n"
    known = [s for s in SIGNS if s not in out and _has(dialect, s)]
    fields = st.text(st.sampled_from(known), max_size=6)
    rows = data.draw(st.lists(st.lists(fields, min_size=2, max_size=2), max_size=12))
    content = written(dialect, rows, end, quote_all)
    assert read(content, dialect, block_bytes, batch_rows) == [{"k": k, "v": v} for k, v in rows]


def _has(dialect: Dialect, sign: str) -> bool:
    return sign.encode(dialect.encoding, "ignore").decode(dialect.encoding, "ignore") == sign


ODD = {"fields": "1{s}2{s}3", "number": "x{s}1.2345", "sign": "\x81{s}1", "return": "a\rb{s}1"}


@given(
    st.lists(st.one_of(st.sampled_from([*ODD]), st.integers(-(10**7), 10**7)), max_size=12),
    st.sampled_from(";|\t"),
    st.integers(2, 40),
    st.sampled_from(["cp1252", "utf-8", "utf-16-le"]),
)
def test_the_wrong_rows_alone_are_set_aside(
    items: list[str | int], separator: str, block_bytes: int, encoding: str
) -> None:
    dialect = Dialect(
        separator=separator, encoding=encoding, numbers=("v",), decimal=",", thousands="."
    )
    sign = {"cp1252": "\x81", "utf-8": "\udc81", "utf-16-le": "\udc00"}[encoding]
    rows = [
        ODD[i].format(s=separator).replace("\x81", sign)
        if isinstance(i, str)
        else f"x{separator}{_german(i)}"
        for i in items
    ]
    text = "\n".join([f"k{separator}v", *rows])
    if encoding == "cp1252":
        content = text.replace("\x81", "\udc81").encode(encoding, "surrogateescape")
    else:
        content = text.encode(
            encoding, "surrogatepass" if encoding == "utf-16-le" else "surrogateescape"
        )
    found = read(content, dialect, block_bytes)
    assert [isinstance(f, str) for f in found] == [isinstance(i, str) for i in items]
    assert [f for f in found if isinstance(f, dict)] == [
        {"k": "x", "v": str(i / 100)} for i in items if isinstance(i, int)
    ]


def _german(hundredths: int) -> str:
    return f"{hundredths / 100:,}".translate(str.maketrans(",.", ".,"))


def test_a_landed_file_is_parsed_again_under_another_dialect_and_not_under_the_same(
    tmp_path: Path,
) -> None:
    content, plain = b"k;v\n1;2\n", Dialect(separator=";")
    first = take_in(tmp_path, "a.csv", content)
    assert [*first.types] == ["k;v"]
    second = take_in(tmp_path, "a.csv", content, dialect=plain)
    assert ([*second.types], second.sha256) == (["k", "v"], first.sha256)
    made = second.parquet.stat().st_ino
    assert take_in(tmp_path, "a.csv", content, dialect=plain).parquet.stat().st_ino == made
    assert [*take_in(tmp_path, "a.csv", content).types] == ["k;v"]
    assert land(tmp_path, "b.csv", content).size == len(content)
