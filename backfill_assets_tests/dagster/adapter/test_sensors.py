"""The two sensors as Dagster calls them: runs and a cursor that shows what was found, or why there
are none.

Tested here: `dagster.adapter.sensors` and its schedules on lakes without an engine. Not tested
here: what a tick decides (`test_ticks`), and files that land (`browser.test_ui`).
"""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.runs import RANGE_END, RANGE_START
from backfill_assets.dagster.adapter.sensors import (
    CURSOR_CHARS,
    DAILY,
    ROLLING,
    _sensor_result,
    lake_sensors,
    missed_days,
    scan_job,
)
from backfill_assets.dagster.adapter.ticks import LANDING, LATE_DATA, Tick
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.attention import sensor_alarms
from backfill_assets_tests.builders import make_commit, receipt
from backfill_assets_tests.dagster.adapter.sinks import Hook
from backfill_assets_tests.dagster.adapter.ticking import Made, day, stale
from backfill_assets_tests.synthetic import START, TOML, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


def sensors(root: Path) -> dict[str, dg.SensorDefinition]:
    lake_context = LakeContext(root, tables)
    return {s.name: s for s in lake_sensors(lake_context, [scan_job(lake_context)])}


def evaluated(root: Path, name: str, instance: dg.DagsterInstance) -> Any:
    """What Dagster gets of one tick."""
    return sensors(root)[name](dg.build_sensor_context(instance=instance))


