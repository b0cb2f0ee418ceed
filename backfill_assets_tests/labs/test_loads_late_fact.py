"""The lab `late-fact`: Monday's total is right only where Monday is computed again by event time.

Tested here: three totals of Monday, and that Tuesday is left alone. Not tested here: late data at large (`end_to_end`).
"""

from pathlib import Path

import pytest

from backfill_assets.labs.model import run_lab

pytestmark = pytest.mark.usefixtures("spark", "storages")


def test_only_event_time_with_late_days_made_again_gives_mondays_total(tmp_path: Path) -> None:
    table, *found = run_lab("late-fact", tmp_path / "lake")
    assert [step.holds for step in found] == [False, False, True]
    assert [step.found for step in found] == [200, 200, 250]
    assert "wrote 2024-03-04, 2024-03-06" in table.text, "Tuesday had no news"
