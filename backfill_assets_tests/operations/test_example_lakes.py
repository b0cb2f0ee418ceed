"""Lakes of the examples: what they are, what lies in a new one, and that its settings are accepted. No JVM."""

import time
from pathlib import Path

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.home import open_lake
from backfill_assets.landing.listing import list_landing
from backfill_assets.operations.example_lakes import examples, make_example
from backfill_assets.pipeline.chosen import chosen_pipeline

NAMES = sorted(examples())


def test_each_example_says_in_one_line_what_it_shows() -> None:
    assert {"late-truth", "orders", "retried-events", "sensor-readings"} <= set(NAMES)
    assert all(0 < len(told) <= 120 for told in examples().values())


@pytest.mark.parametrize("name", NAMES)
def test_a_new_lake_holds_settings_steps_and_files_that_have_landed(tmp_path: Path, name: str) -> None:
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
    assert all(f.stat().st_mtime < time.time() - 60 for f in (*landed, *(root / "later").rglob("*.*")))


def test_a_folder_that_holds_anything_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(SettingsError, match=r"the folder is not empty\. It was left as it is"):
        make_example("orders", tmp_path)
    with pytest.raises(SettingsError, match="the folder is not empty"):
        make_example("orders", tmp_path / "mine")
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
