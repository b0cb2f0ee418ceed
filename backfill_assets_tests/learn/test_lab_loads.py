"""The labs of loads: an append counts rows again, late days are made again, each mistake fails by
its own totals. Not here: how a lab is drawn (`learn.test_practice_command`)."""

from pathlib import Path

import pytest

from backfill_assets.learn.lab import LabStep, run_lab

pytestmark = pytest.mark.usefixtures("storages")


def forms(name: str, folder: Path) -> dict[str, LabStep]:
    """The steps of a lab that tried a form of the work, by that form."""
    return {step.form: step for step in run_lab(name, folder / "lake") if step.form}


def test_an_append_run_twice_and_a_bit_counts_rows_again_and_a_replace_does_not(
    tmp_path: Path,
) -> None:
    found = forms("load", tmp_path)
    assert {form: step.holds for form, step in found.items()} == {
        "append": False,
        "replace each day": True,
    }
    assert found["append"].expected == 750
    assert found["append"].found == 750 * 2 + 210, (
        "three runs: two whole ones, and one that died after a day"
    )


def test_three_years_appended_again_are_doubled_and_a_control_names_each_year(
    tmp_path: Path,
) -> None:
    table, replaced, appended = run_lab("incident", tmp_path / "lake")
    assert (replaced.holds, appended.holds) == (True, False)
    assert appended.found == 2 * 36
    outcome = {row[0]: row[2] for row in table.rows}
    assert outcome["first run"] == outcome["replaced again"] == "holds"
    assert all(
        year in str(outcome["appended"])
        for year in ("2021-01-01: 26", "2022-01-01: 24", "2023-01-01: 22")
    )


def test_each_of_the_four_mistakes_fails_and_the_form_beside_it_holds(tmp_path: Path) -> None:
    found = forms("mistakes", tmp_path)
    assert [step.holds for step in found.values()] == [False, True] * 4
    assert found["wrong days of one run"].found == 90
    assert "more than 31" in found["wrong days of a plan"].text
    assert "the write mode append" in found["the sum after a replace"].text
    assert found["wrong days by the total"].found == 0


@pytest.mark.usefixtures("spark")
def test_only_event_time_with_late_days_made_again_gives_mondays_total(tmp_path: Path) -> None:
    table, *found = run_lab("late-fact", tmp_path / "lake")
    assert [step.holds for step in found] == [False, False, True]
    assert [step.found for step in found] == [200, 200, 250]
    assert "wrote 2024-03-04, 2024-03-06" in table.text, "Tuesday had no news"


@pytest.mark.usefixtures("spark")
def test_the_usual_script_loses_misses_and_repeats_rows_and_the_lake_does_not(
    tmp_path: Path,
) -> None:
    _, batches, script, lake = run_lab("watermark", tmp_path / "lake")
    assert "lacks same-time, late" in batches.text
    assert "has d twice" in batches.text
    assert [row[3] for row in batches.rows] == [row[1] for row in batches.rows] == [3, 31, 63]
    assert (script.found, script.holds, lake.holds) == (63 - 4 - 8 + 32, False, True)
