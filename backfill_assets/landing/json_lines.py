"""JSON lines, read strictly: one object per line and nothing after it, each other line with its reason.

Lives here: usable lines, the text and the type of their values. Does not live here: lines (`text_lines`) and batches
(`batches`). Blank lines are no records. Numbers keep their digits as written, so that no float rounds them; nested
values become compact JSON text. Names of unusable lines never become columns.
"""

import json
import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any

from backfill_assets.landing.batches import BadRecord, Batch, Collector, ColumnNames, Values, kept_text, shown
from backfill_assets.landing.text_lines import Limits, TextLines

BLANKS = b" \t\r\n"
BOOLEANS, INTEGERS, OTHERS = 1, 2, 4
TYPES = {BOOLEANS: "BOOLEAN", INTEGERS: "BIGINT"}
INT64 = range(-(1 << 63), 1 << 63)
# An unclosed string reaches to the end, so that the pattern reads no character twice.
BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]')
NULL = type(None)


class _Integer(str):
    """The digits of a JSON integer."""


class _Number(str):
    """The digits of a JSON number with a fraction or an exponent."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(n for n, _ in pairs if n in seen or seen.add(n))  # type: ignore[func-returns-value]
        raise BadRecord(f"the key {shown(twice)} occurs twice")
    return made


def _constant(name: str) -> Any:
    raise BadRecord(f"{name} is not JSON")


class JsonLines:
    """The parser of one file."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._names, self._kinds = limits, ColumnNames(limits), dict[str, int]()
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_object, parse_int=_Integer, parse_float=_Number, parse_constant=_constant
        )

    @property
    def columns(self) -> dict[str, str]:
        """Name -> type: BOOLEAN or BIGINT if all its non-null values are, else STRING."""
        return {n: TYPES.get(self._kinds.get(n, 0), "STRING") for n in self._names.known}

    def batches(self, lines: TextLines) -> Iterator[Batch]:
        """Yield the lines as records; a batch has the columns known at its end."""
        waiting: Collector[dict[str, Any]] = Collector(self._limits, {}, self._cut)
        for line in lines:
            if isinstance(line, bytes):
                if not (stripped := line.strip(BLANKS)):
                    continue
                try:
                    waiting.add(self._record(stripped), len(stripped))
                except BadRecord as error:
                    waiting.add_bad(kept_text(stripped, self._limits), str(error))
            else:
                reason = f"the line has {line.size} bytes, more than the limit of {self._limits.max_row_bytes}"
                waiting.add_bad(kept_text(line.head, self._limits), reason)
            if waiting.is_full(len(self._names.known)):
                yield waiting.batch()
        if waiting.rows:
            yield waiting.batch()

    def _record(self, line: bytes) -> dict[str, Any]:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            where = f"byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
            raise BadRecord(f"not UTF-8: {where}") from None
        if text.count("{") + text.count("[") > self._limits.max_depth:
            _refuse_depth(text, self._limits.max_depth)
        try:
            record, end = self._decoder.raw_decode(text)
        except json.JSONDecodeError as error:
            raise BadRecord(_not_json(text, error)) from None
        except RecursionError:
            raise BadRecord("it is nested too deeply") from None
        if end != len(text):
            raise BadRecord(f"the JSON value ends at character {end}, but the line goes on")
        if type(record) is not dict:
            raise BadRecord("the line is JSON, but not an object")
        if "\\ud" in text or "\\uD" in text:
            _refuse_surrogates(record)
        if not record.keys() <= self._names.known.keys():
            self._names.admit(n for n in record if n not in self._names.known)
        return record

    def _cut(self, rows: list[dict[str, Any]]) -> dict[str, Values]:
        return {name: self._column(name, _values(name, rows)) for name in self._names.known}

    def _column(self, name: str, values: list[Any]) -> Values:
        """The values as text; adds their kinds to the column's."""
        kinds = set(map(type, values)) - {NULL}
        found = 0
        if bool in kinds:
            found |= BOOLEANS
        if _Integer in kinds:
            found |= INTEGERS if _are_int64([v for v in values if type(v) is _Integer]) else OTHERS
        if kinds - {bool, _Integer}:
            found |= OTHERS
        self._kinds[name] = self._kinds.get(name, 0) | found
        if kinds <= {str, _Integer, _Number}:
            return values
        return [v if v is None or isinstance(v, str) else _compact(v) for v in values]


def _values(name: str, rows: list[dict[str, Any]]) -> list[Any]:
    try:
        return list(map(itemgetter(name), rows))  # twice as fast as asking for a default, and the usual case
    except KeyError:
        return [r.get(name) for r in rows]


def _are_int64(digits: list[str]) -> bool:
    return max(map(len, digits)) <= 18 or all(len(d) <= 20 and int(d) in INT64 for d in digits)


def _not_json(text: str, error: json.JSONDecodeError) -> str:
    if "\0" in text:
        return f"a NUL byte at character {text.index(chr(0)) + 1}"
    return f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}"


def _refuse_depth(text: str, most: int) -> None:
    """Raise BadRecord for deep nesting; Python's own bound depends on the depth of the call stack."""
    depth = 0
    for found in BRACKETS.finditer(text):
        sign = found[0]
        depth += (sign in "[{") - (sign in "]}")
        if depth > most:
            raise BadRecord(f"it is nested more than {most} levels deep")


def _refuse_surrogates(record: dict[str, Any]) -> None:
    try:
        _compact(record).encode()
    except UnicodeEncodeError:
        raise BadRecord("it has half of a surrogate pair, which is no character") from None


def _compact(value: Any) -> str:
    """A value as JSON text without blanks, numbers as written."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode_basestring(n)}:{_compact(v)}" for n, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    if isinstance(value, (_Integer, _Number)):
        return str(value)
    if isinstance(value, str):
        return str(encode_basestring(value))
    return "null" if value is None else "true" if value else "false"
