"""`check-engine` as a person meets it: lines, JSON and the exit code.

Not tested here: the opinion (`operations.test_prove_check_engine`).
"""

from pathlib import Path

import pytest

from backfill_assets.cli.compare import recomputed
from backfill_assets.cli.output import draw
from backfill_assets.lake.matching import DayDifference, SampleRow
from backfill_assets.load.recompute import Recomputed, RecomputeVerdict
from backfill_assets.operations.prove import EngineReport
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.operations.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")
LOST = "files of version 1 of staging are gone"


def test_what_differs_is_told_with_columns_and_keys(capsys: pytest.CaptureFixture[str]) -> None:
    days = (Recomputed(day(0), 1, 1), Recomputed(day(1), 1, 1, equal=False), Recomputed(day(2), 1, passed_over=LOST))
    differing = (DayDifference(day(1), 1, 1, 0, 0, 1, {"value": 1}),)
    samples = (SampleRow(day(1), "changed", "A", {"value": "1"}, {"value": "2"}),)
    report = EngineReport(
        (RecomputeVerdict("features", days, differing, samples),), (("labels", "refused by name"),), "sail"
    )
    draw(recomputed("sail", report))
    told = capsys.readouterr().out
    assert "sail: 2 day(s) of tables computed again, 1 differ" in told
    assert "value=2" in told
    assert f"features: 1 day(s) from {day(2)} passed over: {LOST}" in told
    assert "labels was not computed: refused by name" in told
    assert "A day of landed rows differs where an engine reads a value otherwise" in told


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (("--days", "2999-01-01"), "none of these days was written. Nothing was computed", 1),
        (("--tables", "none"), "'none'", 2),
    ],
)
def test_days_that_nobody_wrote_and_tables_that_are_not_there_are_no_success(
    tmp_path: Path, words: tuple[str, ...], told: str, code: int
) -> None:
    done = run("check-engine", *words, on=Planned(tmp_path / "lake"))
    assert (done.exit_code, told in done.output) == (code, True), done.output
