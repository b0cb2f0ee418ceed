"""Names from outside as they may stand in a line of text: nothing in them can move, hide or reorder what is around it.

Lives here: escaping names of files and folders for terminals, logs and pages. Does not live here: HTML escaping
(templates), and the text of rows, which JSON escapes.
"""

import os


def printable(name: str) -> str:
    """The name with everything escaped that is not plainly visible: bytes that are no UTF-8, control characters, line
    separators, and format characters such as those that reverse the writing direction. A blank stays a blank."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else _escaped(ord(c)) for c in text)


def _escaped(code: int) -> str:
    if code < 1 << 8:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
