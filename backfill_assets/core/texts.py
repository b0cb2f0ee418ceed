"""Texts from elsewhere, made safe to print: file names, reasons and values that a person sees on a screen.

Lives here: escaping what a screen would obey instead of show. Does not live here: quoting for a shell (`shlex.quote`)
and HTML (the templates escape by themselves).
"""


def plain(text: str) -> str:
    """`text` with every character that does not show itself escaped, such as `\\u202e`; spaces stay.

    Line breaks, escape sequences and characters that turn the direction of writing could make a file's name look like
    another one, or like a line of ours. Bytes that are no UTF-8 (lone surrogates) become printable too.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str, most: int) -> str:
    """The first `most` characters, and a `…` in place of what was cut off."""
    return text if len(text) <= most else text[: most - 1] + "…"
