"""What all commands share: which lake is meant, days as typed, JSON that any terminal shows.
Not here: the commands (`test_app`)."""

import gc
import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli.common import (
    SPAN,
    days_options,
    good_days_tags,
    keep_garbage,
    lake_option,
    lake_root,
    print_json,
    say_cut_periods,
    say_unusable,
)
from backfill_assets.kernel.core.calendars import parse_calendar
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets_tests.builders import STAGING, contract
from backfill_assets_tests.cli.typed import commands
from backfill_assets_tests.lakes import make_lake


@click.group()
@lake_option
def group() -> None:
    """A program with one verb."""


@group.command()
@lake_option
@days_options()
def verb(days: DayRange | None) -> None:
    click.echo(f"{lake_root()} {days}" if days else lake_root())


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ("--from 2024-03-01 --to 2024-03-02", 2),
        ("--days 2024-03-01..2024-03-02", 2),
        ("--partitions 2024-03-01..2024-03-02", 2),
        ("--from 2024-03-01", 1),
        ("--days 2024-03-01", 1),
    ],
)
def test_days_are_typed_with_both_ends_included_or_once_also_as_earlier_releases_spelled_them(
    tmp_path: Path, words: str, last: int
) -> None:
    said = CliRunner().invoke(group, ["--lake", str(tmp_path), "verb", *words.split()])
    assert (
        said.output.strip() == f"{tmp_path} {DayRange(date(2024, 3, 1), date(2024, 3, last + 1))}"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--to 2024-03-01", "the first one is missing"),
        ("--from 2024-03-01 --days 2024-03-01", "leave --from and --to"),
        ("--from 1.3.2024 --to 2024-03-02", "1.3.2024"),
        ("--from 2024-03-02 --to 2024-03-01", "Give the earlier day first"),
    ],
)
def test_days_that_are_none_half_a_range_and_two_of_them_are_wrong_usage(
    words: str, told: str
) -> None:
    said = CliRunner().invoke(group, ["verb", *words.split()])
    assert said.exit_code == 2
    assert told in said.output


def test_a_run_has_a_tag_about_bad_days_only_where_keeping_good_ones_was_asked() -> None:
    assert (good_days_tags(True), good_days_tags(False)) == ({"on_bad_days": "keep_good"}, {})


@pytest.mark.whole_house
def test_every_command_spells_a_range_of_days_alike() -> None:
    """All but `export`, whose --to is a place."""
    spelled = {}
    for name, command in commands():
        options = {o: p for p in command.params if isinstance(p, click.Option) for o in p.opts}
        if any(p.type is SPAN for p in options.values()):
            spelled[name] = {
                o
                for o in ("--from", "--to", "--days", "--partitions")
                if o in options and not options[o].hidden
            }
    assert spelled.pop("export") == {"--days", "--to"}
    assert len(spelled) > 12
    assert {name: o for name, o in spelled.items() if o != {"--from", "--to"}} == {}


def test_json_keeps_text_that_can_be_seen_and_escapes_what_cannot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = {"name": "Zürich ✓", "hidden": "a\u202eb\x1b", "day": date(2024, 3, 1)}
    print_json(document)
    said = capsys.readouterr().out
    assert json.loads(said) == {**document, "day": "2024-03-01"}
    assert "Zürich ✓" in said
    assert "\u202e" not in said
    assert "\x1b" not in said


@pytest.mark.parametrize(("name", "told"), [(None, True), ("a.csv", False), ("a.txt", False)])
def test_nothing_landed_is_said_only_where_no_file_lies(
    tmp_path: Path, name: str | None, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = make_lake(
        tmp_path,
        (),
        "2024-03-01",
        source={"files": "landing/*.csv", "format": "csv", "select": "seq"},
    )
    if name:
        (tmp_path / "landing" / name).write_text("x")
    say_unusable(lake)
    assert (
        "Nothing has landed where lake.toml says: landing/*.csv" in capsys.readouterr().err
    ) is told


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        (date(2024, 2, 20), date(2024, 3, 31), "taken as a whole: 2024-02-01..2024-02-29\n"),
        (date(2024, 2, 1), date(2024, 3, 31), ""),
        (date(2024, 1, 3), date(2024, 1, 9), ""),  # it began before the table
    ],
)
def test_months_that_a_range_cuts_are_named_and_days_and_whole_months_are_not(
    capsys: pytest.CaptureFixture[str], first: date, last: date, told: str
) -> None:
    calendars = {"monthly": "month", "weekdays": "day without saturday, sunday"}
    cut = [replace(contract(n, "d"), calendar=parse_calendar(c)) for n, c in calendars.items()]
    cut[0] = replace(cut[0], first_day=date(2024, 2, 1))
    say_cut_periods([STAGING, *cut], inclusive_range(first, last))
    said = " ".join(capsys.readouterr().err.split())
    assert said == (f"Note: monthly has every month, and each is {told.strip()}" if told else "")
    say_cut_periods(cut, None)
    assert capsys.readouterr().err == ""


def test_a_command_looks_for_no_garbage_and_its_process_does_after_it() -> None:
    seen = list[bool]()

    @click.command()
    def look() -> None:
        keep_garbage()
        seen.append(gc.isenabled())

    assert CliRunner().invoke(look).exit_code == 0
    assert [*seen, gc.isenabled()] == [False, True]
