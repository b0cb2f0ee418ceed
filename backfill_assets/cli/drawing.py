"""Drawing for people: tables and lines, coloured on a terminal, plain text elsewhere.

Lives here: how things look. Does not live here: what is said (each command). Data goes to stdout, what accompanies the
work to stderr, so that a pipe gets the data only.
"""

import sys
from collections.abc import Mapping, Sequence

import click

STYLES: Mapping[str, str] = {
    "fresh": "green", "stale": "yellow", "missing": "red", "pending": "dim", "incomplete": "magenta",
    "outdated": "cyan", "held": "blue", "ok": "green", "warn": "yellow", "error": "bold red",
}  # fmt: skip


def on_terminal() -> bool:
    """Whether stdout is a screen."""
    return sys.stdout.isatty()


def draw_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A table on stdout; the first word of a cell decides its colour. Whole numbers stand to the right."""
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(columns))]
    if on_terminal():
        _draw_rich(columns, rows, title, right)
        return
    if title:
        click.echo(title)
    widths = [max(len(c), *(len(row[i]) for row in rows)) if rows else len(c) for i, c in enumerate(columns)]
    for row in (columns, *rows):
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        click.echo("  ".join(cells).rstrip())


def _draw_rich(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str, right: Sequence[bool]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=SIMPLE, title_justify="left", pad_edge=False)
    for column, to_right in zip(columns, right, strict=True):
        table.add_column(column, justify="right" if to_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell.split(" ")[0], "")) for cell in row))
    Console().print(table)


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").removesuffix(" s").replace(".", "", 1).isdigit() or cell in ("", "-")


def number(value: int | None) -> str:
    """A whole number with thousands separated; `-` for none."""
    return "-" if value is None else f"{value:,}"


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


def aside(text: str) -> None:
    """A line that accompanies the work, on stderr."""
    click.echo(text, err=True)
