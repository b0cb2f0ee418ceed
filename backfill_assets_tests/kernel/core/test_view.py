"""Which arrival days must be loaded again because another program changed a ledger.

Tested here: what states and needs make of such views. Not tested here: reading one
(`kernel/tables/test_view.py`), and which arrival days may be loaded (`test_frontier.py`).
"""

from datetime import date

import pytest

from backfill_assets.kernel.core.frontier import is_loaded
from backfill_assets.kernel.core.needs import needed_days, rebuild_needs
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.view import TableView
from backfill_assets_tests.builders import Story, day, loaded


def hurt(*days: date) -> Story:
    """A lake in which all is made, and another program then took the ledger's rows of these arrival
    days."""
    story = loaded(6).build_all(*map(day, range(6)))
    for rows in story.ledger.values():
        for d in days:
            rows.pop(d, None)
    return story.edit("arrivals", *days)


def test_staging_is_never_ready_while_the_ledger_that_says_its_deliveries_is_not_ours() -> None:
    story = hurt(day(3))
    assert story.state("staging", day(3)) is State.STALE
    found = rebuild_needs(story.states(), {})
    assert {n: days for n, days in found.ready.items() if days} == {"raw": {day(3)}}
    assert found.waiting["staging"] == {day(3): ("raw", day(3))}


def test_the_days_whose_ledger_rows_were_touched_are_not_loaded_until_they_are_loaded_again() -> (
    None
):
    story = hurt(day(1), day(3))
    assert [n for n in range(6) if not is_loaded(day(n), story.view().source("raw"))] == [1, 3]
    assert story.state("raw", day(3)) is State.STALE
    assert not story.states().is_settled("raw", day(3))
    story.ledger[day(1)][day(1)], story.ledger[day(3)][day(3)] = "file-1", "file-3"
    story.load(day(3))
    assert story.view().source("raw").doubted_arrivals() == frozenset()
    assert not any(needed_days(story.states()).values())


def test_days_of_a_touched_month_that_were_never_loaded_are_in_no_doubt() -> None:
    assert (
        loaded(2).edit("arrivals", day(7), day(8)).view().source("raw").doubted_arrivals()
        == frozenset()
    )


@pytest.mark.parametrize("ledger", ["quarantine", "too_late"])
def test_an_arrival_day_whose_rows_set_aside_were_touched_is_loaded_again_and_holds_up_no_other(
    ledger: str,
) -> None:
    story = loaded(3).build_all(*map(day, range(3)))
    story.tables.setdefault(ledger, TableView())
    story.edit(ledger, day(1))
    found = rebuild_needs(story.states(), {})
    assert found.ready["raw"] == {day(1)}
    assert story.state("raw", day(1)) is State.STALE
    assert story.state("staging", day(1)) is State.FRESH


def test_a_ledger_that_is_gone_lets_nothing_be_made_from_it() -> None:
    story = hurt()
    del story.tables["arrivals"]
    story.ledger = {}
    found = rebuild_needs(story.states(), {})
    assert found.ready["raw"] == set(map(day, range(6)))
    assert not found.ready["staging"]
