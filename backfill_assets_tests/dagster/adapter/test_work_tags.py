"""Work as tags of runs and back: days, words, force, and whom receipts name; what the tags of a run
say.

Tested here: `Work` in `dagster.adapter.backfill_requests` and the tags of `dagster.adapter.runs`.
Not tested here: what a step makes of them (`test_assets`, `dagster/test_io_manager`).
"""

from dataclasses import replace
from datetime import date

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.dagster.adapter.backfill_requests import dagster_request, tags_of, work_of
from backfill_assets.dagster.adapter.runs import (
    BY_TAG,
    PARTITION,
    RANGE_START,
    days_of_run,
    range_tags,
)
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, some_days
from backfill_assets.kernel.core.ownership import BY, whoami
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG, Work
from backfill_assets.kernel.core.write_mode import ON_BAD_DAYS_TAG
from backfill_assets_tests.builders import day
from backfill_assets_tests.dagster.adapter.ticking import Made
from backfill_assets_tests.sources import PACKAGE, sources

DAY = date(2024, 3, 1)
SPAN = DayRange(DAY, DAY + ONE_DAY * 5)


@pytest.mark.parametrize(
    "days", [SPAN, DayRange(DAY, DAY + ONE_DAY), some_days([DAY, DAY + ONE_DAY * 3])]
)
def test_work_that_became_tags_of_a_run_is_the_same_for_its_steps(days: DayRange) -> None:
    tags = {PLAN_TAG: "p", CHUNK_TAG: "1", ON_BAD_DAYS_TAG: "keep_good"}
    work = Work(days, ("staging", "features"), "plan", "why", tags, frozenset({"features"}))
    run = dg.DagsterRun("rebuild", tags=tags_of(work))
    found = days_of_run(run)
    assert found == days
    step = work_of(run.tags, found, "features", "ada@desk")
    assert step == replace(work, tables=("features",), tags={BY: "ada@desk", **tags})


def test_receipts_name_the_user_of_a_command_or_of_dagster_and_never_whom_a_tag_names() -> None:
    tags = {BY_TAG: "cfo@bank", "dagster/sensor_name": "landing", "else": "x"}
    found = work_of(tags, SPAN, "staging")
    assert found.tags == {BY: f"Dagster, run by {whoami()}", "dagster/sensor_name": "landing"}
    assert (found.reason, found.note, found.force) == ("manual", "", frozenset())


def test_a_run_that_a_sensor_requests_for_a_thousand_days_has_one_tag_for_them(lake: Made) -> None:
    days = DayRange(DAY, DAY + ONE_DAY * 1000)
    needed = Work(
        days, ("staging", "features"), needed=dict.fromkeys(map(str, days), "as it is"), attempt=2
    )
    request = dagster_request(needed, "late_data", lake[0])
    assert {name: value for name, value in request.tags.items() if str(days.start) in value} == {
        ".dagster/asked.staging": str(days),
        RANGE_START: str(days.start),
    }
    assert len(request.tags) < 10


@given(st.integers(0, 400), st.integers(1, 1100))
def test_a_range_of_days_comes_back_from_the_tags_of_its_run(first: int, days: int) -> None:
    span = DayRange(day(first), day(first) + ONE_DAY * days)
    assert days_of_run(dg.DagsterRun("rebuild", tags=range_tags(span))) == span


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
    assert str(days_of_run(dg.DagsterRun("rebuild", tags=tags))) == days


@pytest.mark.parametrize(
    ("spelled", "file"), [("make_", "context"), ("dagster/asset_partition_range_start", "runs")]
)
def test_names_of_steps_and_tags_of_days_are_spelled_in_one_file(spelled: str, file: str) -> None:
    spelling = {f.place for f in sources(PACKAGE) for text in f.texts if text.value == spelled}
    assert spelling == {f"{PACKAGE}/dagster/adapter/{file}.py"}
