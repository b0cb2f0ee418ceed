"""Which days of its inputs a step loaded, for each of its own days.

Tested here: windows of mappings. Not tested here: what is stale by them (`core/test_keys.py`), and whole runs
(`test_keys_loaded.py`).
"""

import dagster as dg
import pytest

from backfill_assets.dagster.loaded import window_of
from backfill_assets_tests.dagster.projects import DAYS

AT_SIX = dg.DailyPartitionsDefinition("2024-01-01", hour_offset=6)


@pytest.mark.parametrize(
    ("mapping", "window"),
    [
        (None, (0, 0)),
        (dg.IdentityPartitionMapping(), (0, 0)),
        (dg.TimeWindowPartitionMapping(start_offset=-6), (6, 0)),
        (dg.TimeWindowPartitionMapping(start_offset=0, end_offset=7), (0, 7)),
        (dg.TimeWindowPartitionMapping(start_offset=-7, end_offset=-1), (7, -1)),
        (dg.AllPartitionMapping(), None),
    ],
)
def test_a_window_is_the_days_that_a_mapping_names(
    mapping: dg.PartitionMapping | None, window: tuple[int, int] | None
) -> None:
    assert window_of(mapping, DAYS, DAYS) == window


def test_a_window_reaches_into_the_days_that_begin_at_another_time() -> None:
    assert window_of(None, DAYS, AT_SIX) == (0, 1)
    assert window_of(None, AT_SIX, DAYS) == (1, 0)
    assert window_of(dg.IdentityPartitionMapping(), AT_SIX, DAYS) == (0, 0)


def test_no_window_is_named_between_other_definitions_than_days() -> None:
    assert window_of(None, dg.WeeklyPartitionsDefinition("2024-01-01"), DAYS) is None
    assert window_of(None, None, DAYS) is None