def test_a_tick_gives_runs_or_why_not_and_a_cursor_that_tells(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    nothing = evaluated(lake[0].root, LATE_DATA, instance)
    assert (nothing.run_requests or [], nothing.cursor) == ([], "nothing to do")
    assert nothing.cursor in str(nothing.skip_reason)
    stale(lake, 2)
    found = evaluated(lake[0].root, LATE_DATA, instance)
    assert [str(day(2)) in str(r.run_config) for r in found.run_requests] == [True]
    assert str(day(2)) in found.cursor[:CURSOR_CHARS] == found.cursor
    for file in (lake[0].root / "landing").iterdir():
        file.unlink()
    assert "missing" in evaluated(lake[0].root, LANDING, instance).cursor
    assert any("missing" in str(told) for told in sensor_alarms(lake[0].root)), (
        "it is kept for whoever asks"
    )


def test_a_tick_that_requests_runs_leaves_its_alarms_to_the_next_one(
    lake: Made, instance: dg.DagsterInstance, hook: Hook
) -> None:
    lake_context, context = (
        LakeContext(lake[0].root, tables),
        dg.build_sensor_context(instance=instance),
    )
    alarms = {"altered files": "1 landed file(s) altered: a"}
    for requests, posted in (([dg.RunRequest()], 0), ([], 1), ([], 1)):
        given = _sensor_result(
            context, lake_context, LANDING, Tick(requests=requests, alarms=alarms)
        )
        assert len(given.run_requests or []) == len(requests)
        assert len(hook.kept) == posted


WRITTEN = 6


@pytest.fixture
def own_lake(tmp_path: Path) -> Lake:
    return synthetic_lake(tmp_path / "lake", WRITTEN)[0]


def schedules_of(own_lake: Lake) -> dict[str, dg.ScheduleDefinition]:
    found = assemble(own_lake.root, tables).schedules or ()
    return {s.name: s for s in found if isinstance(s, dg.ScheduleDefinition)}


def asked(own_lake: Lake, name: str, today: date) -> list[tuple[str, str, int | None]]:
    """First day, last day and number of chosen tables of every run that a schedule asks for at
    02:00 of `today`."""
    schedules = schedules_of(own_lake)
    moment = datetime(today.year, today.month, today.day, 2, tzinfo=UTC)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_schedule_context(instance=instance, scheduled_execution_time=moment)
        found = schedules[name].evaluate_tick(context).run_requests or ()
    return [
        (
            r.tags[RANGE_START],
            r.tags[RANGE_END],
            len(r.asset_selection) if r.asset_selection else None,
        )
        for r in found
    ]


@pytest.mark.parametrize(
    ("today", "spans"),
    [
        (WRITTEN + 1, [(WRITTEN, WRITTEN)]),
        (WRITTEN + 5, [(WRITTEN, WRITTEN + 3), (WRITTEN + 4, WRITTEN + 4)]),
    ],
    ids=[
        "yesterday of all tables in one run",
        "missed days in order, which keep yesterday from nothing",
    ],
)
def test_the_daily_load_asks_for_what_is_missing(
    own_lake: Lake, today: int, spans: list[tuple[int, int]]
) -> None:
    assert asked(own_lake, DAILY, day(today)) == [
        (str(day(first)), str(day(last)), None) for first, last in spans
    ]


def test_a_new_lake_is_loaded_from_its_first_day_and_nothing_after_as_of(
    own_lake: Lake, tmp_path: Path
) -> None:
    (tmp_path / "lake.toml").write_text(TOML.format(start=START, windows=[2, 3]))
    assert missed_days(LakeContext(tmp_path, tables), day(3)) == [
        DayRange(day(0), day(2)),
        DayRange(day(2), day(3)),
    ]
    path = own_lake.root / "lake.toml"
    path.write_text(f"as_of = {day(WRITTEN + 2)}T00:00:00Z\n" + path.read_text())
    found = missed_days(LakeContext(own_lake.root, tables), day(WRITTEN + 9))
    assert found == [DayRange(day(WRITTEN), day(WRITTEN + 2))]


@pytest.mark.parametrize("name", ["weekly_upkeep", "hourly_export"])
def test_upkeep_and_exports_wait_until_somebody_turns_them_on_and_act_then(
    own_lake: Lake, name: str
) -> None:
    schedule = schedules_of(own_lake)[name]
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    with dg.DagsterInstance.ephemeral() as instance:
        sunday = datetime(2024, 3, 3, tzinfo=UTC)
        context = dg.build_schedule_context(instance=instance, scheduled_execution_time=sunday)
        (run,) = schedule.evaluate_tick(context).run_requests or ()
    ops = {"delete_unneeded": {"config": {"act": True}}} if name == "weekly_upkeep" else None
    assert run.run_config.get("ops") == ops


def test_days_that_a_rollback_holds_are_left_out_of_what_schedules_ask_for(own_lake: Lake) -> None:
    path = own_lake.root / "lake.toml"
    path.write_text(path.read_text() + "[lateness]\nrolling_days = 4\ndelay_days = 1\n")
    held = {
        day(3): DayEntry(3, "F", "digest", Built.HELD),
        day(WRITTEN): DayEntry(3, "F", "digest", Built.HELD),
    }
    make_commit(own_lake.table_place("staging").local(), 2, receipt("staging", held))
    assert [span[:2] for span in asked(own_lake, ROLLING, day(WRITTEN))] == [
        (str(day(1)), str(day(2))),
        (str(day(4)), str(day(4))),
    ]
    assert [str(r) for r in missed_days(LakeContext(own_lake.root, tables), day(WRITTEN + 3))] == [
        str(day(WRITTEN + 1)),
        str(day(WRITTEN + 2)),
    ]


def test_the_rolling_reprocess_is_off_and_asks_for_the_last_days_but_the_newest(
    own_lake: Lake,
) -> None:
    path = own_lake.root / "lake.toml"
    path.write_text(path.read_text() + "[lateness]\nrolling_days = 3\ndelay_days = 2\n")
    statuses = {name: schedule.default_status for name, schedule in schedules_of(own_lake).items()}
    assert {n for n, status in statuses.items() if status is dg.DefaultScheduleStatus.RUNNING} == {
        DAILY
    }
    assert ROLLING in statuses
    assert asked(own_lake, ROLLING, day(WRITTEN)) == [
        (str(day(WRITTEN - 5)), str(day(WRITTEN - 3)), 5)
    ]
    assert asked(own_lake, ROLLING, START + timedelta(days=2)) == []
