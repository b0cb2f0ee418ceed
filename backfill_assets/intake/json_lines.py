"""JSON lines, read strictly: one object per line and nothing after it; other lines are unusable,
with a reason.

Not here: lines (`text_lines`) and batches (`batches`). Blank lines are no records. Numbers keep
their digits as written; nested values become compact JSON text. Names of unusable lines never
become columns. Libraries change numbers or accept broken JSON; a regular expression reads lines
like an earlier one (same names in order, simple values of the same types) as columns, and the
parser here judges all others.
"""

import json
import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from backfill_assets.intake.batches import (
    FRACTIONAL,
    BadRecord,
    PlainLines,
    TextParser,
    Values,
    quoted_text,
    refuse_mark,
)
from backfill_assets.intake.dialect import PLAIN_TEXT, Dialect
from backfill_assets.intake.text_lines import Limits, Oversized, TextLines

BLANKS = b" \t\r\n"
# Bits: the kinds of values that a column has.
BOOLEANS, INTEGERS, OTHERS, FRACTIONS = 1, 2, 4, 8
TYPES = {BOOLEANS: "BOOLEAN", INTEGERS: "BIGINT"}
INT64 = range(-(1 << 63), 1 << 63)
# An unclosed string reaches to the end, so that the pattern reads no character twice.
BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]')
NULL = type(None)
# Of a line: its names in order, each with the type of its value.
Shape = tuple[tuple[str, type], ...]


class _Integer(str):
    """The digits of a JSON integer."""


class _Number(str):
    """The digits of a JSON number with a fraction or an exponent, or of -0: the number has other
    texts, too."""


def _whole_number(digits: str) -> str:
    """The digits as what they are: of -0, whose text as a number is another, as a fraction's."""
    return _Number(digits) if digits == "-0" else _Integer(digits)


class _PlainValue(NamedTuple):
    """A simple value of a line."""

    quote: str  # around it, if any
    pattern: str  # of the value itself
    kind: int  # of its column


PLAIN: dict[type, _PlainValue] = {
    str: _PlainValue('"', r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt])*+', OTHERS),
    bool: _PlainValue("", "true|false", BOOLEANS),
    _Integer: _PlainValue("", "0|-?[1-9][0-9]{0,17}+", INTEGERS),  # all within 64 bits
    _Number: _PlainValue(
        "", r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++(?:[eE][+-]?[0-9]++)?+|[eE][+-]?[0-9]++)", FRACTIONS
    ),
}
UNPLAIN_NAME = re.compile(r'["\\\x00-\x1f]')
# Patterns per file: compiling one costs as much as parsing 1,000 lines.
MOST_SHAPES = 8
MOST_PLAIN_COLUMNS = 100


def _line_pattern(shape: Shape, group: str) -> bytes:
    """A regular expression of a line of this shape; `group` opens the group around each value:
    `(` to find it, `(?:` to match only."""
    blank = r"[ \t\r]*+"
    fields = list[str]()
    for name, kind in shape:
        plain = PLAIN[kind]
        value = f"{plain.quote}{group}{plain.pattern}){plain.quote}"
        fields.append(f'"{re.escape(name)}"{blank}:{blank}{value}{blank}')
    return (blank + r"\{" + blank + f",{blank}".join(fields) + r"\}" + blank + r"\n").encode()


def _unescaped_text(text: bytes) -> bytes:
    """The text of a JSON string's characters."""
    found: str = json.loads(b'"' + text + b'"')
    return found.encode()


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these names and values. Raises BadRecord where a name occurs twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        _refuse_second_key(pairs)
    return made


def _refuse_second_key(pairs: list[tuple[str, Any]]) -> None:
    """Raise BadRecord naming the first name that occurs twice."""
    seen = set[str]()
    for name, _ in pairs:
        if name in seen:
            raise BadRecord(f"the key {quoted_text(name)} occurs twice")
        seen.add(name)


def _refuse_constant(name: str) -> Any:
    """Raise BadRecord: Python's reader takes NaN and Infinity, JSON has none."""
    raise BadRecord(f"{name} is not JSON")


