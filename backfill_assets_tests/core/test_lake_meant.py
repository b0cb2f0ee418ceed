"""Which lake is meant when none is named, and which one the words of a command name before anybody has read them.

Tested here: `core.lake_meant`. Not tested here: what a lake is (`lake.test_home`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.lake_meant import DEFAULT_FOLDER, LAKE_VARIABLE, lake_folder, named_in, project_root
from backfill_assets_tests.processes import CHECKOUT, run_python

PRINT_FOLDERS = """
    import sys
    from backfill_assets.core.lake_meant import lake_folder
    print(lake_folder(sys.argv[1]), lake_folder(), sep="\\n")
"""


@pytest.mark.usefixtures("processes")
def test_the_lake_named_wins_over_the_variable_and_the_variable_over_the_default(tmp_path: Path) -> None:
    named, variable = (tmp_path / "named").resolve(), (tmp_path / "variable").resolve()
    for value, expected in ((str(variable), variable), ("", CHECKOUT / DEFAULT_FOLDER)):
        found = run_python(PRINT_FOLDERS, named, env={LAKE_VARIABLE: value}).splitlines()
        assert found == [str(named), str(expected)]


def test_a_home_folder_is_spelled_out() -> None:
    assert lake_folder("~/lake") == (Path.home() / "lake").resolve()


def test_the_project_is_this_checkout() -> None:
    assert project_root() == CHECKOUT
    assert (CHECKOUT / DEFAULT_FOLDER).name.startswith("."), "hidden, and ignored by git"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("status", None),
        ("--lake a status", "a"),
        ("status --lake a", "a"),
        ("--lake=a status", "a"),
        ("--lake a status --lake=b", "b"),
        ("--lake a status --lake=", "a"),
        ("status --lake", None),
    ],
)
def test_the_last_lake_among_the_words_of_a_command_is_the_one_named(words: str, named: str | None) -> None:
    assert named_in(words.split()) == named
