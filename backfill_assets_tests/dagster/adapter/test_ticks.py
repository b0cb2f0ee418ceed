"""What a tick asks for: from the lake and Dagster's runs as they are, whatever an earlier tick did
or forgot.

Tested here: `dagster.adapter.ticks` and `dagster.adapter.runs` on lakes without an engine, and days
of active plans. Not tested here: attempts (`test_backfill_requests`), the runs
(`end_to_end.test_late_data`), and which days need making (`kernel.core.test_needs`).
"""

from datetime import UTC, date, datetime, timedelta

import dagster as dg
import pytest

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.backfill_requests import read_tick_state
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.sensors import missed_days
from backfill_assets.dagster.adapter.ticks import (
    CONTROLS,
    LANDING,
    LATE_DATA,
    SCAN,
    Tick,
    _note_landed_files,
)
from backfill_assets.dagster.adding import PLANS
from backfill_assets.engines.server import server_status
from backfill_assets.intake.landed_changes import Comparison
from backfill_assets.intake.ledger import FileRecord, RowCounts
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.files import keep_plan, set_mark
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.reading.claims import planned_day_lines
from backfill_assets_tests.builders import make_commit
from backfill_assets_tests.dagster.adapter.ticking import (
    DAYS,
    NOW,
    Made,
    asked,
    day,
    drop,
    landing,
    late,
    ran,
    settings,
    stale,
)
from backfill_assets_tests.logs import versions
from backfill_assets_tests.synthetic import build

pytestmark = pytest.mark.usefixtures("storages")


