"""`controls`, `prove`, `drift` and `check-engine` as a person meets them: lines, JSON and the exit
code. Not here: what is found (`reports.check_history`)."""

from pathlib import Path

import pytest

from backfill_assets.cli.output import draw
from backfill_assets.compare.compare_command import recomputed
from backfill_assets.compare.matching import DayDifference, SampleRow
from backfill_assets.compare.prove import EngineReport
from backfill_assets.compare.recompute import Recomputed, RecomputeVerdict
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.mark.parametrize(
    ("words", "told"),
    [(["controls"], "This lake has no controls"), (["drift", "--table", "staging"], "are off")],
)
def test_the_outcome_is_one_line_and_the_exit_code_0(
    tmp_path: Path, words: list[str], told: str
) -> None:
    readable_lake(tmp_path)
    done = run(*words, "--lake", tmp_path)
    assert (done.exit_code, told in done.stdout) == (0, True), done.output


def test_a_broken_control_names_what_was_expected_and_ends_with_exit_code_1(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    (tmp_path / "totals.csv").write_text("day,value\n2024-03-01,9\n")
    with (tmp_path / "lake.toml").open("a") as toml:
        query = "SELECT event_date AS day, count(*) AS value FROM staging GROUP BY 1"
        toml.write(f'[controls.versions]\nquery = "{query}"\nexpected = "totals.csv"\n')
    done = run("controls", "--lake", tmp_path)
    assert (done.exit_code, "expected 9" in done.output) == (1, True), done.output
    assert "control versions: " in run("status", "--lake", tmp_path).stdout


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
        (
            ("check-engine", "--days", "2999-01-01"),
            "none of these days was written. Nothing was computed",
            1,
        ),
        (("check-engine", "--tables", "none"), "'none'", 2),
        (("prove", "--days", "2030-01-01"), "none of these days was written", 1),
        (("prove", "--tables", "nix"), "'nix'", 2),
    ],
)
def test_days_that_nobody_wrote_and_tables_that_are_not_there_are_no_success(
    tmp_path: Path, words: tuple[str, ...], told: str, code: int
) -> None:
    done = run(*words, on=Planned(tmp_path / "lake"))
    assert (done.exit_code, told in done.output) == (code, True), done.output
