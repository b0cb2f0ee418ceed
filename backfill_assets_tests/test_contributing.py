"""The page for contributors and the workflow beside it: what they name exists, and the page stays
one that is read. Not here: whether what they say is good advice."""

import re

import pytest

from backfill_assets_tests.sources import CHECKOUT, PACKAGE, TESTS, sources

PAGE = CHECKOUT / ".github" / "CONTRIBUTING.md"
WORKFLOW = CHECKOUT / ".github" / "workflows" / "ci.yml"
MOST_LINES = 120
BELOW = (CHECKOUT, CHECKOUT / PACKAGE, CHECKOUT / TESTS)
# Words in capitals stand for names of one's own; `lake.toml` is a lake's.
FILE = re.compile(r"`(?!lake\.toml)([a-z_./]+(?:\.(?:py|md|txt|toml)|/))`")
DEFINED = re.compile(r"`([A-Z]+[a-z]\w*)`")
NAME = re.compile(r"`((?:kernel|intake|plans|engines|cli)(?:\.\w+)+)`")


def test_the_page_is_short_enough_to_be_read() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= MOST_LINES


@pytest.mark.whole_house
@pytest.mark.parametrize("name", sorted(set(FILE.findall(PAGE.read_text("utf-8")))))
def test_a_file_that_the_page_names_exists(name: str) -> None:
    kernel = CHECKOUT / PACKAGE / "kernel"
    folders = [*BELOW, *(folder for folder in kernel.iterdir() if folder.is_dir())]
    assert any((folder / name).exists() for folder in folders)


@pytest.mark.parametrize("name", sorted(set(NAME.findall(PAGE.read_text("utf-8")))))
def test_a_name_that_the_page_gives_is_defined(name: str) -> None:
    modules = {f.module.removeprefix(f"{PACKAGE}."): f for f in sources(PACKAGE)}
    module = max((m for m in modules if f"{name}.".startswith(f"{m}.")), key=len)
    parts = name.removeprefix(module).strip(".").split(".")
    assert all(re.search(rf"\b{part}\b", modules[module].text) for part in parts)


@pytest.mark.whole_house
@pytest.mark.parametrize("name", sorted(set(DEFINED.findall(PAGE.read_text("utf-8")))))
def test_a_class_that_the_page_names_is_defined(name: str) -> None:
    definition = re.compile(rf"(?m)^(?:class )?{name}\b")
    assert any(definition.search(f.text) for f in sources(PACKAGE)), "it has another name now"


def test_the_workflow_runs_files_of_this_repository() -> None:
    commands = re.findall(r"(?m)^ *- run: (.+)$", WORKFLOW.read_text("utf-8"))
    programs = [word for command in commands for word in command.split() if word.startswith(".ci/")]
    assert programs == [".ci/run", ".ci/versions.py"]
    assert all((CHECKOUT / program).is_file() for program in programs)
