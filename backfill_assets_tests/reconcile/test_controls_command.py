"""`controls` as typed.

Tested here: `reconcile.controls_command`. Not tested here: judging (`test_reconcile_controls.py`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_a_broken_control_names_what_was_expected_and_ends_with_exit_code_1(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    (tmp_path / "totals.csv").write_text("day,value\n2024-03-01,9\n")
    with (tmp_path / "lake.toml").open("a") as toml:
        query = "SELECT event_date AS day, count(*) AS value FROM staging GROUP BY 1"
        toml.write(f'[controls.versions]\nquery = "{query}"\nexpected = "totals.csv"\n')
    done = run("controls", "--lake", tmp_path)
    assert (done.exit_code, "expected 9" in done.output) == (1, True), done.output
    assert "control versions: " in run("status", "--lake", tmp_path).stdout
