"""Commands and options are what people's scripts are made of: each one stands in `words.txt`. Not
here: that a command does what it says (its own test), and the keys of `--json`
(`end_to_end/test_json_keys.py`). Where a word is new, the file gets it, and the changelog a line;
one that goes breaks somebody's script."""

from pathlib import Path

import click
import pytest

from backfill_assets_tests.cli.typed import commands
from backfill_assets_tests.pins import hold_pin

PINNED = Path(__file__).with_name("words.txt")


def words_of(command: click.Command) -> str:
    """Its arguments in their order, then its options by name with their short forms."""
    arguments = [p.human_readable_name for p in command.params if isinstance(p, click.Argument)]
    options = [
        "/".join([*p.opts, *p.secondary_opts])
        for p in command.params
        if isinstance(p, click.Option)
    ]
    return " ".join([*arguments, *sorted(options)])


@pytest.mark.whole_house
def test_every_command_and_option_stands_in_the_list() -> None:
    found = [f"{name}: {words_of(command)}".strip() for name, command in commands()]
    hold_pin(PINNED, found)
