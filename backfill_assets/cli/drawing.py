"""Drawing for people: tables and lines, coloured on a terminal, plain text elsewhere.

Lives here: how things look, and that they fit: on a narrow screen a table is drawn in parts, and neither a day nor a
name is ever broken. Does not live here: the text (each command). Data goes to stdout, what accompanies the work to
stderr, so that a pipe gets the data only. What lakes contain is shown, never obeyed (`core.texts`).
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

import click

from backfill_assets.core.texts import plain

STYLES: Mapping[str, Mapping[str, Any]] = {
    "fresh": {"fg": "green"}, "stale": {"fg": "yellow"}, "missing": {"fg": "red"}, "pending": {"dim": True},
    "incomplete": {"fg": "magenta"}, "outdated": {"fg": "cyan"}, "held": {"fg": "blue"}, "ok": {"fg": "green"},
    "warn": {"fg": "yellow"}, "error": {"fg": "red", "bold": True},
}  # fmt: skip
GAP = "  "
PROSE_CHARS = 30  # a longer cell with spaces in it is a sentence, which may be broken between its words
NARROWEST_PROSE = 20
UNITS = ("B", "kB", "MB", "GB", "TB")


def line_width() -> int | None:
    """The characters of a line: the screen's, or $COLUMNS; None where stdout is a pipe, whose lines stay whole."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    return None


def say(text: str, hang: int = 0, first: int = 0) -> None:
    """A line on stdout, broken between words where it does not fit; what follows stands `hang` characters in.

    `first` characters of its first line are written already.
    """
    room = line_width()
    lines = _wrapped(" " * first + plain(text), room, hang)
    click.echo("\n".join([lines[0][first:], *lines[1:]]))


def draw_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A table on stdout; the first word of a cell decides its colour. Whole numbers stand to the right.

    Where it is too wide, sentences are broken between words; then the columns are drawn in parts below each other, the
    first column in each of them.
    """
    columns, cells = [plain(c) for c in columns], [[plain(cell) for cell in row] for row in rows]
    if title:
        say(title)
    room = line_width()
    natural = [max(len(c), *(len(row[i]) for row in cells)) if cells else len(c) for i, c in enumerate(columns)]
    prose = [any(len(row[i]) > PROSE_CHARS and " " in row[i] for row in cells) for i in range(len(columns))]
    widths = natural if room is None else _narrowed(natural, prose, room)
    for number, part in enumerate(_parts(widths, room)):
        if number:
            click.echo()
        _draw_part([columns[i] for i in part], [[row[i] for i in part] for row in cells], [widths[i] for i in part])


def _narrowed(natural: Sequence[int], prose: Sequence[bool], room: int) -> list[int]:
    """The widths with sentences cut down to what the other columns leave, each at least `NARROWEST_PROSE`."""
    gaps = len(GAP) * (len(natural) - 1)
    others = sum(w for w, is_prose in zip(natural, prose, strict=True) if not is_prose) + gaps
    share = max((room - others) // max(sum(prose), 1), NARROWEST_PROSE)
    return [min(w, share) if is_prose else w for w, is_prose in zip(natural, prose, strict=True)]


def _parts(widths: Sequence[int], room: int | None) -> list[list[int]]:
    """The columns by index, in parts that fit; each part begins with the first column."""
    if room is None:
        return [list(range(len(widths)))]
    parts: list[list[int]] = [[0]]
    for i in range(1, len(widths)):
        if sum(widths[k] + len(GAP) for k in parts[-1]) + widths[i] > room and parts[-1] != [0]:
            parts.append([0])
        parts[-1].append(i)
    return parts


def _draw_part(columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(columns))]
    for row in (columns, *rows):
        style = [{"bold": True} if row is columns else STYLES.get(cell.split(" ")[0].rstrip("*"), {}) for cell in row]
        for line in _lines(row, widths):
            padded = [t.rjust(w) if r else t.ljust(w) for t, w, r in zip(line, widths, right, strict=True)]
            padded[-1] = padded[-1].rstrip()
            click.echo(GAP.join(click.style(t, **s) for t, s in zip(padded, style, strict=True)).rstrip())


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[list[str]]:
    wrapped = [_wrapped(cell, width, 0) for cell, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, wrapped))):
        yield [cell[number] if number < len(cell) else "" for cell in wrapped]


def _wrapped(text: str, width: int | None, hang: int) -> list[str]:
    if width is None or len(text) <= width:
        return [text]
    # A word longer than the line stays whole: a screen breaks it, and copying it gives it back.
    return textwrap.wrap(
        text, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    ) or [text]  # fmt: skip


def _is_number(cell: str) -> bool:
    return (
        cell.replace(",", "").partition(" ")[0].replace(".", "", 1).isdigit()
        and cell.partition(" ")[2] in ("", "s", *UNITS)
    ) or cell in ("", "-")


def number(value: int | None) -> str:
    """A whole number with thousands separated; `-` for none."""
    return "-" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Bytes for people, e.g. `512 B`, `81 kB`, `1.2 MB`; a dash where nobody knows."""
    if value is None:
        return "-"
    step = next((n for n in range(len(UNITS) - 1) if value < 999.5 * 1000**n), len(UNITS) - 1)
    scaled = value / 1000**step
    return f"{scaled:.{1 if step > 1 and scaled < 9.95 else 0}f} {UNITS[step]}"


def percent(share: float) -> str:
    """A share (0..1) as people read it, rounded so that neither 0 nor 100 % is claimed where it is not so."""
    text = f"{share * 100:.2f}"
    if text == "0.00" and share > 0:
        return "<0.01 %"
    return ">99.99 %" if text == "100.00" and share < 1 else f"{text} %"


def wanted(share: float) -> str:
    """A share (0..1) that somebody asked for, as they wrote it."""
    return f"{share * 100:g} %"


def span(days: float | None) -> str:
    """A duration in days as people read it: days, hours or minutes; `-` for none."""
    if days is None:
        return "-"
    size = abs(days)
    if size >= 1 or days == 0:
        return f"{days:.1f} d"
    return f"{days * 24:.1f} h" if size * 24 >= 1 else f"{days * 24 * 60:.1f} min"


def aside(text: str, to: TextIO | None = None) -> None:
    """A line that accompanies the work, on stderr, or `to` where one is named."""
    click.echo(plain(text), file=to, err=True)
