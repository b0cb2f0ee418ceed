"""The README does what it says: its commands run, its settings are read, its links exist.

Tested here: the project as it is printed, and what `demo` leaves, by every command of the guide
*Commands*. Not here: what makes a wheel or an environment (`test_packaging`, `.ci/run`), and what
`demo` prints (the guide *First lake*).
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.app import all_commands
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.states import State
from backfill_assets_tests.end_to_end.steps import Step, run_steps
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.processes import CHECKOUT, run

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("readme")]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
DAYS = 14
MAY_FIND = (
    "doctor",
    "landing",
    "mend",
    "replay-late",
    "rollback",
    "release",
)  # exit code 1: found something, or nothing to do
# Asked for their help alone: they would not end, or need a table of others, a bucket or a catalog.
# What runs them is `cli.test_server`, `end_to_end.test_adopted_tables`, `end_to_end.test_copy_lake`,
# `foreign.test_catalog` and `iceberg.test_mirror_command`.
ONLY_HELP = ("agent", "ui", "adopt", "copy-lake", "register", "locate", "mirror")
COMMAND_SECONDS = 300.0
MOST_LINES = 150
FIRST_SCREEN = 25  # lines


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language (empty: of none), in their order."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```\n", README, re.MULTILINE | re.DOTALL)
    return [block for spoken, block in fenced if spoken == language]


def commands() -> list[list[str]]:
    """Every `backfill-assets …` line of the guide *Commands*, without the comment behind it."""
    guide = (CHECKOUT / "backfill_assets/guides/commands.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ (backfill-assets .*)$", guide, re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


class Demo:
    """The sample lake, made by the README's command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / ".lake"
        self.env = {
            **os.environ,
            "DAGSTER_HOME": str(folder / "home"),
            "PYTHONPATH": str(CHECKOUT),
            "DAGSTER_DISABLE_TELEMETRY": "1",
        }
        make_home(folder / "home")
        self.run("demo", "--days", str(DAYS))
        self.first = date.fromisoformat(json.loads((self.root / ".demo").read_text())["first"])

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        words = ("-m", "backfill_assets", "--lake", str(self.root), *args)
        return run(*words, cwd=self.folder, env=self.env, timeout=COMMAND_SECONDS)


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The sample lake with its server, which is stopped at the end."""
    demo = Demo(tmp_path_factory.mktemp("readme"))
    yield demo
    demo.run("server", "stop")


def test_every_command_of_the_guide_commands_runs(spark_server: Demo, tmp_path: Path) -> None:
    first = spark_server.first
    known = {
        "2024-03-01": first + ONE_DAY * 2,
        "2024-03-03": first + ONE_DAY * 4,
        "2024-03-05": first + ONE_DAY * 5,
        "2024-03-31": first + ONE_DAY * 6,
    }
    ran = []
    for command in commands():
        args = [
            str(known[arg]) if arg in known else str(tmp_path / "new") if arg == "DIR" else arg
            for arg in command
        ]
        if "ID" in args:
            args[args.index("ID")] = json.loads(spark_server.run("plan", "list", "--json").stdout)[
                -1
            ]["id"]
        more = {"plan": ["--force"], **{key: ["--help"] for key in ONLY_HELP}}  # all days are right
        done = spark_server.run(*args, *more.get(command[0], []))
        assert done.returncode in ((0, 1) if command[0] in MAY_FIND else (0,)), (
            command,
            done.stderr,
        )
        assert not any(word in done.stderr for word in ("Traceback", "leaked")), (
            command,
            done.stderr,
        )
        ran.append(command[0])
        assert all(
            (spark_server.folder / arg).is_file() for arg in command if arg.endswith(".html")
        )
    assert set(ran) == set(all_commands()) - {"demo"}, "the guide names every command, and no other"


def test_the_project_of_the_readme_prints_what_the_readme_shows(tmp_path: Path) -> None:
    (project,), (shown,) = blocks("python"), blocks("")
    (shell,) = (block for block in blocks("bash") if "dg launch" in block)
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders/orders.py").write_text(project)
    (printed,) = run_steps([Step(shell, shown)], tmp_path / "orders", {"DAGSTER_HOME": ""})
    assert printed.endswith(shown)


def test_the_readme_can_be_read_at_one_sitting() -> None:
    lines = README.splitlines()
    assert len(lines) <= MOST_LINES
    assert any("LakeIOManager" in line for line in lines[:FIRST_SCREEN])


def test_what_the_readme_points_to_exists() -> None:
    for place in re.findall(r'src="([^"]+)"', README):
        assert (CHECKOUT / place).is_file(), place
    places = re.findall(r"`(backfill_assets(?:_tests)?/[\w/.]+)`", README) + re.findall(
        r"\]\(([^#)][^)]*)\)", README
    )
    for place in (p.partition("#")[0] for p in places if not p.startswith("https:")):
        assert (CHECKOUT / place).exists(), place


def test_the_readme_names_every_asset_and_state() -> None:
    for name in ("raw", "staging", "features", "features_as_known", "labels", "training"):
        assert f"`{name}`" in README
    for state in State:
        assert f"`{state.value}`" in README
