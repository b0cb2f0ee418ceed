"""Lines about days that need a rebuild: how many, why, about how long, and who makes them.

Not tested here: which days need one (`kernel.core.test_needs`).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.reading.needed_days import (
    NOTHING,
    NeededDays,
    needed_days_of,
    needed_lines,
    with_inputs,
)
from backfill_assets_tests.dagster.adapter.ticking import day, stale
from backfill_assets_tests.synthetic import Made, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
SOME = frozenset({day(1), day(2)})


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    """Eight days, one of which is stale in staging."""
    made = synthetic_lake(tmp_path / "lake", 8)
    stale(made, 2)
    return made


def states_of(lake: Made) -> States:
    return lake[1].states(read_view(lake[0], lake[1].contracts))


def test_a_line_names_days_reason_time_and_what_may_follow() -> None:
    part = NeededDays(
        "staging", SOME, "it changed", other_reasons=1, may_follow=3, seconds=12.4, is_guess=True
    )
    assert str(part) == (
        f"staging: 2 days, {day(1)}..{day(2)}; it changed (and 1 otherwise); about 12 s to compute (a guess); "
        "up to 3 more may follow"
    )
    months = replace(part, table="monthly", days=frozenset({day(1)}), unit="month")
    assert str(months).startswith(f"monthly: 1 month, {day(1)}; it changed")


def test_days_that_others_make_are_named_and_not_counted() -> None:
    others = NeededDays("theirs", SOME, "missing", seconds=5.0, left_to="the asset shop/theirs")
    ours = NeededDays("ours", frozenset({day(1)}), "stale", seconds=2.0)
    lines = needed_lines([others, ours])
    assert lines[0].endswith("missing; left to the asset shop/theirs")
    assert lines[-1] == "in all: 1 day(s) of 1 table(s), about 2 s to compute"
    months = replace(ours, days=SOME, unit="month", seconds=None)
    assert needed_lines([ours, months])[-1].startswith("in all: 1 day(s), 2 month(s) of 2 table(s)")
    assert needed_lines([others])[-1] == "in all: 0 day(s) of 0 table(s)"
    assert needed_lines([]) == [NOTHING]


def test_the_days_of_a_lake_have_their_reason_and_other_tables_are_left_out(lake: Made) -> None:
    part, *below = needed_days_of(lake[0], states_of(lake))
    assert (part.table, part.days, part.left_to) == ("staging", frozenset({day(2)}), "")
    assert {"features"} <= {other.table for other in below}
    assert needed_days_of(lake[0], states_of(lake), ["raw"]) == []


def test_a_table_comes_with_all_that_it_is_made_from_upstream_first(lake: Made) -> None:
    states = states_of(lake)
    assert with_inputs(states, ["raw"]) == ["raw"]
    assert with_inputs(states, ["staging"]) == ["raw", "staging"]
    assert with_inputs(states, ["training"])[:2] == ["raw", "staging"]
