"""What all commands share: which lake is meant, days as typed, JSON that any terminal shows.

Tested here: `cli.common` under a command of its own. Not tested here: the commands (`test_app`).
"""

import json
from datetime import date
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli.common import days_options, inclusive, lake_option, lake_root, print_json
from backfill_assets.core.days import DayRange


@click.group()
@lake_option
def group() -> None:
    """A program with one verb."""


@group.command()
@lake_option
@days_options(required=False)
def verb(first: date | None, last: date) -> None:
    click.echo(f"{lake_root()} {inclusive(first, last)}" if first else lake_root())


@pytest.mark.parametrize(
    "args", [["--lake", "{}", "verb"], ["verb", "--lake", "{}"], ["--lake", "/x", "verb", "--lake", "{}"]]
)
def test_the_lake_may_be_named_before_and_after_the_verb_and_the_last_word_counts(
    tmp_path: Path, args: list[str]
) -> None:
    said = CliRunner().invoke(group, [a.format(tmp_path) for a in args])
    assert said.output.strip() == str(tmp_path)


def test_days_are_typed_with_both_ends_included(tmp_path: Path) -> None:
    days = ["--from", "2024-03-01", "--to", "2024-03-01"]
    said = CliRunner().invoke(group, ["--lake", str(tmp_path), "verb", *days])
    assert said.output.strip() == f"{tmp_path} {DayRange(date(2024, 3, 1), date(2024, 3, 2))}"


@pytest.mark.parametrize(
    ("first", "last", "told"), [("1.3.2024", "2024-03-02", "1.3.2024"), ("2024-03-02", "2024-03-01", "2024-03-01")]
)
def test_days_that_are_none_and_ranges_that_end_too_early_are_wrong_usage(first: str, last: str, told: str) -> None:
    said = CliRunner().invoke(group, ["verb", "--from", first, "--to", last])
    assert said.exit_code == 2
    assert told in said.output


def test_json_keeps_text_that_can_be_seen_and_escapes_what_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"name": "Zürich ✓", "hidden": "a\u202eb\x1b", "day": date(2024, 3, 1)}
    print_json(document)
    said = capsys.readouterr().out
    assert json.loads(said) == {**document, "day": "2024-03-01"}
    assert "Zürich ✓" in said
    assert "\u202e" not in said
    assert "\x1b" not in said
