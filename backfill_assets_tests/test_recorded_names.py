"""Names of this package that stand in files of others: their settings, Dagster's, their queries and
what pip installed.

Tested here: console scripts, entry points and extras, modules that `lake.toml`, `dagster.yaml` and
`workspace.yaml` of anybody name, and the columns of system tables; pinned in `recorded_names.txt`.
Not tested here: public names and their signatures (`test_public_surface.py`), commands
(`cli/words.txt`), keys of `--json` and a lake's files (`end_to_end`).
"""

import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

from backfill_assets.testing import new_lake
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.pins import hold_pin
from backfill_assets_tests.sources import CHECKOUT

PINNED = Path(__file__).with_name("recorded_names.txt")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECORDED = re.compile(r"^module: (\S+?)(?::(\w+))?$")
COLUMNS = 'SELECT "table", "column", type FROM system.columns ORDER BY ALL'


def installed_names() -> list[str]:
    """What pip writes down when it installs the package."""
    scripts = [f"script: {name} = {target}" for name, target in PROJECT["scripts"].items()]
    groups = PROJECT["entry-points"].items()
    points = [
        f"entry point: {group}: {name} = {target}"
        for group, of in groups
        for name, target in of.items()
    ]
    return [*scripts, *points, *(f"extra: {extra}" for extra in PROJECT["optional-dependencies"])]


def system_columns(folder: Path) -> list[str]:
    """Each column of each system table, as a query answers."""
    new_lake(folder, "2024-03-01", assets_only=True)
    answer = run("sql", COLUMNS, "--rows", 1000, "--json", "--lake", folder)
    rows = json.loads(answer.stdout)
    return [f"column: system.{row['table']}.{row['column']} {row['type']}" for row in rows]


@pytest.mark.slow
def test_names_that_stand_in_files_of_others_are_the_same(tmp_path: Path) -> None:
    modules = [
        line for line in PINNED.read_text(encoding="utf-8").splitlines() if RECORDED.match(line)
    ]
    hold_pin(PINNED, [*installed_names(), *modules, *system_columns(tmp_path)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [line for line in PINNED.read_text("utf-8").splitlines() if RECORDED.match(line)]
)
def test_modules_that_stand_in_files_of_others_are_found_there(line: str) -> None:
    found = RECORDED.match(line)
    assert found is not None
    module, name = found.groups()
    assert hasattr(importlib.import_module(module), name or "__doc__")
