"""Lakes of the examples: what they are, what lies in a new one, and that its settings are accepted.
No JVM. Not here: the commands (`learn.test_demo_command`)."""

import time
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.intake.listing import list_landing
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets.learn.example_lakes import (
    MARKER,
    days_until,
    example_titles,
    make_example,
    make_sample,
    sample_days,
    sample_files,
    sample_settings,
)
from backfill_assets.pipeline.chosen import chosen_pipeline

NAMES = sorted(example_titles())


@pytest.mark.parametrize("name", NAMES)
def test_a_new_lake_holds_settings_steps_and_files_that_have_landed(
    tmp_path: Path, name: str
) -> None:
    root = tmp_path / "new"
    make_example(name, root)
    lake = open_lake(root)
    assert [t.name for t in chosen_pipeline(lake).tables][:1]
    assert (root / "STEPS.md").is_file()
    assert not list(root.rglob("*.py"))
    assert not list(root.rglob("__pycache__"))
    sources = lake.settings.delivered.values()
    landed = [f.path for s in sources for f in list_landing(s.files, root, s.format).files]
    assert landed or (root / "generate.sql").is_file()
    assert all(
        f.stat().st_mtime < time.time() - 60 for f in (*landed, *(root / "later").rglob("*.*"))
    )


def test_a_folder_that_holds_anything_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(SettingsError, match=r"the folder is not empty\. It was left as it is"):
        make_example("orders", tmp_path)
    with pytest.raises(SettingsError, match="the folder is not empty"):
        make_example("orders", tmp_path / "mine")
    with pytest.raises(SettingsError, match="did not make it"):
        make_sample(tmp_path, DAYS)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


TODAY = date(2026, 1, 15)
DAYS = days_until(TODAY, 14)


def test_what_is_made_is_known_again_and_has_the_settings_that_were_shown(tmp_path: Path) -> None:
    assert sample_days(tmp_path) is None
    make_sample(tmp_path, DAYS)
    assert sample_days(tmp_path) == DAYS
    assert load_settings(tmp_path) == sample_settings(DAYS)
    landed = list((tmp_path / "landing").rglob("*.jsonl"))
    assert landed
    assert all(path.stat().st_mtime < path.parent.stat().st_mtime for path in landed), (
        "a scan need not wait for them"
    )


@pytest.mark.parametrize(
    "text", ["", "[]", '{"first": "soon", "end": "later"}', '{"first": "2026-01-01"}']
)
def test_a_damaged_marker_is_told_and_nothing_is_taken_for_a_sample(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(SettingsError, match="Remove the lake by hand"):
        sample_days(tmp_path)


FIRST, SAMPLED = date(2024, 2, 26), 30


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return sample_files(FIRST, SAMPLED)


def test_the_same_days_give_the_same_bytes(files: dict[str, str]) -> None:
    assert sample_files(FIRST, SAMPLED) == files
    assert sample_files(FIRST, SAMPLED, seed=1) != files
