"""The sample lake: made whole in an empty folder, known by its marker, and never made over something else.

Tested here: `operations.example_lakes`. Not tested here: its rows (`test_sample`) and the command (`cli.test_demo`).
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.settings import load_settings
from backfill_assets.operations.example_lakes import MARKER, days_until, make_sample, sample_days, sample_settings

TODAY = date(2026, 1, 15)
DAYS = days_until(TODAY, 14)


def test_what_is_made_is_known_again_and_has_the_settings_that_were_shown(tmp_path: Path) -> None:
    assert sample_days(tmp_path) is None
    make_sample(tmp_path, DAYS)
    assert sample_days(tmp_path) == DAYS
    assert load_settings(tmp_path) == sample_settings(DAYS)
    landed = list((tmp_path / "landing").rglob("*.jsonl"))
    assert landed
    assert all(path.stat().st_mtime < path.parent.stat().st_mtime for path in landed), "a scan need not wait for them"


def test_a_folder_that_holds_anything_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SettingsError, match="did not make it"):
        make_sample(tmp_path, DAYS)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("text", ["", "[]", '{"first": "soon", "end": "later"}', '{"first": "2026-01-01"}'])
def test_a_damaged_marker_is_told_and_nothing_is_taken_for_a_sample(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(SettingsError, match="Remove the lake by hand"):
        sample_days(tmp_path)