def test_a_tick_with_nothing_to_do_asks_for_nothing_and_no_engine(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    assert (late(lake, instance).requests, late(lake, instance).notes) == ([], [])
    assert server_status(lake[0].root) is None


def test_todays_partition_does_not_exist_before_the_day_is_over(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    moment = datetime(2024, 3, 1, 23, 59, tzinfo=UTC)
    assert (
        read_tick_state(instance, LakeContext(lake[0].root, tables), moment).until == moment.date()
    )


def test_stale_days_are_asked_for_in_one_run_with_their_downstream(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    stale(lake, 2, 5)
    tick = late(lake, instance)
    assert asked(tick) == [f"staging {day(2)}..{day(5)}"]
    (request,) = tick.requests
    assert request.asset_selection == [
        dg.AssetKey(c.name) for c in lake[1].contracts if c.name != "raw"
    ]
    assert request.tags[runs.RANGE_START] == str(day(0)), "labels look ahead"
    assert request.run_config["ops"]["make_staging"]["config"]["asked"].keys() == {
        str(day(2)),
        str(day(5)),
    }
    assert any("features" in note and "wait" in note for note in tick.notes)


@pytest.mark.parametrize(("table", "column"), [("raw", "arrival_date"), ("staging", "event_date")])
def test_rows_of_another_program_are_an_alarm_until_made_again(
    lake: Made, instance: dg.DagsterInstance, table: str, column: str
) -> None:
    path = lake[0].table_place(table).local()
    add = {
        "path": "theirs.parquet",
        "size": 4,
        "dataChange": True,
        "partitionValues": {column: str(day(2))},
    }
    make_commit(path, len(versions(path)), actions=[{"add": add}])
    alarm = late(lake, instance).alarms[f"foreign {table}"]
    assert f"{table} {day(2)}: another program wrote here" in alarm
    build(*lake, table, {day(2): 3})
    assert late(lake, instance).alarms == {}


def test_a_repeated_tick_has_the_same_key_and_a_queued_run_none(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    stale(lake, 2)
    (first,), (again,) = late(lake, instance).requests, late(lake, instance).requests
    assert first.run_key == again.run_key
    ran(instance, first, dg.DagsterRunStatus.NOT_STARTED)
    assert late(lake, instance).requests == []


@pytest.mark.parametrize(
    "who", ["a range of all tables", "one partition of some tables", "another day"]
)
def test_days_of_any_queued_or_running_run_are_left_alone(
    lake: Made, instance: dg.DagsterInstance, who: str
) -> None:
    stale(lake, 2)
    span = {runs.RANGE_START: str(day(1)), runs.RANGE_END: str(day(3))}
    request = {
        "a range of all tables": dg.RunRequest(job_name=runs.REBUILD, tags=span),
        "one partition of some tables": dg.RunRequest(
            job_name="__ASSET_JOB",
            partition_key=str(day(2)),
            asset_selection=[dg.AssetKey("staging")],
        ),
        "another day": dg.RunRequest(job_name=runs.REBUILD, partition_key=str(day(7))),
    }[who]
    ran(instance, request, dg.DagsterRunStatus.NOT_STARTED)
    assert bool(late(lake, instance).requests) == (who == "another day")


def test_the_caps_hold_runs_back_and_say_so(lake: Made, instance: dg.DagsterInstance) -> None:
    stale(lake, 2, 5)
    settings(lake, "runs_per_tick = 1")
    (request,) = late(lake, instance).requests
    ran(instance, request, dg.DagsterRunStatus.FAILURE)
    tick = late(lake, instance)
    assert len(tick.requests) == 1
    assert any("1 more run(s) held back by the caps: 1 a tick" in note for note in tick.notes)


def test_at_most_so_many_runs_are_asked_for_in_24_hours(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    stale(lake, 2)
    settings(lake, "runs_per_day = 1")
    now = datetime.now(UTC)
    (request,) = late(lake, instance, now).requests
    ran(instance, request, dg.DagsterRunStatus.FAILURE)
    assert late(lake, instance, now).requests == []
    assert late(lake, instance, now + timedelta(hours=25)).requests
    assert late(lake, instance, now - timedelta(days=365)).requests, (
        "the clock was ahead, and is set right"
    )


def test_a_dry_run_says_what_it_would_ask_for(lake: Made, instance: dg.DagsterInstance) -> None:
    stale(lake, 2)
    settings(lake, "dry_run = true")
    tick = late(lake, instance)
    assert tick.requests == []
    assert any(note.startswith(f"would request staging {day(2)}") for note in tick.notes)


def test_a_new_file_is_scanned_once_it_is_complete(
    empty: Made, instance: dg.DagsterInstance
) -> None:
    drop(empty, "new.jsonl", age_seconds=0.5)
    tick = landing(empty, instance)
    assert tick.requests == []
    assert any("still being written" in note for note in tick.notes)
    (request,) = landing(empty, instance, NOW + timedelta(seconds=10)).requests
    assert request.job_name == SCAN
    ran(instance, request, dg.DagsterRunStatus.STARTED)
    assert landing(empty, instance, NOW + timedelta(seconds=10)).requests == []


def test_altered_and_vanished_files_are_alarms(lake: Made, instance: dg.DagsterInstance) -> None:
    folder = lake[0].root / "landing"
    (folder / f"{day(1)}.jsonl").write_text("{}")
    (folder / f"{day(3)}.jsonl").unlink()
    alarms = landing(lake, instance).alarms
    assert {
        name: str(day(n)) in alarms[name]
        for name, n in (("altered files", 1), ("missing files", 3))
    } == {"altered files": True, "missing files": True}
    assert not any("scan" in name for name in alarms)


def test_a_recorded_file_that_a_later_manifest_contradicts_holds_its_days_back() -> None:
    seen = datetime(2026, 1, 1, tzinfo=UTC)
    file = FileRecord(
        "a.csv",
        "a",
        1,
        0,
        seen,
        day(1),
        {day(1): RowCounts(2, 0, 2)},
        contradicted="its totals (m) disagree",
    )
    tick = Tick()
    assert _note_landed_files(tick, Comparison([], [], [], [], contradicted=[file]), "") == {day(1)}
    assert "a.csv" in tick.alarms["contradicted files"]


def test_the_sensors_run_by_themselves_and_cursors_are_for_people(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    stale(lake, 2)
    defs = assemble(lake[0].root, tables)
    sensors = {s.name: s for s in defs.sensors or ()}
    running = {n for n, s in sensors.items() if s.default_status is dg.DefaultSensorStatus.RUNNING}
    assert running == {LANDING, LATE_DATA, PLANS, CONTROLS}
    found = []
    for cursor in (None, "wiped", "staging 1999-01-01 requested"):
        with dg.build_sensor_context(instance=instance, cursor=cursor, definitions=defs) as context:
            result = sensors[LATE_DATA].evaluate_tick(context)
        found.append([r.run_key for r in result.run_requests or ()])
    assert found[0]
    assert found == [found[0]] * 3


def _active(lake: Lake, pipeline: Pipeline, first: int, end: int, *names: str) -> str:
    days = DayRange(day(first), day(end))
    plan = make_plan(lake, pipeline, PlanRequest(days, names, Policy()))
    keep_plan(lake, plan)
    set_mark(lake, plan.id, "started")
    return plan.id


def test_the_sensor_leaves_days_of_an_active_plan_alone(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    stale(lake, 2, 8)
    plan = _active(*lake, 0, 5, "staging")
    tick = late(lake, instance)
    assert asked(tick) == [f"staging {day(8)}"]
    assert (
        f"staging: {day(0)}..{day(4)} left alone: of an active plan (`backfill-assets plan list`)"
        in tick.notes
    )
    set_mark(lake[0], plan, "ended", "finished")
    assert asked(late(lake, instance)) == [f"staging {day(2)}..{day(8)}"]


def test_the_daily_schedule_leaves_days_of_an_active_plan_alone(lake: Made) -> None:
    today = day(DAYS + 3)
    context = LakeContext(lake[0].root, tables)
    assert [d for span in missed_days(context, today) for d in span] == [
        day(DAYS + n) for n in range(3)
    ]
    _active(*lake, DAYS, DAYS + 1, "raw")
    assert [d for span in missed_days(context, today) for d in span] == [
        day(DAYS + 1),
        today - ONE_DAY,
    ]


def test_days_left_to_plans_are_told_per_table() -> None:
    (line,) = planned_day_lines({"staging": {date(2024, 3, 1)}, "raw": set()}, ("raw", "staging"))
    assert line.startswith("staging: 2024-03-01 left alone")
