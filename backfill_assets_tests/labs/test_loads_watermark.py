"""The lab `watermark`: the script loses a late row, misses one of equal time, has one twice; the lake does not.

Tested here: which rows, by totals that tell. Not tested here: scans of landed files (`load.test_scan`).
"""

from pathlib import Path

import pytest

from backfill_assets.labs.model import run_lab

pytestmark = pytest.mark.usefixtures("spark", "storages")


def test_the_usual_script_loses_misses_and_repeats_rows_and_the_lake_does_not(tmp_path: Path) -> None:
    _, batches, script, lake = run_lab("watermark", tmp_path / "lake")
    assert "lacks same-time, late" in batches.text
    assert "has d twice" in batches.text
    assert [row[3] for row in batches.rows] == [row[1] for row in batches.rows] == [3, 31, 63]
    assert (script.found, script.holds, lake.holds) == (63 - 4 - 8 + 32, False, True)
