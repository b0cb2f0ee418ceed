"""Cuts, maturity and horizons against the sentences of `design.md` section 2.

Lives here: properties of every pure function of `core.days`. Does not live here: what follows for states
(`test_states`) and for rows (`pipeline.transforms`).
"""

import ast
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core import days as cuts
from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets_tests.sources import PACKAGE, sources

DAYS = st.dates(date(2023, 1, 1), date(2025, 12, 31))
INSTANTS = st.datetimes(datetime(2023, 1, 1), datetime(2025, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
GRACE = st.integers(0, 72).map(lambda hours: timedelta(hours=hours))
SPANS = st.integers(0, 120)


@given(DAYS, INSTANTS)
def test_a_day_is_over_when_no_later_instant_lies_in_it(day: date, frontier: datetime) -> None:
    assert cuts.is_over(day, frontier) == (frontier.date() > day)
    assert not cuts.is_over(day, None)


@given(DAYS, GRACE, INSTANTS)
def test_a_cut_is_midnight_after_the_day_plus_the_grace(day: date, grace: timedelta, frontier: datetime) -> None:
    cut = cuts.cut_of(day, grace)
    assert cut == midnight(day) + ONE_DAY + grace
    assert cuts.cut_has_passed(day, grace, cut)
    assert not cuts.cut_has_passed(day, grace, cut - cuts.LEAST)
    assert cuts.cut_has_passed(day, grace, frontier) == (cut <= frontier)
    assert not cuts.cut_has_passed(day, grace, None)


@given(DAYS, GRACE)
def test_the_last_known_day_begins_before_the_cut_and_the_next_does_not(day: date, grace: timedelta) -> None:
    last, cut = cuts.last_known_day(day, grace), cuts.cut_of(day, grace)
    assert midnight(last) < cut <= midnight(last + ONE_DAY)


@given(DAYS, SPANS, SPANS, INSTANTS)
def test_a_label_is_mature_once_horizon_and_maturity_have_passed(day: date, h: int, m: int, frontier: datetime) -> None:
    after = cuts.matures_after(h, m)
    assert cuts.is_mature(day, after, frontier) == (midnight(day) + timedelta(days=1 + h + m) <= frontier)
    assert not cuts.is_mature(day, after, None)


@given(INSTANTS, SPANS)
def test_the_newest_mature_day_is_mature_and_the_next_is_not(frontier: datetime, after: int) -> None:
    newest = cuts.newest_mature(frontier, after)
    assert cuts.is_mature(newest, after, frontier)
    assert not cuts.is_mature(newest + ONE_DAY, after, frontier)


def test_the_newest_day_that_is_over_is_one_of_utc() -> None:
    assert cuts.newest_over(datetime.fromisoformat("2024-03-01T00:30:00+01:00")) == date(2024, 2, 28)


@pytest.mark.parametrize("word", ["midnight", "maturity_days", "matures_after_days"])
def test_nobody_else_adds_days_to_find_a_cut_or_maturity(word: str) -> None:
    """`midnight(day + ...)` and `... + maturity_days` are written down in `core.days` and nowhere else."""
    spelled = [
        f"{f.place}:{node.lineno} {ast.unparse(node)}"
        for f in sources(PACKAGE)
        if f.place != f"{PACKAGE}/core/days.py" and word in f.text
        for node in f.of(ast.Call, ast.BinOp)
        if _adds(node, word)
    ]
    assert spelled == []


def _adds(node: ast.expr, word: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == word:
        return any(isinstance(inner, ast.BinOp) for argument in node.args for inner in ast.walk(argument))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return any(ast.unparse(side).rpartition(".")[2] == word for side in (node.left, node.right))
    return False
