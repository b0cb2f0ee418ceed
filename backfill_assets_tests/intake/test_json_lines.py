"""Which lines are one usable object, and what becomes of their values.

Lives here: JSON lines, by example and as a property over any mixture. Does not live here: long
lines and gzip as bytes (`test_text_lines.py`).
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.intake.batches import BadRecord
from backfill_assets.intake.json_lines import JsonLines, _object_of_pairs
from backfill_assets.intake.text_lines import Limits
from backfill_assets_tests.landed import (
    bad_rows,
    good_rows,
    parse,
    parsed_rows,
    small,
    stock_rows,
    take_in,
)

DEEP = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
UNUSABLE = {
    "two objects on one line": (b'{"id":8}{"id":9}', "but the line goes on"),
    "text after the object": (b'{"id":8} x', "but the line goes on"),
    "a trailing comma": (b'{"id":8},', "but the line goes on"),
    "an array": (b'[{"id":8}]', "not an object"),
    "a number": (b"12", "not an object"),
    "null": (b"null", "not an object"),
    "cut off": (b'{"id": 8, "na', "not JSON: Unterminated string"),
    "single quotes": (b"{'id': 8}", "not JSON"),
    "a comment": (b'{"id": 8 /* x */}', "not JSON"),
    "a leading zero": (b'{"id": 08}', "not JSON"),
    "a duplicate key": (b'{"id": 1, "id": 2}', "the key 'id' occurs twice"),
    "a duplicate key inside": (b'{"x": {"k": 1, "k": 1}}', "the key 'k' occurs twice"),
    "keys that differ in case": (b'{"id": 1, "ID": 2}', "the name 'ID' occurs twice, case aside"),
    "a key that another line spells otherwise": (
        b'{"OK": 1}',
        "the name 'OK' was 'ok' in a line before",
    ),
    "NaN": (b'{"id": NaN}', "NaN is not JSON"),
    "Infinity": (b'{"id": [Infinity]}', "Infinity is not JSON"),
    "-Infinity": (b'{"id": -Infinity}', "-Infinity is not JSON"),
    "a NUL byte": (b'{"id": "a\x00b"}', "a NUL byte at character 10"),
    "a control character": (b'{"id": "a\tb"}', "Invalid control character"),
    "invalid UTF-8": (b'{"id": "caf\xe9"}', "not UTF-8: byte 0xe9 at byte 12"),
    "an overlong form": (b'{"id": "\xc0\xaf"}', "not UTF-8"),
    "a surrogate as bytes": (b'{"id": "\xed\xa0\x80"}', "not UTF-8"),
    "half a surrogate pair": (b'{"id": "\\ud83d"}', "half of a surrogate pair"),
    "half a pair inside a key": (b'{"x": [{"\\uDE00": 1}]}', "half of a surrogate pair"),
    "nested too deeply": (DEEP, "more than 100 levels"),
    "nested by objects": (b'{"a":' * 101 + b"1" + b"}" * 101, "more than 100 levels"),
    "an open string and brackets": (b'{"a": "' + b'\\"[' * 60_000, "not JSON"),
    "an empty key": (b'{"": 1}', "blank name"),
    "a name of ours": (b'{"__row_number": 1}', "reserved"),
    "Spark's hidden column": (b'{"_METADATA": 1}', "reserved"),
    "a name with a line feed": (b'{"a\\nb": 1}', "control characters"),
    "a giant name": (b'{"' + b"n" * 2000 + b'": 1}', "longer than 1024"),
}


def test_a_second_file_behind_the_first_one_is_told(tmp_path: Path) -> None:
    intake = take_in(
        tmp_path, "a.jsonl", b'\xef\xbb\xbf{"id": 1}\n\xef\xbb\xbf{"id": 2}\n{"id": 3}\n'
    )
    assert [row["id"] for row in good_rows(intake)] == ["1", "3"]
    assert "byte order mark" in bad_rows(intake)[2]


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_line_is_kept_with_its_reason_and_its_neighbours_are_used(
    tmp_path: Path, name: str
) -> None:
    line, reason = UNUSABLE[name]
    intake = take_in(tmp_path, "a.jsonl", b'{"ok":1}\n' + line + b'\n{"ok":2}\n')
    found = bad_rows(intake)
    assert list(found) == [2]
    assert reason in found[2]
    assert good_rows(intake) == [{"ok": "1"}, {"ok": "2"}]
    assert intake.types == {"ok": "BIGINT"}


def test_a_line_beyond_the_limit_is_one_bad_record(tmp_path: Path) -> None:
    limits = Limits(max_row_bytes=100, text_bytes=8)
    exact = b'{"a":"' + b"x" * 92 + b'"}'
    intake = take_in(tmp_path, "a.jsonl", exact + b"\n" + exact + b" \n" + exact, limits)
    assert bad_rows(intake) == {2: "the line has 101 bytes, more than the limit of 100"}
    assert stock_rows(intake)[1]["__bad_text"] == '{"a":"xx'


def test_numbers_keep_their_digits(tmp_path: Path) -> None:
    digits = ["1.10", "1e400", "0.1000000000000000055511151231257827", "-0", "9" * 5000]
    lines = "".join(f'{{"n": {d}, "in": [{d}]}}\n' for d in digits)
    rows = good_rows(take_in(tmp_path, "a.jsonl", lines.encode()))
    assert [r["n"] for r in rows] == digits
    assert [r["in"] for r in rows] == [f"[{d}]" for d in digits]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-5", "null"], "BIGINT"),
        (["9223372036854775807", "-9223372036854775808"], "BIGINT"),
        (["1", "9223372036854775808"], "STRING"),
        (["1", "-9223372036854775809"], "STRING"),
        (["1", "1" + "0" * 5000], "STRING"),
        (["true", "null", "false"], "BOOLEAN"),
        (["true", "1"], "STRING"),
        (["1", "1.0"], "NUMBER"),
        (["0", "-0"], "NUMBER"),
        (["1e0", '"a"'], "NUMBER"),
        (["1", '"1"'], "STRING"),
        (["true", '"true"'], "STRING"),
        (["null", "null"], "STRING"),
        (["1", "{}"], "STRING"),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 100])
def test_a_column_has_a_type_only_if_all_its_values_have(
    values: list[str], kind: str, batch_rows: int
) -> None:
    parser = JsonLines(Limits(batch_rows=batch_rows))
    rows = parsed_rows(parse(parser, "".join(f'{{"v": {v}}}\n' for v in values).encode(), Limits()))
    assert parser.columns == {"v": kind}
    assert [r for _, r in rows] == [{} if v == "null" else {"v": v.strip('"')} for v in values]


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
usable = st.dictionaries(
    st.sampled_from("abc"), st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3
)
# A spelling is only another one beside a line before it, so it is no unusable line of any mixture.
unusable = st.sampled_from(
    [
        line
        for name, (line, _) in UNUSABLE.items()
        if len(line) < 50 and name != "a key that another line spells otherwise"
    ]
)
blanks = st.sampled_from([b"", b"\r", b"  "])


@pytest.mark.slow
@given(
    st.lists(st.one_of(usable, unusable, blanks), max_size=12),
    st.sampled_from([b"\n", b"\r\n"]),
    st.integers(1, 40),
    st.integers(1, 5),
    st.booleans(),
)
def test_any_mixture_gives_every_record_once_in_order_whatever_the_batches(
    items: list[dict[str, object] | bytes],
    end: bytes,
    block_bytes: int,
    batch_rows: int,
    ascii_only: bool,
) -> None:
    texts = [
        i if isinstance(i, bytes) else json.dumps(i, ensure_ascii=ascii_only).encode()
        for i in items
    ]
    content = b"".join(t + end for t in texts)
    limits = small(Limits(), block_bytes, batch_rows)
    rows = parsed_rows(parse(JsonLines(limits), content, limits))
    records = [i for i in items if not isinstance(i, bytes) or i.strip()]
    assert [n for n, _ in rows] == list(range(1, len(records) + 1))
    for (_, found), written in zip(rows, records, strict=True):
        if isinstance(written, bytes):
            assert isinstance(found, str)
        else:
            assert found == {k: _text(v) for k, v in written.items() if v is not None}


def _text(value: object) -> str:
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )


class _Counted(str):
    """A key that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def test_a_key_that_occurs_twice_is_found_in_linear_time() -> None:
    _Counted.compared, many = 0, 2_000
    with pytest.raises(BadRecord, match=f"the key '{many - 1}' occurs twice"):
        _object_of_pairs([(_Counted(n), None) for n in [*range(many), many - 1]])
    assert _Counted.compared < 10 * many


