"""The README does what it says: its commands run, its settings are read, its links exist.

Tested here: every fenced block. The two commands of the first block make an environment and run this very test; what
they call is run here without that (`demo`), and by `.ci/run` with it.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.app import COMMANDS
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.states import State
from backfill_assets.lake.settings import load_settings
from backfill_assets.reading import open_lake
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.processes import CHECKOUT

pytestmark = pytest.mark.users_do
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
DAYS = 14
MAY_FIND = (
    "doctor", "landing", "mend", "replay-late", "rollback", "release",
)  # exit code 1: found something, or nothing to do  # fmt: skip
# Asked for their help alone: they would not end, or need a table of others, a bucket or a catalog. What runs them is
# `cli.test_server`, `end_to_end.test_adopted_tables`, `end_to_end.test_copy_lake` and `lake.test_catalog`.
ONLY_HELP = ("ui", "adopt", "copy-lake", "register", "locate")
COMMAND_SECONDS = 300.0
MOST_LINES = 180
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
    """The sample lake, made by the README's first command, and what that printed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / ".lake"
        self.env = {**os.environ, "DAGSTER_HOME": str(folder / "home"), "PYTHONPATH": str(CHECKOUT),
                    "DAGSTER_DISABLE_TELEMETRY": "1"}  # fmt: skip
        make_home(folder / "home")
        self.printed = self.run("demo", "--days", str(DAYS)).stdout
        self.first = date.fromisoformat(json.loads((self.root / ".demo").read_text())["first"])

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "backfill_assets", "--lake", str(self.root), *args], cwd=self.folder, env=self.env,
            capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The sample lake with its server, which is stopped at the end."""
    demo = Demo(tmp_path_factory.mktemp("readme"))
    yield demo
    demo.run("server", "stop")


def test_the_demo_prints_what_the_readme_shows(spark_server: Demo) -> None:
    shown = next(block for block in blocks("") if "rows of" in block)
    printed = [line.split() for line in spark_server.printed.splitlines()]
    for line in shown.splitlines():
        if re.match(r"(rows of|lines|table) ", line):
            assert line.split() in printed, line
    reasons = [line.split(maxsplit=1)[1] for line in shown.splitlines() if re.match(r" +\d+  \D", line)]
    assert reasons
    assert all(reason in spark_server.printed for reason in reasons)
    assert "See both runs in Dagster:" in spark_server.printed


def test_every_command_of_the_guide_commands_runs(spark_server: Demo, tmp_path: Path) -> None:
    first = spark_server.first
    known = {"2024-03-01": first + ONE_DAY * 2, "2024-03-03": first + ONE_DAY * 4, "2024-03-05": first + ONE_DAY * 5,
             "2024-03-31": first + ONE_DAY * 6}  # fmt: skip
    ran = []
    for command in commands():
        args = [str(known[arg]) if arg in known else str(tmp_path / "new") if arg == "DIR" else arg for arg in command]
        if "ID" in args:
            args[args.index("ID")] = json.loads(spark_server.run("plan", "list", "--json").stdout)[-1]["id"]
        more = {"plan": ["--force"], **{key: ["--help"] for key in ONLY_HELP}}  # all days are right
        done = spark_server.run(*args, *more.get(command[0], []))
        assert done.returncode in ((0, 1) if command[0] in MAY_FIND else (0,)), (command, done.stderr)
        assert not any(word in done.stderr for word in ("Traceback", "leaked")), (command, done.stderr)
        ran.append(command[0])
        assert all((spark_server.folder / arg).is_file() for arg in command if arg.endswith(".html"))
    assert set(ran) == set(COMMANDS) - {"demo"}, "the guide names every command, and no other"


def test_the_project_of_the_readme_keeps_its_days_in_a_lake(tmp_path: Path) -> None:
    (shown,) = blocks("python")
    (tmp_path / "shop.py").write_text(shown)
    (tmp_path / "landing").mkdir()
    days = [f"2024-03-0{n}" for n in range(1, 4)]
    landed = (json.dumps({"day": day, "id": one, "cents": 5}) for day in days for one in "ab")
    (tmp_path / "landing/orders.json").write_text("\n".join(landed))
    env = {**os.environ, "DAGSTER_HOME": "", "PYTHONPATH": str(CHECKOUT), "DAGSTER_DISABLE_TELEMETRY": "1"}
    chosen = ["--select", "orders", "--partition-range", f"{days[0]}...{days[-1]}"]
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "asset", "materialize", "-f", "shop.py", *chosen], cwd=tmp_path, env=env,
        capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert open_lake(tmp_path / "lake").table("orders").days(days[0], days[-1]).arrow().num_rows == 6


def test_the_settings_that_the_readme_shows_are_read(tmp_path: Path) -> None:
    (shown,) = blocks("toml")
    (tmp_path / "lake.toml").write_text(shown)
    settings = load_settings(tmp_path)
    assert settings.start_date == date(2013, 10, 1)
    assert settings.features.windows_days == (7, 28)


def test_the_readme_can_be_read_at_one_sitting() -> None:
    lines = README.splitlines()
    assert len(lines) <= MOST_LINES
    assert any("LakeIOManager" in line for line in lines[:FIRST_SCREEN])


def test_what_the_readme_points_to_exists() -> None:
    for place in re.findall(r'src="([^"]+)"', README):
        assert (CHECKOUT / place).is_file(), place
    places = re.findall(r"`(backfill_assets(?:_tests)?/[\w/.]+)`", README) + re.findall(r"\]\(([^#)][^)]*)\)", README)
    for place in (p.partition("#")[0] for p in places if not p.startswith("https:")):
        assert (CHECKOUT / place).exists(), place


def test_the_readme_names_every_asset_and_state() -> None:
    for name in ("raw", "staging", "features", "features_as_known", "labels", "training"):
        assert f"`{name}`" in README
    for state in State:
        assert f"`{state.value}`" in README
