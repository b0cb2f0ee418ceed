"""The schedule asks for yesterday and what was missed, through `rebuild`.

Tested here: the schedule of `orchestration.sensors` on lakes without an engine. Not tested here: the runs themselves
(`test_runs`).
"""

from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.lake.home import Lake
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.runs import RANGE_END, RANGE_START
from backfill_assets.orchestration.sensors import DAILY, missed_days
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import make_commit, receipt
from backfill_assets_tests.operations.synthetic import START, TOML, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")

DAYS = 6


def day(number: int) -> date:
    return START + ONE_DAY * number


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return synthetic_lake(tmp_path / "lake", DAYS)[0]


def asked(lake: Lake, today: date) -> list[tuple[str, str, int | None]]:
    """First day, last day and number of chosen tables of every run that the schedule asks for at 02:00 of `today`."""
    (schedule,) = assemble(lake.root, tables).schedules or ()
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.name, schedule.default_status) == (DAILY, dg.DefaultScheduleStatus.RUNNING)
    moment = datetime(today.year, today.month, today.day, 2, tzinfo=UTC)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_schedule_context(instance=instance, scheduled_execution_time=moment)
        found = schedule.evaluate_tick(context).run_requests or ()
    return [
        (r.tags[RANGE_START], r.tags[RANGE_END], len(r.asset_selection) if r.asset_selection else None) for r in found
    ]


def test_the_daily_load_asks_for_yesterday_of_all_tables_in_one_run(lake: Lake) -> None:
    assert asked(lake, day(DAYS + 1)) == [(str(day(DAYS)), str(day(DAYS)), None)]


def test_days_on_which_it_did_not_run_are_made_up_for_in_order(lake: Lake) -> None:
    yesterday = (str(day(DAYS + 4)), str(day(DAYS + 4)), None)
    assert asked(lake, day(DAYS + 5)) == [(str(day(DAYS)), str(day(DAYS + 3)), None), yesterday], (
        "a missed day that fails keeps yesterday from nothing"
    )


def test_a_lake_that_was_never_loaded_is_loaded_from_its_first_day(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(TOML.format(start=START, windows=[2, 3]))
    assert missed_days(LakeContext(tmp_path, tables), day(3)) == [DayRange(day(0), day(2)), DayRange(day(2), day(3))]


def test_nothing_at_or_after_as_of_is_asked_for(lake: Lake) -> None:
    path = lake.root / "lake.toml"
    path.write_text(f"as_of = {day(DAYS + 2)}T00:00:00Z\n" + path.read_text())
    assert missed_days(LakeContext(lake.root, tables), day(DAYS + 9)) == [DayRange(day(DAYS), day(DAYS + 2))]


def test_days_that_a_rollback_holds_are_left_out_of_what_the_schedule_asks_for(lake: Lake) -> None:
    held = {day(3): DayEntry(3, "F", "digest", Built.HELD), day(DAYS): DayEntry(3, "F", "digest", Built.HELD)}
    make_commit(lake.table_path("staging"), 2, receipt("staging", held))
    assert [str(r) for r in missed_days(LakeContext(lake.root, tables), day(DAYS + 3))] == [
        str(day(DAYS + 1)), str(day(DAYS + 2))
    ]  # fmt: skip
