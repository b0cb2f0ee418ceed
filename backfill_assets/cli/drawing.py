"""Tables, lines and sections of a report: on a terminal or in a pipe for people, or written as one
HTML page.

Terminals get colours, pipes plain text; text of a lake is escaped (`kernel.core.texts`). Data goes
to stdout, remarks to stderr. A page escapes every text of a lake, runs no script and fetches
nothing; its content policy forbids both. Not here: what sections say (each command), and the plots
(`plots`).
"""

import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from backfill_assets.kernel.core.texts import printable_text

if TYPE_CHECKING:
    from jinja2 import Environment


STYLES: Mapping[str, Mapping[str, Any]] = {
    "fresh": {"fg": "green"},
    "provisional": {"fg": "green", "dim": True},
    "stale": {"fg": "yellow"},
    "missing": {"fg": "red"},
    "pending": {"dim": True},
    "unpinned": {"fg": "magenta"},
    "incomplete": {"fg": "magenta"},
    "outdated": {"fg": "cyan"},
    "held": {"fg": "blue"},
    "closed": {"dim": True},
    "ok": {"fg": "green"},
    "warn": {"fg": "yellow"},
    "error": {"fg": "red", "bold": True},
}
GAP = "  "
COMMAND_IN_LINE = re.compile(r"(^|: +)backfill-assets ")
# A longer cell with spaces in it is a sentence, which may be broken between its words.
PROSE_CHARS = 30
NARROWEST_PROSE = 20
UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class TextTable:
    """A table with a title; its cells are values as `cell_text` writes them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""

    @cached_property
    def cells(self) -> list[list[str]]:
        """The rows as texts."""
        return [[cell_text(value) for value in row] for row in self.rows]

    @cached_property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers only, which are aligned to the right."""
        if not self.rows:
            return [False] * len(self.columns)
        by_column = zip(*self.cells, strict=True)
        return [all(_is_number(cell) for cell in column) for column in by_column]

    @staticmethod
    def is_prose(cell: str) -> bool:
        """Whether a cell holds a sentence, which may be broken between its words."""
        return len(cell) > PROSE_CHARS and " " in cell

    def draw(self) -> None:
        """Draw it on stdout."""
        draw_table(self.columns, self.rows, self.title)


def cell_text(value: object) -> str:
    """Write a whole number with thousands separated, `-` for None, an instant in UTC, and a
    sequence with commas."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%SZ}"
    if isinstance(value, list | tuple):
        return ", ".join(map(cell_text, value))
    return "-" if value is None else str(value)


def line_width(stream: TextIO | None = None) -> int | None:
    """Return the characters of a line of `stream` (None: stdout): the screen's, or $COLUMNS; None
    for a pipe, whose lines stay whole."""
    if (stream or sys.stdout).isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    return None


def say(text: str, hang: int = 0, first: int = 0) -> None:
    """Write a line to stdout, broken between words where it does not fit; further lines are
    indented by `hang`. A line that ends with a command stays whole, to be copied.

    `first` characters of the first line are written already.
    """
    ends_with_command = COMMAND_IN_LINE.search(text) is not None
    width = None if ends_with_command else line_width()
    lines = _wrapped_lines(" " * first + printable_text(text), width, hang)
    click.echo("\n".join([lines[0][first:], *lines[1:]]))


def draw_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Draw a table on stdout; the first word of a cell decides its colour.

    Where it is too wide, sentences are broken between words; then the columns are drawn in parts
    below each other, the first column in each of them.
    """
    shown_rows = []
    for row in rows:
        shown_rows.append([printable_text(cell_text(cell)) for cell in row])
    table = TextTable([printable_text(name) for name in columns], shown_rows)
    if title:
        say(title)
    line = line_width()
    widths = _widths(table, line)
    for number, part in enumerate(_column_groups(widths, line)):
        if number:
            click.echo()
        _draw_columns(table, part, widths)


