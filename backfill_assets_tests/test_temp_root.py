"""Where temporary folders of a test run lie. Not here: what pytest does in them."""

import os
from pathlib import Path

import pytest

from backfill_assets_tests.temp_root import VARIABLE, choose_temp_root


@pytest.fixture
def unsaid(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a run that names no place."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)
    return monkeypatch


def test_a_place_that_the_environment_names_stays(unsaid: pytest.MonkeyPatch) -> None:
    unsaid.setenv(VARIABLE, "elsewhere")
    choose_temp_root()
    assert os.environ[VARIABLE] == "elsewhere"


def test_a_machine_without_much_memory_keeps_the_place_of_pytest(
    unsaid: pytest.MonkeyPatch,
) -> None:
    choose_temp_root(least_bytes=1 << 60)
    assert VARIABLE not in os.environ


def test_a_machine_without_the_folder_keeps_it_too(
    unsaid: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choose_temp_root(tmp_path / "none")
    assert VARIABLE not in os.environ


def test_where_there_is_memory_it_is_used(unsaid: pytest.MonkeyPatch, tmp_path: Path) -> None:
    choose_temp_root(tmp_path, least_bytes=1)
    assert os.environ[VARIABLE] == str(tmp_path)
