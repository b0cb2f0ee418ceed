"""A command that reports: one answer for a terminal, a program and a file; what nobody asked for is not computed.

Tested here: `cli.output`. Not tested here: what commands report, and drawing (`test_drawing`, `test_pages`).
"""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli.drawing import PageSection, TextTable
from backfill_assets.cli.output import Output, Part, reporting


@click.command()
@click.option("--broken", is_flag=True)
@reporting("html", "prometheus")
def command(broken: bool) -> Output:
    """Report."""
    section = PageSection("Rows", [TextTable(("rows",), [(7,)])])
    parts: list[Part] = ["a line", section, lambda: click.echo("drawn by hand")]
    return Output({"rows": 7}, parts, broken, {"html": lambda file: write(file, "page"), "prometheus": never})


def write(file: Path, text: str) -> None:
    file.write_text(text)


def never(_: Path) -> None:
    raise AssertionError("nobody asked for it")


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--broken",), 1)])
def test_people_get_lines_and_sections_and_an_exit_code(words: tuple[str, ...], code: int) -> None:
    told = CliRunner().invoke(command, words)
    assert (told.stdout.splitlines(), told.exit_code) == (["a line", "rows", "   7", "drawn by hand"], code)


def test_a_program_gets_the_document_alone_also_beside_a_file(tmp_path: Path) -> None:
    told = CliRunner().invoke(command, ["--json", "--broken", "--html", str(file := tmp_path / "page.html")])
    assert (json.loads(told.stdout), told.exit_code, file.read_text()) == ({"rows": 7}, 1, "page")


def test_a_file_takes_the_place_of_the_terminal(tmp_path: Path) -> None:
    told = CliRunner().invoke(command, ["--html", str(file := tmp_path / "page.html")])
    assert (told.stdout, told.exit_code, file.read_text()) == ("", 0, "page")
