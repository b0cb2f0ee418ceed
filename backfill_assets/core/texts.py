"""Values made fit to print: texts from elsewhere (file names, reasons) without escapes, records as JSON values.

Not here: quoting for a shell (`shlex.quote`), HTML (the templates escape), formats of files that are read back.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from datetime import date
from difflib import get_close_matches
from enum import Enum
from math import isfinite
from typing import Any

WHITE = re.compile(r"\s+")  # whole runs: around a break inside one, `\s*` would be tried from each of its places
BYTES = 0xDC00  # where Python puts the bytes of a name that are no UTF-8 (PEP 383)


def plain(text: str) -> str:
    """`text` with every unprintable character escaped, such as `\\u202e`: line breaks, escape sequences, changes of the
    direction of writing, and bytes that are no UTF-8 (lone surrogates)."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(ord(c)) for c in text)


def _escaped(code: int) -> str:
    """A character as an escape; a byte of a file's name that is no UTF-8 (a lone low surrogate) as that byte."""
    if code < 1 << 8 or BYTES <= code < BYTES + (1 << 8):
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def reason(refusal: Mapping[str, Any]) -> str:
    """Why pydantic refuses a value, from one of its `errors()`; without the prefix that it gives a reason of ours."""
    if refusal["type"] == "too_short":
        return f"it names {refusal['ctx']['actual_length']}, and at least {refusal['ctx']['min_length']} is needed"
    return str(refusal["msg"]).removeprefix("Value error, ")


def shortened(text: str, most: int) -> str:
    """The first `most` characters, and a `…` in place of what was cut off."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str) -> str:
    """`text` with a blank in place of each run of white space that has a line break."""
    return WHITE.sub(lambda run: " " if set(run[0]) & {"\r", "\n"} else run[0], text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The beginning of an advice: the name that was probably meant; empty if none is near."""
    return "".join(f"Did you mean {near}? " for near in get_close_matches(name, list(known), 1))


def known_names(name: str, known: Iterable[str]) -> str:
    """Advice about an unknown name: the likeliest known name, and all to choose from."""
    choices = list(known)
    listed = f"Choose one of {', '.join(choices)}" if choices else "There is none yet"
    return f"{did_you_mean(name, choices)}{listed}"


def json_of(value: Any) -> Any:
    """Return JSON values: fields of records by name (or their `to_dict`), days and instants in ISO 8601, bytes in
    hexadecimal digits, and what JSON lacks of numbers as `inf`, `-inf` and `nan`."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return json_of(vars(value))
    if isinstance(value, Mapping):
        return {str(json_of(key)): json_of(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [json_of(item) for item in value]
    return value
