"""What the tags of a run say, and that each is written and read in one place.

Tested here: the values of `orchestration.runs`, without an instance. Not tested here: whole runs (`test_runs`).
"""

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.orchestration.runs import PARTITION, days_of, range_tags
from backfill_assets_tests.builders import day
from backfill_assets_tests.sources import PACKAGE, sources


@given(st.integers(0, 400), st.integers(1, 1100))
def test_a_range_of_days_comes_back_from_the_tags_of_its_run(first: int, days: int) -> None:
    span = DayRange(day(first), day(first) + ONE_DAY * days)
    assert days_of(dg.DagsterRun("rebuild", tags=range_tags(span))) == span


@pytest.mark.parametrize(
    ("tags", "days"),
    [
        ({PARTITION: "2024-03-01"}, "2024-03-01"),
        ({}, "None"),
        ({PARTITION: "all of them"}, "None"),
        ({PARTITION: "2024-13-01"}, "None"),
    ],
)
def test_a_run_has_the_days_that_its_tags_name_or_none(tags: dict[str, str], days: str) -> None:
    assert str(days_of(dg.DagsterRun("rebuild", tags=tags))) == days


@pytest.mark.parametrize(("spelled", "file"), [("make_", "naming"), ("dagster/asset_partition_range_start", "runs")])
def test_names_of_steps_and_tags_of_days_are_spelled_in_one_file(spelled: str, file: str) -> None:
    spelling = {f.place for f in sources(PACKAGE) for text in f.texts if text.value == spelled}
    assert spelling == {f"{PACKAGE}/orchestration/{file}.py"}