def _widths(table: TextTable, line: int | None) -> list[int]:
    """Return the width of each column in characters: that of its longest cell, or of a sentence its
    share of what other columns leave of `line` (characters; None: any length fits)."""
    columns = [*zip(table.columns, *table.cells, strict=True)]  # each with its name first
    widths = [max(map(len, column)) for column in columns]
    if line is None:
        return widths
    prose = [i for i, column in enumerate(columns) if any(map(table.is_prose, column[1:]))]
    fixed = sum(width for i, width in enumerate(widths) if i not in prose)
    gaps = len(GAP) * (len(widths) - 1)
    share = max((line - fixed - gaps) // max(len(prose), 1), NARROWEST_PROSE)
    for i in prose:
        longest_word = max(map(len, " ".join(columns[i]).split()), default=0)
        widths[i] = min(widths[i], max(share, longest_word))
    return widths


def _column_groups(widths: Sequence[int], line: int | None) -> list[list[int]]:
    """Return the columns by index, in parts that fit into `line`; each part begins with the first
    column."""
    parts: list[list[int]] = [[0]]
    for i in range(1, len(widths)):
        width = sum(widths[k] + len(GAP) for k in parts[-1]) + widths[i]
        is_too_wide = line is not None and width > line
        has_other_columns = parts[-1] != [0]
        if is_too_wide and has_other_columns:
            parts.append([0])
        parts[-1].append(i)
    return parts


def _draw_columns(table: TextTable, part: Sequence[int], widths: Sequence[int]) -> None:
    """Draw the columns of these indexes below each other's names."""
    bold = {"bold": True}
    _draw_row(table, table.columns, [bold for _ in part], part, widths)
    for row in table.cells:
        first_words = [row[i].split(" ")[0] for i in part]
        styles = [STYLES.get(word.rstrip("*"), {}) for word in first_words]  # `*`: will change
        _draw_row(table, row, styles, part, widths)


def _draw_row(
    table: TextTable,
    row: Sequence[str],
    styles: Sequence[Mapping[str, Any]],
    part: Sequence[int],
    widths: Sequence[int],
) -> None:
    """Draw some cells of a row, each in its style; a broken cell makes several lines."""
    wrapped = [_wrapped_lines(row[i], widths[i], 0) for i in part]
    for texts in zip_longest(*wrapped, fillvalue=""):
        line = []
        for text, i, style in zip(texts, part, styles, strict=True):
            padded = text.rjust(widths[i]) if table.numeric[i] else text.ljust(widths[i])
            if i == part[-1]:
                padded = padded.rstrip()
            line.append(click.style(padded, **style) if style and text else padded)
        click.echo(GAP.join(line).rstrip())


def _wrapped_lines(text: str, width: int | None, hang: int) -> list[str]:
    """Break a text between words into lines of `width` characters (None: any length fits); those
    after the first are indented by `hang`."""
    if width is None or len(text) <= width:
        return [text]
    # A word longer than the line stays whole: a screen breaks it, and copying it gives it back.
    wrap = textwrap.TextWrapper(
        width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )
    return wrap.wrap(text) or [text]


def _is_number(cell: str) -> bool:
    """Whether a cell holds nothing, a number, or one with a unit, e.g. `1,204`, `0.31`, `81 kB`."""
    if cell in ("", "-"):
        return True
    digits, _, unit = cell.replace(",", "").partition(" ")
    return digits.replace(".", "", 1).isdigit() and unit in ("", "s", *UNITS)


def number_text(value: int | None) -> str:
    """Write a whole number with thousands separated; `-` for none."""
    return cell_text(value)


def size_text(value: int | None) -> str:
    """Write bytes for people, e.g. `512 B`, `81 kB`, `1.2 MB`; `-` for an unknown size."""
    if value is None:
        return "-"
    step = 0
    while step < len(UNITS) - 1 and value >= 999.5 * 1000**step:
        step += 1
    scaled = value / 1000**step
    has_decimal = step > 1 and scaled < 9.95
    return f"{scaled:.{int(has_decimal)}f} {UNITS[step]}"


def percent_text(share: float) -> str:
    """Write a share (0..1) in percent, rounded so that neither 0 nor 100 % is claimed where it is
    not so."""
    text = f"{share * 100:.2f}"
    if text == "0.00" and share > 0:
        return "<0.01 %"
    if text == "100.00" and share < 1:
        return ">99.99 %"
    return f"{text} %"


def percent_as_typed(share: float) -> str:
    """Write a share (0..1) from an option or a setting as it was typed, in percent."""
    return f"{share * 100:g} %"


def duration_text(days: float | None) -> str:
    """Write a duration in days as days, hours or minutes; `-` for none."""
    if days is None:
        return "-"
    size = abs(days)
    if size >= 1 or days == 0:
        return f"{days:.1f} d"
    return f"{days * 24:.1f} h" if size * 24 >= 1 else f"{days * 24 * 60:.1f} min"


def remark(text: str, to: TextIO | None = None) -> None:
    """Write a line that accompanies the work to stderr, or to the stream `to`."""
    lines = _wrapped_lines(printable_text(text), line_width(to or sys.stderr), hang=2)
    click.echo("\n".join(lines), file=to, err=True)


def broken_lines(text: str, first: int) -> str:
    """Break a line for stderr between words where it does not fit; `first` characters of it are
    written already."""
    lines = _wrapped_lines(" " * first + text, line_width(sys.stderr), hang=2)
    return "\n".join(lines)[first:]


@dataclass(frozen=True)
class Figure:
    """A plot of a page."""

    name: str  # of its ids in the page
    title: str
    caption: str  # what it shows, in words
    svg: str  # from `plots`


@dataclass(frozen=True)
class PageSection:
    """A part of a report: tables, then lines. Only pages show the fields below `lines`."""

    title: str
    tables: Sequence[TextTable] = ()
    lines: Sequence[str] = ()
    about: Sequence[str] = ()  # text before the tables
    figures: Sequence[Figure] = ()
    html: str = ""  # made by this package, not escaped
    code: str = ""  # shown folded
    folded: Sequence[TextTable] = ()  # tables shown folded

    def draw(self) -> None:
        """Draw tables and lines on stdout."""
        for table in self.tables:
            table.draw()
        for line in self.lines:
            say(line)


@dataclass(frozen=True)
class Page:
    """A page of `backfill-assets COMMAND --html`."""

    command: str  # COMMAND
    title: str
    lake: str  # its folder or address
    sections: Sequence[PageSection]
    lines: Sequence[str] = ()  # below the title


@cache
def page_templates() -> "Environment":
    """Return the templates of this room; they escape all text, and a missing name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("backfill_assets.cli")
    return Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def html_of(page: Page) -> str:
    """Return the page as one HTML document, for screens light and dark and for paper."""
    return page_templates().get_template("page.html.j2").render(page=page)


def write_page(file: Path, page: Page) -> None:
    """Write the page for the readers that `[access]` of the lake allows."""
    write_file_whole(file, html_of(page))


def write_file_whole(file: Path, text: str, umask: int | None = None) -> None:
    """Write a file whole or not at all, since a scraper must never see half of it, and name it on
    stderr.

    `umask` decides who may read it; by default `[access]` of the lake does. Raises ClickException
    if it cannot.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as opened_file:
            opened_file.write(text)
        own_umask = os.umask(0o077)  # it cannot be read but by setting another
        os.umask(own_umask)
        withheld_rights = own_umask if umask is None else umask
        Path(name).chmod(0o666 & ~withheld_rights)  # mkstemp gives the owner only
        Path(name).replace(file)
    except OSError as error:
        raise click.ClickException(
            f"{file}: {error.strerror}. It was not written. Name a file that can be."
        ) from None
    remark(f"wrote {file}")
