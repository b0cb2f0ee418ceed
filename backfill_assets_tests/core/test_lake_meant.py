"""Which lake is meant when none is named.

Tested here: `core.process`. Not tested here: what a lake is (`lake.test_home`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.process import DEFAULT_FOLDER, LAKE_VARIABLE, lake_folder, project_root
from backfill_assets_tests.processes import CHECKOUT, run_python

PRINT_FOLDERS = """
    import sys
    from backfill_assets.core.process import lake_folder
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
