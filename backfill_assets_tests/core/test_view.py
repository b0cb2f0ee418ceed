"""The view of a lake as plain values: tables that do not exist yet, and which arrival days may be loaded.

Tested here: `core.view`. Not tested here: reading one (`lake/test_view.py`).
"""

from datetime import timedelta

import pytest

from backfill_assets.core.days import midnight
from backfill_assets.core.view import TableView
from backfill_assets_tests.builders import Story, day, loaded


def test_a_table_that_does_not_exist_is_seen_as_empty() -> None:
    assert Story().view().table("features") == TableView(-1, {}, {}, None, frozenset())
    assert loaded(1).view().table("raw").version == 0


def test_without_as_of_every_day_is_due() -> None:
    assert Story().view().is_due(day(40_000))


@pytest.mark.parametrize(
    ("after_midnight", "due"),
    [(timedelta(microseconds=-1), False), (timedelta(), False), (timedelta(microseconds=1), True)],
    ids=["before it", "at its midnight", "just within it"],
)
def test_a_day_is_due_when_it_begins_before_as_of(after_midnight: timedelta, due: bool) -> None:
    view = Story(as_of=midnight(day(3)) + after_midnight).view()
    assert view.is_due(day(3)) is due
    assert view.is_due(day(2))
    assert not view.is_due(day(4))
