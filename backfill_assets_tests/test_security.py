"""The table of security checks, `security.md`: every row names tests that exist, or says why it has
none.

Not here: the checks themselves, which lie beside what they check.
"""

import ast
import re
from functools import cache

import pytest

from backfill_assets_tests.sources import CHECKOUT, TESTS

ROW = re.compile(r"\| (\d+) \| (.+?) \| (.+) \|")
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
WITHOUT = "no test: "
ROWS = [
    found.groups()
    for line in (CHECKOUT / TESTS / "security.md").read_text("utf-8").splitlines()
    if (found := ROW.fullmatch(line))
]


@cache
def named_in(file: str) -> frozenset[str]:
    """The names of the tests of a file; empty where there is none of that name."""
    path = CHECKOUT / TESTS / file
    tree = ast.parse(path.read_text("utf-8") if path.exists() else "")
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.whole_house
def test_every_test_that_the_table_names_exists() -> None:
    named = [(number, file, name) for number, _, cell in ROWS for file, name in TEST.findall(cell)]
    assert [row for row in named if row[2] not in named_in(row[1])] == []
    assert len(named) > 100


def test_every_row_names_tests_or_says_why_it_has_none() -> None:
    unsaid = [number for number, _, cell in ROWS if not TEST.findall(cell)]
    reasons = {
        number for number, _, cell in ROWS if len(cell.removeprefix(WITHOUT)) < len(cell) > 30
    }
    assert set(unsaid) == reasons


def test_every_check_has_one_row() -> None:
    numbers = [int(number) for number, _, _ in ROWS]
    assert sorted(numbers) == [*range(1, len(numbers) + 1)]
