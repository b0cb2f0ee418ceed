"""The wheel: what lies in it, what its metadata says, and that its commands work far from the
checkout. Not here: installing it (a person or `.ci/env.py` does), and what the commands do."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from backfill_assets_tests.drawn_ways import drawn_steps
from backfill_assets_tests.sources import CHECKOUT, PACKAGE, sources

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (CHECKOUT / PACKAGE / "CHANGELOG.md").read_text(encoding="utf-8")
MOST_LINES_OF_CHANGELOG = 120
LONGEST_LINE_OF_CHANGELOG = 400
# No line imports them: the one names the jars by its version, the other is found by its name where
# it is installed.
DECLARED_FOR_OTHER_REASONS = {"delta-spark", "adbc-driver-postgresql"}
COMES_WITH = {"grpcio": "pyspark", "markupsafe": "jinja2"}  # and is declared there


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, processes: None) -> zipfile.ZipFile:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def _metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    there = {
        p.relative_to(CHECKOUT).as_posix() for p in (CHECKOUT / PACKAGE).rglob("*") if p.is_file()
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in there if "__pycache__" not in name}
    assert {
        f"{PACKAGE}/py.typed",
        f"{PACKAGE}/cli/templates/dagster.yaml",
        f"{PACKAGE}/CHANGELOG.md",
    } <= packed


def test_the_licence_and_the_readme_are_in_the_wheels_metadata(wheel: zipfile.ZipFile) -> None:
    metadata = _metadata(wheel)
    assert metadata["License-Expression"] == "MIT"
    (place,) = [
        n for n in wheel.namelist() if n.endswith(f".dist-info/licenses/{metadata['License-File']}")
    ]
    assert wheel.read(place) == (CHECKOUT / PACKAGE / "LICENSE").read_bytes()
    assert wheel.read(place).startswith(b"MIT License")
    assert metadata["Version"] == PROJECT["version"]
    assert metadata.get_payload() == (CHECKOUT / "README.md").read_text(encoding="utf-8")


def test_the_commands_of_the_wheel_run_far_from_the_checkout(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    unpacked, elsewhere = tmp_path / "unpacked", tmp_path / "elsewhere"
    wheel.extractall(unpacked)
    elsewhere.mkdir()
    env = {**os.environ, "PYTHONPATH": str(unpacked), "PYTHONSAFEPATH": "1"}

    def said(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, *args],
            cwd=elsewhere,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert Path(said("-c", f"import {PACKAGE} as p; print(p.__file__)").strip()).is_relative_to(
        unpacked
    )
    assert said("-m", PACKAGE, "--version").split()[-1] == PROJECT["version"]
    said("-m", PACKAGE, "init", "--lake", "lake")
    assert json.loads(said("-m", PACKAGE, "status", "--lake", "lake", "--json"))["totals"]


def test_the_changelog_tells_of_this_version_and_of_every_one_before() -> None:
    told = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", CHANGELOG, re.MULTILINE)
    versions = [version for version, _ in told]
    assert versions == ["Unreleased", PROJECT["version"], "0.2.0", "0.1.0"]
    assert all(day for version, day in told if version != "Unreleased")


def test_the_changelog_stays_one_that_a_stranger_reads() -> None:
    """A merge by union can bring back what a release took out."""
    lines = CHANGELOG.splitlines()
    assert len(lines) <= MOST_LINES_OF_CHANGELOG, (
        "Take main's CHANGELOG.md and put your own line below [Unreleased]: "
        f"{len(lines)} lines are no page that is read."
    )
    assert max(map(len, lines)) <= LONGEST_LINE_OF_CHANGELOG


def test_each_step_that_how_it_works_draws_is_a_function_of_the_package() -> None:
    """Who renames or moves one corrects the drawing."""
    texts = {f.module: f.text for f in sources(PACKAGE)}
    for step in (step for way in drawn_steps().values() for step in way):
        module, _, names = step.function.partition(":")
        text = texts.get(f"{PACKAGE}.{module}", "")
        for name in names.split("."):
            assert re.search(rf"^ *(?:def|class) {name}\b", text, re.MULTILINE), step


def _lines_of_packages() -> list[str]:
    """What the package needs, and what its extras bring."""
    return [
        *PROJECT["dependencies"],
        *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
    ]


@pytest.mark.slow
def test_what_is_declared_is_imported_and_what_is_imported_is_declared() -> None:
    declared = {re.split(r"[^\w-]", line, maxsplit=1)[0].lower() for line in _lines_of_packages()}
    of_module = importlib.metadata.packages_distributions()
    roots = {i.module.split(".")[0] for f in sources(PACKAGE) for i in f.imports}
    foreign = {root for root in roots if root not in sys.stdlib_module_names and root != PACKAGE}
    imported = {of_module[root][0].lower().replace("_", "-") for root in foreign}
    assert declared - imported == DECLARED_FOR_OTHER_REASONS
    assert imported - declared == set(COMES_WITH)
    assert set(COMES_WITH.values()) <= declared
