"""The text of a JSON document, part by part: a million rows are not held as JSON values beside
their records.

Not here: records as JSON values (`kernel.core.records`), and which document a command writes
(`output`).
"""

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

from backfill_assets.kernel.core.records import json_of

AT_ONCE = 4096  # parts, some hundred KiB
STEP = "  "


def json_texts(document: Any) -> Iterator[str]:
    """Yield the text that `json.dumps` gives for `json_of(document)` with an indent of 2 and all
    characters as they are, in pieces of some hundred KiB."""
    parts = _parts_of(document, "\n")
    while some := [*islice(parts, AT_ONCE)]:
        yield "".join(some)


def _parts_of(value: Any, indent: str) -> Iterator[str]:
    """Yield the text of a value whose lines begin with `indent`, a line feed and blanks."""
    inner = indent + STEP
    if type(value) is dict and value:
        for number, (key, item) in enumerate(value.items()):
            name = _encoder(inner).encode(str(json_of(key)))
            yield f"{',' if number else '{'}{inner}{name}: "
            yield from _parts_of(item, inner)
        yield f"{indent}}}"
    elif type(value) in (list, tuple) and value:
        for number, item in enumerate(value):
            yield f"{',' if number else '['}{inner}"
            yield from _parts_of(item, inner)
        yield f"{indent}]"
    else:
        yield from _text_of(json_of(value), indent)


def _text_of(values: Any, indent: str) -> Iterator[str]:
    """Yield the text of JSON values. An object without others inside is the text that has no
    indent, with other separators: a tenth of the time, as Python's fast encoder knows no indent."""
    if not values or type(values) not in (dict, list):
        yield _encoder(indent).encode(values)
    elif type(values) is dict and not any(map(_holds_values, values.values())):
        inner = indent + STEP
        yield f"{{{inner}{_encoder(inner).encode(values)[1:-1]}{indent}}}"
    else:
        yield from _parts_of(values, indent)


def _holds_values(value: Any) -> bool:
    return type(value) in (dict, list) and bool(value)


@cache
def _encoder(indent: str) -> json.JSONEncoder:
    """The encoder whose items begin with `indent`."""
    return json.JSONEncoder(
        separators=(f",{indent}", ": "), default=str, ensure_ascii=False, allow_nan=False
    )
