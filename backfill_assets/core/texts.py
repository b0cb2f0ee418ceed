"""Texts from elsewhere made safe to print: file names, reasons and values.

Not here: quoting for a shell (`shlex.quote`) and HTML, which the templates escape.
"""

from collections.abc import Mapping
from typing import Any

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
    """Why pydantic refuses a value, from one of its `errors()`; without what it puts before a reason of ours."""
    return str(refusal["msg"]).removeprefix("Value error, ")


def shortened(text: str, most: int) -> str:
    """The first `most` characters, and a `…` in place of what was cut off."""
    return text if len(text) <= most else text[: most - 1] + "…"
