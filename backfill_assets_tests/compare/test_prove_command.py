"""`prove` as typed: what differs, as a person reads it.

Tested here: the output of `compare.prove_command`. Not tested here: computing again (`test_prove.py`).
"""

import pytest

from backfill_assets.cli.output import draw_parts
from backfill_assets.compare.compare_command import recomputation_parts
from backfill_assets.compare.differences import DayDifference, SampleRow
from backfill_assets.compare.prove import EngineReport
from backfill_assets.compare.recompute import Recomputed, RecomputeVerdict
from backfill_assets_tests.builders import day

pytestmark = pytest.mark.usefixtures("storages")


LOST = "files of version 1 of staging are gone"


def test_what_differs_is_told_with_columns_and_keys(capsys: pytest.CaptureFixture[str]) -> None:
    days = (
        Recomputed(day(0), 1, 1),
        Recomputed(day(1), 1, 1, equal=False),
        Recomputed(day(2), 1, passed_over=LOST),
    )
    differing = (DayDifference(day(1), 1, 1, 0, 0, 1, {"value": 1}),)
    samples = (SampleRow(day(1), "changed", "A", {"value": "1"}, {"value": "2"}),)
    report = EngineReport(
        (RecomputeVerdict("features", days, differing, samples),),
        (("labels", "refused by name"),),
        "sail",
    )
    draw_parts(recomputation_parts("sail", report))
    told = capsys.readouterr().out
    assert "sail: 2 day(s) of tables computed again, 1 differ" in told
    assert "value=2" in told
    assert f"features: 1 day(s) from {day(2)} passed over: {LOST}" in told
    assert "labels was not computed: refused by name" in told
    assert "A day of landed rows differs where an engine reads a value otherwise" in told
