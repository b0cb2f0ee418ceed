"""Sections of a report, drawn on the screen or written as an HTML page: one model, one template for all pages.

Not here: what the sections say (each command), and the plots (`plots`). A page escapes every text of a lake, runs no
script and fetches nothing; its content policy forbids both.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.drawing import TextTable, aside, draw_table, say

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True)
class Figure:
    """A plot of a page: `svg` comes from `plots`, and `caption` says in words what it shows."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class PageSection:
    """A part of a report: tables, then lines. Only pages show `about` (text before the tables), figures, `html` (drawn
    by us, not escaped), and, folded, `code` and the tables `folded`."""

    title: str
    tables: Sequence[TextTable] = ()
    lines: Sequence[str] = ()
    about: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    html: str = ""
    code: str = ""
    folded: Sequence[TextTable] = ()

    def draw(self) -> None:
        """Draw tables and lines on stdout."""
        for table in self.tables:
            draw_table(table.columns, table.rows, table.title)
        for line in self.lines:
            say(line)


@dataclass(frozen=True)
class Page:
    """A page of `backfill-assets COMMAND --html`: a head with lines, and sections."""

    command: str
    title: str
    lake: str
    sections: Sequence[PageSection]
    lines: Sequence[str] = ()


@cache
def environment() -> "Environment":
    """Return the templates of this room; they escape all text, and a missing name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("backfill_assets.cli")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def html_of(page: Page) -> str:
    """Return the page as one HTML document, for screens light and dark and for paper."""
    return environment().get_template("page.html.j2").render(page=page)


def write_page(file: Path, page: Page) -> None:
    """Write the page for the readers that `[access]` of the lake allows."""
    write_whole(file, html_of(page))


def write_whole(file: Path, text: str, umask: int | None = None) -> None:
    """Write a file whole or not at all, since a scraper must never see half of it, and name it on stderr.

    `umask` decides who may read it; by default `[access]` of the lake does. Raises ClickException if it cannot.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as opened_file:
            opened_file.write(text)
        os.umask(ours := os.umask(0o077))
        Path(name).chmod(0o666 & ~(ours if umask is None else umask))  # mkstemp gives the owner only
        Path(name).replace(file)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}. It was not written. Name a file that can be.") from None
    aside(f"wrote {file}")
