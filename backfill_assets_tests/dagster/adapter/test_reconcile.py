"""Records follow the tables: a commit whose run told nothing is told from its receipt, once, when
its run has ended.

Tested here: `dagster.adapter.reconcile` on logs alone; green days that no receipt names. Not tested
here: healing days (`test_event_repair`), dead runs (`test_run_liveness`), and processes that are
really killed (`end_to_end.test_late_data`).
"""

from dataclasses import replace
from datetime import date
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.context import PLAIN
from backfill_assets.dagster.adapter.metadata import STATE, WRITE_ID, unfolded_metadata
from backfill_assets.dagster.adapter.reconcile import receipt_event, record_missed_commits
from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.days import ONE_DAY, inclusive_range
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets_tests.builders import RAW, STAGING, Story, contract, make_commit, receipt
from backfill_assets_tests.dagster.adapter.ticking import Made, seen
from backfill_assets_tests.logs import versions
from backfill_assets_tests.synthetic import START

pytestmark = pytest.mark.usefixtures("storages")
FAILURE, STARTED = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED
WRITTEN = {START: DayEntry(4, "G", "digest"), START + ONE_DAY: DayEntry(5, "H", "digest")}


@pytest.fixture
def lake(lake: Made, instance: dg.DagsterInstance) -> Made:
    """What is there was looked at before."""
    record_missed_commits(instance, *seen(*lake))
    return lake


def commit(lake: Made, run_id: str, **facts: Any) -> int:
    """One more write of staging, by this run; its version."""
    path = lake[0].table_place("staging").local()
    version = len(versions(path))
    make_commit(
        path, version, receipt(days=WRITTEN, run_id=run_id, write_id=f"w-{version}", **facts)
    )
    return version


def told(instance: dg.DagsterInstance) -> dict[str, Any]:
    """The write that Dagster knows, per day of staging."""
    records = instance.fetch_materializations(dg.AssetKey("staging"), limit=50).records
    made = [(str(r.partition_key), r.asset_materialization) for r in reversed(records)]
    told = {d: unfolded_metadata(m.metadata) for d, m in made if m is not None}
    return {d: metadata[WRITE_ID].value for d, metadata in told.items() if WRITE_ID in metadata}


def run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> str:
    span = {runs.RANGE_START: str(START), runs.RANGE_END: str(START + ONE_DAY)}
    return str(instance.add_run(dg.DagsterRun(runs.REBUILD, status=status, tags=span)).run_id)


def test_a_commit_whose_run_ended_without_an_event_is_recorded_once(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    version = commit(lake, run(instance, FAILURE))
    assert (
        f"staging: 2 day(s) of version {version} recorded from the receipt"
        in record_missed_commits(instance, *seen(*lake))
    )
    assert told(instance) == dict.fromkeys(map(str, WRITTEN), f"w-{version}")
    assert record_missed_commits(instance, *seen(*lake)) == []


def test_a_commit_of_a_run_that_goes_on_waits_for_its_end(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    going = run(instance, STARTED)
    first = commit(lake, going)
    second = commit(lake, run(instance, FAILURE))
    assert record_missed_commits(instance, *seen(*lake)) == []
    instance.report_run_failed(_run(instance, going))
    done = record_missed_commits(instance, *seen(*lake))
    assert [line for line in done if "version" in line] == [
        f"staging: 2 day(s) of version {v} recorded from the receipt" for v in (first, second)
    ]


def _run(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun:
    found = instance.get_run_by_id(run_id)
    assert found is not None
    return found


def test_days_of_another_instances_run_are_told_by_newest_commits(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    older, newer = (commit(lake, f"of-another-home-{n}") for n in range(2))
    done = [line for line in record_missed_commits(instance, *seen(*lake)) if "staging" in line]
    assert done == [f"staging: 2 day(s) of version {newer} recorded from the receipt"]
    assert told(instance) == dict.fromkeys(map(str, WRITTEN), f"w-{newer}")
    assert older < newer
    commit(lake, "")
    assert record_missed_commits(instance, *seen(*lake)) == []


def test_a_month_that_is_not_over_is_recorded_as_provisional() -> None:
    monthly = replace(contract("monthly", "month", Input("staging")), calendar=Calendar(Unit.MONTH))
    story = Story(start=date(2024, 2, 1), contracts=(RAW, STAGING, monthly))
    days = [*inclusive_range(date(2024, 2, 1), date(2024, 3, 2))]
    for day in days:
        story.land(day, f"file of {day}")
    story.load(*days).build("staging", *days).build("monthly", date(2024, 2, 1), date(2024, 3, 1))
    states = story.states()
    events = {
        day: receipt_event(PLAIN, states, "monthly", day, made)
        for day, made in states.view.table("monthly").latest.items()
    }
    shown = {str(day): event.metadata[STATE].value for day, event in events.items()}
    assert shown == {"2024-02-01": "fresh", "2024-03-01": "provisional"}
