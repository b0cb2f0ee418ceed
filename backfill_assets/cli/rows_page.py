"""Tables of text as one page: HTML, no script, nothing fetched from anywhere.

Lives here: filling the template. Does not live here: what the tables say (`audit`, `compare`).
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """A table with its title; every cell is a text of its own."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def page(command: str, title: str, lake: str, lines: Sequence[str], tables: Sequence[TextTable]) -> str:
    """The page that a command made, as one self-contained HTML document."""
    from backfill_assets.cli.pages import environment

    template = environment().get_template("rows.html.j2")
    return template.render(command=command, title=title, lake=lake, lines=lines, tables=tables)
