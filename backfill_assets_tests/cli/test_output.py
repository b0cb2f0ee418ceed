"""A command that reports: one answer for a terminal, a program and a file; options are declared
once, and typed. Not here: what commands report, and drawing (`test_drawing`)."""

import json
from pathlib import Path
from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel, Field

from backfill_assets.cli.drawing import PageSection, TextTable
from backfill_assets.cli.output import Output, Part, entered_options, options_of, reporting_command
from backfill_assets.plans.in_dagster import RollbackConfig
from backfill_assets.plans.plan_command import plan
from backfill_assets.plans.plan_job import BackfillConfig
from backfill_assets.plans.policy import Policy, PolicyOptions, RollbackOptions
from backfill_assets.plans.rollback import RollbackRequest
from backfill_assets.plans.rollback_command import rollback


@click.command()
@click.option("--broken", is_flag=True)
@reporting_command("html", "prometheus")
def command(broken: bool) -> Output:
    """Report."""
    section = PageSection("Rows", [TextTable(("rows",), [(7,)])])
    parts: list[Part] = ["a line", section, lambda: click.echo("drawn by hand")]
    return Output(
        {"rows": 7}, parts, broken, {"html": lambda file: write(file, "page"), "prometheus": never}
    )


def write(file: Path, text: str) -> None:
    file.write_text(text)


def never(_: Path) -> None:
    raise AssertionError("nobody asked for it")


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--broken",), 1)])
def test_people_get_lines_and_sections_and_an_exit_code(words: tuple[str, ...], code: int) -> None:
    told = CliRunner().invoke(command, words)
    assert (told.stdout.splitlines(), told.exit_code) == (
        ["a line", "rows", "   7", "drawn by hand"],
        code,
    )


def test_a_program_gets_the_document_alone_also_beside_a_file(tmp_path: Path) -> None:
    told = CliRunner().invoke(
        command, ["--json", "--broken", "--html", str(file := tmp_path / "page.html")]
    )
    assert (json.loads(told.stdout), told.exit_code, file.read_text()) == ({"rows": 7}, 1, "page")


def test_a_file_takes_the_place_of_the_terminal(tmp_path: Path) -> None:
    told = CliRunner().invoke(command, ["--html", str(file := tmp_path / "page.html")])
    assert (told.stdout, told.exit_code, file.read_text()) == ("", 0, "page")


class Soup(BaseModel):
    pot: Literal["small", "large"] = Field(default="small", description="Its size.")
    salt: int | None = Field(
        default=None, description="Grams.", json_schema_extra={"range": [0, 9]}
    )
    stir: bool = Field(default=False, description="Now and then.")
    herbs: list[str] = Field(
        default=[], description="Again.", json_schema_extra={"option": "herb", "aliases": ["-h"]}
    )
    cooks: int = Field(
        default=1, description="At once.", json_schema_extra={"default": "by hunger"}
    )


def cooked(*words: str) -> tuple[dict[str, Any], str]:
    """What a command with the options of `Soup` was given, and its output."""
    found: dict[str, Any] = {}

    @click.command()
    @options_of(Soup)
    def cook(**options: Any) -> None:
        found.update(entered_options(Soup, options))

    return found, CliRunner().invoke(cook, words).output


def test_only_what_is_typed_counts_as_given_also_a_zero() -> None:
    assert cooked() == ({}, "")
    words = ("--pot", "large", "--salt", "0", "--stir", "--herb", "dill", "-h", "bay")
    assert cooked(*words)[0] == {"pot": "large", "salt": 0, "stir": True, "herbs": ["dill", "bay"]}


def test_help_names_type_bounds_and_default() -> None:
    shown = " ".join(cooked("--help")[1].split())
    assert "--pot [small|large] Its size. [default: small]" in shown
    assert "--salt INTEGER RANGE Grams. [0<=x<=9]" in shown
    assert "--cooks INTEGER At once. [default: by hunger]" in shown


@pytest.mark.parametrize("words", [("--salt", "10"), ("--pot", "huge"), ("--cooks", "two")])
def test_a_value_of_no_such_type_is_wrong_usage(words: tuple[str, ...]) -> None:
    assert cooked(*words)[1].splitlines()[-1].startswith(f"Error: Invalid value for '{words[0]}'")


@pytest.mark.parametrize(
    ("declared", "command", "config", "request_of"),
    [
        (PolicyOptions, plan, BackfillConfig, Policy),
        (RollbackOptions, rollback, RollbackConfig, RollbackRequest),
    ],
)
def test_an_option_is_declared_once_for_the_command_the_launchpad_and_what_they_ask_for(
    declared: type[BaseModel],
    command: click.Command,
    config: type[BaseModel],
    request_of: type[BaseModel],
) -> None:
    typed = [
        (option.name, option.help or "")
        for option in command.params
        if isinstance(option, click.Option)
    ]
    for name, field in declared.model_fields.items():
        assert config.model_fields[name].description == field.description
        assert request_of.model_fields[name].default == field.default
        assert any(
            option == name and text.startswith(field.description or "-") for option, text in typed
        )
