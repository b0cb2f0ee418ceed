"""README's table "What happens if": every row is held by tests, which `what_happens.md` names.

Not here: the tests themselves, which lie where what they stop, kill or break lies.
"""

import re

import pytest

from backfill_assets_tests.sources import CHECKOUT, TESTS
from backfill_assets_tests.test_security import TEST, named_in

HEADING = "## What happens if …"
FIRST_CELL = re.compile(r"(?m)^\| (.+?) \|")
HELD = re.compile(r"(?m)^\| (.+?) \| (`.+`) \|$")


def situations() -> list[str]:
    """The first cell of each row of README's table."""
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    table = readme.partition(HEADING)[2].partition("\n## ")[0]
    return FIRST_CELL.findall(table)[1:]


def held() -> dict[str, list[tuple[str, str]]]:
    """By situation the file and the name of each test."""
    rows = HELD.findall((CHECKOUT / TESTS / "what_happens.md").read_text("utf-8"))
    return {situation: TEST.findall(cell) for situation, cell in rows}


def test_every_row_of_the_readme_is_held_by_a_test() -> None:
    assert len(situations()) > 10
    assert situations() == list(held())
    assert all(held().values())


@pytest.mark.whole_house
def test_every_test_that_holds_a_row_exists() -> None:
    named = [test for tests in held().values() for test in tests]
    assert [(file, name) for file, name in named if name not in named_in(file)] == []
