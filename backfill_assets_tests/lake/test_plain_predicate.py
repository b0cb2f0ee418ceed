"""Predicates of exact days. Tested here: `lake.plain`. Not tested here: what reads by them (`lake.session`)."""

import pytest

from backfill_assets.lake.plain import days_predicate
from backfill_assets_tests.builders import day


def test_no_day_never_means_every_day() -> None:
    with pytest.raises(ValueError, match="at least one"):
        days_predicate("event_date", [])
    assert days_predicate("d", [day(1), day(0), day(1)]) == "`d` IN (DATE'2024-02-26', DATE'2024-02-27')"
