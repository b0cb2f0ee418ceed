"""Expected values of a fix: what is no expectation is refused when planned, and what is not met
stops the plan.

Tested here: `plans.expect`, by itself and through `run_plan`. Not tested here: bounds of single
days (`plans/test_gate.py`).
"""

from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError, GateRefused
from backfill_assets.plans.expect import Figure, parse_expectation, read_expectations
from backfill_assets.plans.policy import Tolerances
from backfill_assets.plans.run import run_plan
from backfill_assets_tests.pipeline.built_in import contract
from backfill_assets_tests.planning import (
    DAYS,
    HandWorker,
    bare_staging,
    good_rows,
    planned,
    write_by_hand,
)
from backfill_assets_tests.synthetic import Made

ANY = Tolerances(nulls=None)
STAGING = contract("staging")


@pytest.fixture
def lake(tmp_path: Path, storages: None) -> Made:
    """Ten days of staging as they should be: 30 rows each, with the values 0 to 29."""
    made = bare_staging(tmp_path)
    write_by_hand(*made, DAYS, good_rows)
    return made


def corrected(day: date) -> list[dict[str, Any]]:
    """The same rows; of half of them the value is ten more, and one of three entities is
    unknown."""
    return [
        row
        | {
            "value": row["value"] + 10 * (row["seq"] % 2),
            "entity": row["entity"] if row["seq"] % 3 else None,
        }
        for row in good_rows(day)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "staging.rows ±0",
        "staging.rows +-1%",
        "staging.keys = 30",
        "share_changed(staging.value) between 0.4 and 0.6",
        "mean(staging.value) ±40%",
        "sum(staging.value) = 585",
        "nulls(staging.entity) <= 10",
        "nulls(staging.entity) >= 10",
        "distinct(staging.entity) ±1",
        "share_changed(staging.flag) = 0",
    ],
)
def test_what_is_met_passes_and_its_figures_are_reported(lake: Made, text: str) -> None:
    by = HandWorker(*lake, rows=corrected)
    plan = planned(
        *lake,
        tolerances=ANY,
        expect=(text,),
        chunk="1d",
        canary=0,
        days=DayRange(DAYS.start, DAYS.start + ONE_DAY),
    )
    assert run_plan(lambda: lake, plan, by).state == "finished"
    assert any(line.startswith(f"chunk 1: expected {text}: ") for line in by.lines)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("staging.rows = 29", "30 before, 30 now"),
        ("share_changed(staging.value) <= 0.1", "0.5"),
        ("mean(staging.value) ±1", "14.5 before, 19.5 now"),
        ("mean(staging.value) ±5%", "14.5 before, 19.5 now"),
        ("nulls(staging.entity) ±0", "0 before, 10 now"),
        ("distinct(staging.entity) between 5 and 9", "3 before, 2 now"),
    ],
)
def test_what_is_not_met_stops_the_plan_with_the_figures(
    lake: Made, text: str, figures: str
) -> None:
    plan = planned(*lake, tolerances=ANY, expect=(text,))
    with pytest.raises(GateRefused) as refused:
        run_plan(lambda: lake, plan, HandWorker(*lake, rows=corrected))
    told = str(refused.value)
    assert (
        f"1 finding(s) on staging {DAYS.start}: staging {DAYS.start} expectation: expected "
        f"{text}: {figures}" in told
    )
    assert f"`backfill-assets run {plan.id} --accept 1` if it is as it should be" in told
    with pytest.raises(GateRefused, match="the gate of chunk 2"):
        run_plan(lambda: lake, plan, HandWorker(*lake, rows=corrected), accepted=1)


def test_before_is_the_version_before_the_plan_also_after_it_stopped(lake: Made) -> None:
    plan = planned(
        *lake, tolerances=ANY, expect=("share_changed(staging.value) = 0.5",), chunk="31d"
    )
    with pytest.raises(BackfillError, match="the server is gone"):
        run_plan(lambda: lake, plan, HandWorker(*lake, rows=corrected, fails_at=2))
    by = HandWorker(*lake, rows=corrected)
    assert run_plan(lambda: lake, plan, by).state == "finished"
    assert [line.rpartition(" ")[2] for line in by.lines if "expected" in line] == ["0.5"] * 3


@pytest.mark.usefixtures("storages")
def test_a_figure_without_rows_is_not_as_expected(tmp_path: Path) -> None:
    made = bare_staging(tmp_path)
    plan = planned(*made, expect=("share_changed(staging.value) <= 1",))
    with pytest.raises(GateRefused, match=r"share_changed.* <= 1: no value"):
        run_plan(lambda: made, plan, HandWorker(*made))


@pytest.mark.parametrize(
    ("text", "before", "now", "holds"),
    [
        ("staging.rows ±0", 2**60, 2**60 + 1, False),
        ("sum(staging.value) ±0", Fraction(10**30), Fraction(10**30) + Fraction(1, 10**6), False),
        ("mean(staging.value) ±0", 0.1 + 0.2, 0.3, True),
        ("mean(staging.value) ±0", 0.3, 0.3001, False),
        ("mean(staging.value) <= 1", 0.3, float("nan"), False),
        ("mean(staging.value) ±1", None, None, True),
        ("staging.rows ±10%", 0, 1, False),
        ("staging.rows +/- 10%", -100, -110, True),
    ],
)
def test_counts_are_compared_exactly_and_floats_nearly(
    text: str, before: Figure, now: Figure, holds: bool
) -> None:
    assert parse_expectation(text, [STAGING]).holds(before, now) is holds


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "rows ±0",
            "it is not FIGURE BOUND. Nothing was planned. Write FIGURE BOUND: TABLE.rows, "
            "TABLE.keys",
        ),
        (
            "stagin.rows ±0",
            "stagin is none of the plan's tables. Nothing was planned. Name one of staging",
        ),
        ("staging.size ±0", "size is no figure of a table"),
        ("median(staging.value) = 1", "median is no figure of a column"),
        (
            "mean(staging.valu) = 1",
            "staging has no column valu. Nothing was planned. Name one of event_key, ",
        ),
        ("mean(staging.entity) = 1", "entity is no number"),
        (
            "share_changed(staging.event_key) = 1",
            "rows are matched by event_key, so that it never changes",
        ),
        ("share_changed(staging.value) ±0", "it is a comparison with before already"),
        ("staging.rows ±-1", "a negative distance holds never"),
        ("staging.rows between 5 and 1", "nothing lies between 5 and 1"),
        ("staging.rows about 5", "'about 5' is no bound"),
        ("staging.rows", "'' is no bound"),
        ("staging.rows <= 5 rows", "'<= 5 rows' is no bound"),
    ],
)
def test_what_is_no_expectation_is_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(BackfillError) as refused:
        parse_expectation(text, [STAGING])
    assert told in str(refused.value)


def test_expectations_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "fix.toml"
    file.write_text('expect = ["staging.rows ±0", "staging.keys ±1%"]')
    assert read_expectations(file) == ("staging.rows ±0", "staging.keys ±1%")
    wrong = {
        "expect = 1": "does not say what",
        'expects = ["a"]': "does not say",
        "expect =": "no TOML",
    }
    for text, told in wrong.items():
        file.write_text(text)
        with pytest.raises(BackfillError, match=told):
            read_expectations(file)
