"""`check-engine` as a person meets it: lines, JSON and the exit code.

Not tested here: the opinion (`operations.test_check_engine`).
"""

import json
from pathlib import Path

import pytest

from backfill_assets.lake.differences import DayDifference, SampleRow
from backfill_assets.load.recompute import Recomputed, Verdict
from backfill_assets.operations import check_engine
from backfill_assets.operations.check_engine import EngineReport
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import instead, run
from backfill_assets_tests.operations.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")
LOST = "files of version 1 of staging are gone"


def test_what_differs_is_told_with_columns_and_keys_and_ends_with_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = (Recomputed(day(0), 1, 1), Recomputed(day(1), 1, 1, equal=False), Recomputed(day(2), 1, passed_over=LOST))
    differing = (DayDifference(day(1), 1, 1, 0, 0, 1, {"value": 1}),)
    samples = (SampleRow(day(1), "changed", "A", {"value": "1"}, {"value": "2"}),)
    report = EngineReport("sail", (Verdict("features", days, differing, samples),))
    monkeypatch.setattr(check_engine, "check_engine", lambda *_: report)
    made = Planned(tmp_path / "lake")
    told = run("check-engine", overrides=instead(made))
    assert told.exit_code == 1, told.output
    assert "sail: 2 day(s) of tables computed again, 1 differ" in told.stdout
    assert "value=2" in told.stdout
    assert f"features: 1 day(s) from {day(2)} passed over: {LOST}" in told.stdout
    found = json.loads(run("check-engine", "--json", overrides=instead(made)).stdout)
    assert (found["compared"], found["differing"]) == (2, 1)
    assert found["tables"][0]["samples"][0]["key"] == "A"


def test_a_table_that_the_lake_has_not_is_named(tmp_path: Path) -> None:
    told = run("check-engine", "--tables", "none", overrides=instead(Planned(tmp_path / "lake")))
    assert told.exit_code == 1
    assert "'none'" in told.output
