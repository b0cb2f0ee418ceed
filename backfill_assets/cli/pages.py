"""What all HTML pages share: templates that escape, filters that spell numbers, and writing a file whole.

Lives here: the template environment and the one door by which drawn pictures pass unescaped. Does not live here: any
page. Whatever text comes from a lake is escaped, and the pages' own policy forbids what an escape that was forgotten
could do.
"""

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.drawing import aside, percent, span, wanted

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@cache
def environment() -> "Environment":
    """The templates of this room, with their filters; a name that is not given is an error. Each is compiled once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from backfill_assets.operations.lateness import DAY_S, in_days

    made = Environment(
        loader=PackageLoader("backfill_assets.cli"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        percent=percent, wanted=wanted, span=span, number="{:,}".format, days=in_days, seconds=lambda s: span(s / DAY_S)
    )
    return made


def drawn(pictures: Mapping[str, str]) -> "dict[str, Markup]":
    """SVG as part of a page: the only text that is not escaped, drawn by us from numbers and days."""
    from markupsafe import Markup

    return {name: Markup(svg) for name, svg in pictures.items()}  # noqa: S704


def write_whole(file: Path, text: str, umask: int | None = None) -> None:
    """Write whole or not at all: who scrapes the file must never see half of it. Says so on stderr.

    Readable by whom the lake lets read (`[access]`), or as `umask` says.
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
