"""The lab `incident`: the append doubles every year, and the control names each of them.

Tested here: events and the control's words. Not tested here: the alert (`orchestration.test_lake_definitions_proofs`).
"""

from pathlib import Path

import pytest

from backfill_assets.labs.model import run_lab

pytestmark = pytest.mark.usefixtures("storages")


def test_three_years_appended_again_are_doubled_and_a_control_names_each_year(tmp_path: Path) -> None:
    table, replaced, appended = run_lab("incident", tmp_path / "lake")
    assert (replaced.holds, appended.holds) == (True, False)
    assert appended.found == 2 * 36
    outcome = {row[0]: row[2] for row in table.rows}
    assert outcome["first run"] == outcome["replaced again"] == "holds"
    assert all(year in str(outcome["appended"]) for year in ("2021-01-01: 26", "2022-01-01: 24", "2023-01-01: 22"))
