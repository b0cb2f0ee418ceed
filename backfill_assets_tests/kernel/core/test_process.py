"""Programs of this package never begin with modules that lie where they start.

Tested here: `kernel.core.process`, that whatever starts Python asks it, and which lake is meant.
Not tested here: servers (`engines.test_launch`).
"""

import ast
import os
import subprocess
from pathlib import Path

import pytest

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.process import (
    DEFAULT_FOLDER,
    LAKE_VARIABLE,
    environment_with_package,
    imported_when_used,
    lake_folder,
    python_command,
)
from backfill_assets_tests.processes import CHECKOUT, run_python
from backfill_assets_tests.sources import PACKAGE, sources

# They start nothing with it, or keep the working folder out by other means.
WITHOUT = {"cli.surroundings", "orchestration.dagster_private_launch"}
OWN_FOLDER = {"cli.waiting"}  # in the folder of this very package


@pytest.mark.usefixtures("processes")
def test_the_working_folder_imports_only_what_users_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("hostile/backfill_assets", "named/backfill_assets"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").write_text("raise SystemExit('hostile')")
    for name in ("json", "click"):
        (tmp_path / "hostile" / f"{name}.py").write_text("raise SystemExit('hostile')")
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join(["", "named", "."])
    environ = environment_with_package({**os.environ, "PYTHONPATH": path})
    assert environ["PYTHONPATH"].split(os.pathsep)[1:] == [str(tmp_path / "named"), str(tmp_path)]
    command = python_command("backfill_assets", "--version")
    done = subprocess.run(
        command, cwd="hostile", env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "version" in done.stdout


def test_whatever_starts_python_here_leaves_the_working_folder_out() -> None:
    named = {
        f.module.removeprefix(f"{PACKAGE}.")
        for f in sources(PACKAGE)
        if "sys.executable" in f.text
        for node in f.of(ast.Attribute)
        if ast.unparse(node) == "sys.executable"
    }
    assert named - WITHOUT - OWN_FOLDER == {"kernel.core.process"}


PRINT_FOLDERS = """
    import sys
    from backfill_assets.kernel.core.process import lake_folder
    print(lake_folder(sys.argv[1]), lake_folder(), sep="\\n")
"""


@pytest.mark.usefixtures("processes")
def test_the_lake_named_wins_over_the_variable_and_the_variable_over_the_default(
    tmp_path: Path,
) -> None:
    named, variable = (tmp_path / "named").resolve(), (tmp_path / "variable").resolve()
    for value, expected in ((str(variable), variable), ("", CHECKOUT / DEFAULT_FOLDER)):
        found = run_python(PRINT_FOLDERS, named, env={LAKE_VARIABLE: value}).splitlines()
        assert found == [str(named), str(expected)]


def test_a_home_folder_is_spelled_out() -> None:
    assert lake_folder("~/lake") == (Path.home() / "lake").resolve()


def test_a_name_comes_from_the_module_that_has_it_and_another_one_is_no_attribute() -> None:
    find = imported_when_used("backfill_assets", {"kernel.core.days": ("DayRange",)})
    assert find("DayRange") is DayRange
    with pytest.raises(
        AttributeError, match="module 'backfill_assets' has no attribute 'some_days'"
    ):
        find("some_days")
