"""What a command found, and its writers: people's terminal, JSON, and files (a page, metrics for a scraper, Parquet).

Not here: tables and pages (`drawing`), metrics (`metrics`), and what is found (each command).
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.common import FILE, json_and_lake, print_json
from backfill_assets.cli.drawing import PageSection, say

HELP = {
    "html": "Write a page: one file, no network.",
    "prometheus": "Write metrics in Prometheus' text format.",
    "parquet": "Write the table `audit`, a row per write and day, for any engine.",
}
Part = str | PageSection | Callable[[], None]  # a line, a section, or what draws itself
HANG = 2  # characters: where a line goes on that does not fit


@dataclass(frozen=True)
class Output:
    """What a command found. A writer that nobody asked for computes nothing."""

    document: Any  # for `--json`; or what makes it
    parts: Iterable[Part] = ()  # for people
    failed: bool = False  # whether the command ends with exit code 1
    files: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)  # what writes a file, by its option


def reporting(*files: str) -> Callable[[Callable[..., Output]], Callable[..., None]]:
    """Return a decorator for commands that return Output: adds `--json`, `--lake` and an option per kind of `files`.

    People get nothing on the terminal where a file was asked for.
    """

    def decorate(command: Callable[..., Output]) -> Callable[..., None]:
        @functools.wraps(command)
        def reported(*args: Any, as_json: bool, **options: Any) -> None:
            asked = {name: path for name in files if (path := options.pop(name)) is not None}
            output = command(*args, **options)
            for name, path in asked.items():
                output.files[name](path)
            if as_json:
                print_json(output.document() if callable(output.document) else output.document)
            elif not asked:
                draw(output.parts)
            if output.failed:
                click.get_current_context().exit(1)

        for name in reversed(files):
            reported = click.option(f"--{name}", type=FILE, help=HELP[name])(reported)
        return json_and_lake(reported)

    return decorate


def draw(parts: Iterable[Part]) -> None:
    """Draw parts on stdout."""
    for part in parts:
        if isinstance(part, str):
            say(part, HANG)
        elif isinstance(part, PageSection):
            part.draw()
        else:
            part()