class JsonLines(TextParser[dict[str, Any]]):
    """The parser of one file."""

    def __init__(self, limits: Limits, dialect: Dialect = PLAIN_TEXT) -> None:
        super().__init__(limits, {})
        self._dialect = dialect
        self._kinds = dict[str, int]()  # by column the bits of the kinds of values seen so far
        # By the keys and types of a record how a library reads its like; None: it cannot.
        self._shapes = dict[Shape, PlainLines | None]()
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_object_of_pairs,
            parse_int=_whole_number,
            parse_float=_Number,
            parse_constant=_refuse_constant,
        )

    @property
    def columns(self) -> dict[str, str]:
        """Name -> type: BOOLEAN or BIGINT if all its non-null values are; else NUMBER if one is a
        number with a fraction or an exponent; else STRING."""
        types = dict[str, str]()
        for name in self._names.known:
            kinds = self._kinds.get(name, 0)
            of_several = FRACTIONAL if kinds & FRACTIONS else "STRING"
            types[name] = TYPES.get(kinds, of_several)
        return types

    def judged(self, lines: TextLines) -> Iterator[None]:
        """Add one line per step; the first of a batch shows what plain lines look like."""
        for line in lines:
            if isinstance(line, Oversized):
                reason = (
                    f"the line has {line.size} bytes, more than the limit of "
                    f"{self._limits.max_row_bytes}"
                )
                self.add_bad(line.head, reason)
            elif stripped := line.strip(BLANKS):
                try:
                    record = self._parsed_record(stripped)
                    if not self._rows:
                        self._plain = self._plain_like(record) or self._plain
                    self.add(record, len(stripped))
                except BadRecord as error:
                    self.add_bad(stripped, str(error))
            yield

    def _plain_like(self, record: dict[str, Any]) -> PlainLines | None:
        """The lines with the names of `record` in its order and values of its kinds; None unless
        these are simple."""
        shape: Shape = tuple((name, type(value)) for name, value in record.items())
        if shape not in self._shapes and len(self._shapes) < MOST_SHAPES:
            self._shapes[shape] = self._plain_lines(shape)
        return self._shapes.get(shape)

    def _plain_lines(self, shape: Shape) -> PlainLines | None:
        """The lines of this shape; None unless names and values are simple, and their number makes
        a pattern worth while."""
        if not 1 < len(shape) <= MOST_PLAIN_COLUMNS:
            return None
        for name, kind in shape:
            if kind not in PLAIN or UNPLAIN_NAME.search(name):
                return None
        find = re.compile(_line_pattern(shape, "(")).findall
        return PlainLines(
            re.compile(b"(?:" + _line_pattern(shape, "(?:") + b")*+"),
            lambda lines: self._read_plain(shape, find(lines)),
        )

    def _read_plain(self, shape: Shape, rows: list[tuple[bytes, ...]]) -> dict[str, Any]:
        """The columns of rows of one shape, and their kinds added to the columns'."""
        absent = pa.nulls(len(rows), pa.string())
        columns = dict.fromkeys(self._names.known, absent)
        for (name, kind), values in zip(shape, zip(*rows, strict=True), strict=True):
            self._kinds[name] = self._kinds.get(name, 0) | PLAIN[kind].kind
            texts = [_unescaped_text(value) if b"\\" in value else value for value in values]
            columns[name] = pa.array(texts, pa.string())
        return columns

    def _parsed_record(self, line: bytes) -> dict[str, Any]:
        """The object of a line, whose names are known from then on. Raises BadRecord for a line
        that is not one whole object in UTF-8."""
        refuse_mark(line)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise BadRecord(self._dialect.undecodable(line, error, "line")) from None
        if text.count("{") + text.count("[") > self._limits.max_depth:
            _refuse_depth(text, self._limits.max_depth)
        try:
            record, end = self._decoder.raw_decode(text)
        except json.JSONDecodeError as error:
            raise BadRecord(_json_fault(text, error)) from None
        except RecursionError:
            raise BadRecord("it is nested too deeply") from None
        if end != len(text):
            raise BadRecord(f"the JSON value ends at character {end}, but the line goes on")
        if type(record) is not dict:
            raise BadRecord("the line is JSON, but not an object")
        if "\\ud" in text or "\\uD" in text:  # an escape from D800 on may be half of a pair
            _refuse_surrogates(record)
        if not record.keys() <= self._names.known.keys():
            self._names.admit(n for n in record if n not in self._names.known)
        return record

    def cut(self, rows: list[dict[str, Any]]) -> dict[str, Values]:
        """The values of each known column as text, NULL where a line lacks it."""
        return {
            name: self._texts_of_column(name, _column_values(name, rows))
            for name in self._names.known
        }

    def _texts_of_column(self, name: str, values: list[Any]) -> Values:
        """The values as text; adds their kinds to the column's."""
        kinds = set(map(type, values)) - {NULL}
        found = 0
        if bool in kinds:
            found |= BOOLEANS
        if _Integer in kinds:
            found |= INTEGERS if _are_int64([v for v in values if type(v) is _Integer]) else OTHERS
        if _Number in kinds:
            found |= FRACTIONS
        if kinds - {bool, _Integer, _Number}:
            found |= OTHERS
        self._kinds[name] = self._kinds.get(name, 0) | found
        if kinds <= {str, _Integer, _Number}:
            return values
        return [v if v is None or isinstance(v, str) else _compact_json(v) for v in values]


def _column_values(name: str, rows: list[dict[str, Any]]) -> list[Any]:
    """The values of a column, None where a row lacks it."""
    try:  # twice as fast as asking for a default, and the usual case
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [r.get(name) for r in rows]


def _are_int64(digits: list[str]) -> bool:
    """Whether all numbers fit 64 bits; one of 18 digits always does."""
    return max(map(len, digits)) <= 18 or all(len(d) <= 20 and int(d) in INT64 for d in digits)


def _json_fault(text: str, error: json.JSONDecodeError) -> str:
    """Why a line is no JSON, in words."""
    if "\0" in text:
        return f"a NUL byte at character {text.index(chr(0)) + 1}"
    return f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}"


def _refuse_depth(text: str, most: int) -> None:
    """Raise BadRecord for deep nesting; Python's own bound depends on the depth of the call
    stack."""
    if is_nested_deeper(text, most):
        raise BadRecord(f"it is nested more than {most} levels deep")


def is_nested_deeper(text: str, most: int) -> bool:
    """Whether a text of JSON is nested more than `most` levels deep."""
    depth = 0
    for found in BRACKETS.finditer(text):
        sign = found[0]
        depth += (sign in "[{") - (sign in "]}")
        if depth > most:
            return True
    return False


def _refuse_surrogates(record: dict[str, Any]) -> None:
    """Raise BadRecord for a text with half of a surrogate pair: UTF-8 has none."""
    try:
        _compact_json(record).encode()
    except UnicodeEncodeError:
        raise BadRecord("it has half of a surrogate pair, which is no character") from None


def _compact_json(value: Any) -> str:
    """A value as JSON text without blanks, numbers as written."""
    if isinstance(value, dict):
        parts = [f"{encode_basestring(name)}:{_compact_json(part)}" for name, part in value.items()]
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact_json, value)) + "]"
    if isinstance(value, (_Integer, _Number)):
        return str(value)
    if isinstance(value, str):
        return str(encode_basestring(value))
    if value is None:
        return "null"
    return "true" if value else "false"