SHAPES = [
    b'{"id":1,"v":"x"}',
    b'{"id": -7, "v": "\xc3\xa9\\n\\"", "w": true}',
    b'{"n.(":1.50,"id":false}',
    b'{"id":null,"v":"x"}',
]
EDITS = [bytes([b]) for b in b'",{}\\:1.e\r\n\x00\xff '] + [b""]


@pytest.mark.slow
@given(
    st.sampled_from(SHAPES),
    st.lists(
        st.sampled_from([*SHAPES, b"", *(line for line, _ in UNUSABLE.values() if len(line) < 50)])
    ),
    st.lists(st.tuples(st.integers(0, 300), st.sampled_from(EDITS)), max_size=4),
    st.sampled_from([1, 7, 40, 10_000]),
    st.sampled_from([20, 1 << 20]),
)
def test_plain_lines_are_read_as_the_strict_parser_reads_them(
    shape: bytes,
    others: list[bytes],
    edits: list[tuple[int, bytes]],
    block_bytes: int,
    max_row_bytes: int,
) -> None:
    content = b"".join(line + b"\n" for line in [shape, *[shape] * 3, *others, shape, shape])
    for place, piece in edits:
        content = content[:place] + piece + content[place + 1 :]
    found = []
    for plain_bytes in (1, 1 << 40):
        limits = Limits(
            plain_bytes=plain_bytes,
            block_bytes=block_bytes,
            max_row_bytes=max_row_bytes,
            batch_rows=5,
        )
        parser = JsonLines(limits)
        batches = parse(parser, content, limits)
        bad = {b.first + i: kept for b in batches for i, kept in b.bad.items()}
        found.append(([(n, bad.get(n, row)) for n, row in parsed_rows(batches)], parser.columns))
    assert found[0] == found[1]
