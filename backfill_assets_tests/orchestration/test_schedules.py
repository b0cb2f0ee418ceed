"""The schedules ask for yesterday and what was missed, and for the last days where wanted; both through `rebuild`.

Tested here: schedules of `orchestration.sensors` on lakes without an engine. Not tested here: the runs themselves
(`test_runs`).
"""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.lake.home import Lake
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.runs import RANGE_END, RANGE_START
from backfill_assets.orchestration.sensors import DAILY, ROLLING, missed_days
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


def schedules_of(lake: Lake) -> dict[str, dg.ScheduleDefinition]:
    found = assemble(lake.root, tables).schedules or ()
    return {s.name: s for s in found if isinstance(s, dg.ScheduleDefinition)}


def asked(lake: Lake, name: str, today: date) -> list[tuple[str, str, int | None]]:
    """First day, last day and number of chosen tables of every run that a schedule asks for at 02:00 of `today`."""
    schedules = schedules_of(lake)
    moment = datetime(today.year, today.month, today.day, 2, tzinfo=UTC)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_schedule_context(instance=instance, scheduled_execution_time=moment)
        found = schedules[name].evaluate_tick(context).run_requests or ()
    return [
        (r.tags[RANGE_START], r.tags[RANGE_END], len(r.asset_selection) if r.asset_selection else None) for r in found
    ]


def test_the_daily_load_asks_for_yesterday_of_all_tables_in_one_run(lake: Lake) -> None:
    assert asked(lake, DAILY, day(DAYS + 1)) == [(str(day(DAYS)), str(day(DAYS)), None)]


def test_days_on_which_it_did_not_run_are_made_up_for_in_order(lake: Lake) -> None:
    yesterday = (str(day(DAYS + 4)), str(day(DAYS + 4)), None)
    assert asked(lake, DAILY, day(DAYS + 5)) == [(str(day(DAYS)), str(day(DAYS + 3)), None), yesterday], (
        "a missed day that fails keeps yesterday from nothing"
    )


def test_a_lake_that_was_never_loaded_is_loaded_from_its_first_day(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(TOML.format(start=START, windows=[2, 3]))
    assert missed_days(LakeContext(tmp_path, tables), day(3)) == [DayRange(day(0), day(2)), DayRange(day(2), day(3))]


def test_nothing_at_or_after_as_of_is_asked_for(lake: Lake) -> None:
    path = lake.root / "lake.toml"
    path.write_text(f"as_of = {day(DAYS + 2)}T00:00:00Z\n" + path.read_text())
    assert missed_days(LakeContext(lake.root, tables), day(DAYS + 9)) == [DayRange(day(DAYS), day(DAYS + 2))]


def test_days_that_a_rollback_holds_are_left_out_of_what_schedules_ask_for(lake: Lake) -> None:
    path = lake.root / "lake.toml"
    path.write_text(path.read_text() + "[lateness]\nrolling_days = 4\ndelay_days = 1\n")
    held = {day(3): DayEntry(3, "F", "digest", Built.HELD), day(DAYS): DayEntry(3, "F", "digest", Built.HELD)}
    make_commit(lake.table_place("staging").local(), 2, receipt("staging", held))
    assert [span[:2] for span in asked(lake, ROLLING, day(DAYS))] == [
        (str(day(1)), str(day(2))),
        (str(day(4)), str(day(4))),
    ]
    assert [str(r) for r in missed_days(LakeContext(lake.root, tables), day(DAYS + 3))] == [
        str(day(DAYS + 1)), str(day(DAYS + 2))
    ]  # fmt: skip


def test_the_rolling_reprocess_is_off_and_asks_for_the_last_days_but_the_newest_of_the_built_tables(lake: Lake) -> None:
    path = lake.root / "lake.toml"
    path.write_text(path.read_text() + "[lateness]\nrolling_days = 3\ndelay_days = 2\n")
    statuses = {name: schedule.default_status for name, schedule in schedules_of(lake).items()}
    assert {n for n, status in statuses.items() if status is dg.DefaultScheduleStatus.RUNNING} == {DAILY}
    assert ROLLING in statuses
    assert asked(lake, ROLLING, day(DAYS)) == [(str(day(DAYS - 5)), str(day(DAYS - 3)), 5)]
    assert asked(lake, ROLLING, START + timedelta(days=2)) == []
