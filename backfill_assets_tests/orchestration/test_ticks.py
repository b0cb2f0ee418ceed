"""What a tick asks for: from the lake and Dagster's runs as they are, whatever an earlier tick did or forgot.

Tested here: `orchestration.ticks` and `orchestration.runs` on lakes without an engine. Not tested here: what runs make
of it (`end_to_end.test_late_data`), and which days need making (`core.test_needs`).
"""

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.model import Pipeline, make_pipeline
from backfill_assets.lake.server import server_status
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.ticks import LANDING, LATE_DATA, SCAN, Tick, landing_tick, late_data_tick
from backfill_assets.orchestration.work import Shop
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.synthetic import START, TOML, build, synthetic_lake

DAYS = 12
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Lake, Pipeline]:
    return synthetic_lake(tmp_path / "lake", DAYS)


def day(number: int) -> date:
    return START + ONE_DAY * number


def stale(lake: tuple[Lake, Pipeline], *numbers: int) -> None:
    """Days of staging whose recorded inputs are not today's."""
    build(*lake, "staging", dict.fromkeys(map(day, numbers), 3), digests=dict.fromkeys(map(day, numbers), "older"))


def late(lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance, now: datetime = NOW) -> Tick:
    return late_data_tick(instance, Shop(lake[0].root, tables), now)


def landing(lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance, now: datetime = NOW) -> Tick:
    return landing_tick(instance, Shop(lake[0].root, tables), now)


def settings(lake: tuple[Lake, Pipeline], *lines: str) -> None:
    path = lake[0].root / "lake.toml"
    path.write_text(path.read_text() + "\n[lateness]\n" + "\n".join(lines) + "\n")


def ran(instance: dg.DagsterInstance, request: dg.RunRequest, status: dg.DagsterRunStatus, **more: Any) -> None:
    """A run of this request, in this status, as Dagster's storage would hold it."""
    tags = dict(request.tags) | ({runs.PARTITION: request.partition_key} if request.partition_key else {})
    chosen = frozenset(request.asset_selection or ())
    instance.add_run(
        dg.DagsterRun(
            str(request.job_name), run_config=dict(request.run_config), tags=tags, status=status,
            asset_selection=chosen or None, **more,
        )
    )  # fmt: skip


def asked(tick: Tick) -> list[str]:
    return [str(r.run_key).rsplit(" ", 3)[0] for r in tick.requests]


def test_a_tick_with_nothing_to_do_asks_for_nothing_and_starts_no_engine(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    assert (late(lake, instance).requests, late(lake, instance).notes) == ([], [])
    assert server_status(lake[0].root) is None


def test_stale_days_are_asked_for_in_one_run_of_their_table_and_what_hangs_on_them_waits(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    stale(lake, 2, 5)
    tick = late(lake, instance)
    assert asked(tick) == [f"staging {day(2)}..{day(5)}"]
    (request,) = tick.requests
    assert request.tags[runs.RANGE_START] == str(day(2))
    assert request.run_config["ops"]["make_staging"]["config"]["asked"].keys() == {str(day(2)), str(day(5))}
    assert any("features" in note and "wait" in note for note in tick.notes)


def test_a_repeated_tick_asks_with_the_same_key_and_after_the_run_was_queued_for_nothing(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    stale(lake, 2)
    (first,), (again,) = late(lake, instance).requests, late(lake, instance).requests
    assert first.run_key == again.run_key
    ran(instance, first, dg.DagsterRunStatus.NOT_STARTED)
    assert late(lake, instance).requests == []


@pytest.mark.parametrize("who", ["a range of all tables", "one partition of some tables", "another day"])
def test_days_that_any_queued_or_running_run_covers_are_not_asked_for(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance, who: str
) -> None:
    stale(lake, 2)
    span = {runs.RANGE_START: str(day(1)), runs.RANGE_END: str(day(3))}
    request = {
        "a range of all tables": dg.RunRequest(job_name=runs.REBUILD, tags=span),
        "one partition of some tables": dg.RunRequest(
            job_name="__ASSET_JOB", partition_key=str(day(2)), asset_selection=[dg.AssetKey("staging")]
        ),
        "another day": dg.RunRequest(job_name=runs.REBUILD, partition_key=str(day(7))),
    }[who]
    ran(instance, request, dg.DagsterRunStatus.NOT_STARTED)
    assert bool(late(lake, instance).requests) == (who == "another day")


def test_a_day_whose_runs_end_in_vain_is_asked_for_a_bounded_number_of_times_and_then_shown(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    stale(lake, 2, 3)
    keys = set()
    for attempt in range(3):
        tick = late(lake, instance)
        assert len(tick.requests) == (1 if attempt == 0 else 2), "after the first failure each day is alone"
        keys |= {r.run_key for r in tick.requests}
        for request in tick.requests:
            ran(instance, request, dg.DagsterRunStatus.FAILURE)
    assert len(keys) == 1 + 2 + 2
    tick = late(lake, instance)
    assert tick.requests == []
    assert any("will not be asked for again" in note and str(day(2)) in note for note in tick.notes)


def test_a_changed_input_is_asked_for_although_an_older_one_failed_for_good(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    stale(lake, 2)
    for _ in range(3):
        for request in late(lake, instance).requests:
            ran(instance, request, dg.DagsterRunStatus.FAILURE)
    assert late(lake, instance).requests == []
    build(*lake, "staging", {day(2): 3}, digests={day(2): "older still"})
    assert asked(late(lake, instance)) == [f"staging {day(2)}"]


def test_the_caps_hold_runs_back_and_say_so(lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance) -> None:
    stale(lake, 2, 5)
    settings(lake, "runs_per_tick = 1")
    (request,) = late(lake, instance).requests
    ran(instance, request, dg.DagsterRunStatus.FAILURE)
    tick = late(lake, instance)
    assert len(tick.requests) == 1
    assert any("1 more run(s) held back by the caps: 1 a tick" in note for note in tick.notes)


def test_at_most_so_many_runs_are_asked_for_in_24_hours(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    stale(lake, 2)
    settings(lake, "runs_per_day = 1")
    now = datetime.now(UTC)
    (request,) = late(lake, instance, now).requests
    ran(instance, request, dg.DagsterRunStatus.FAILURE)
    assert late(lake, instance, now).requests == []
    assert late(lake, instance, now + timedelta(hours=25)).requests


def test_a_dry_run_says_what_it_would_ask_for(lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance) -> None:
    stale(lake, 2)
    settings(lake, "dry_run = true")
    tick = late(lake, instance)
    assert tick.requests == []
    assert any(note.startswith(f"would request staging {day(2)}") for note in tick.notes)


def test_the_rolling_policy_makes_the_last_days_again_once_per_version_of_the_ledger(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    settings(lake, 'policy = "rolling"', "rolling_days = 3")
    (request,) = late(lake, instance).requests
    assert (request.tags[runs.RANGE_START], request.tags[runs.RANGE_END]) == (str(day(DAYS - 3)), str(day(DAYS - 1)))
    assert next(k.path[-1] for k in request.asset_selection or ()) == "staging"
    ran(instance, request, dg.DagsterRunStatus.SUCCESS)
    tick = late(lake, instance)
    assert tick.requests == []
    assert "nothing was loaded since" in tick.notes[0]


def drop(lake: tuple[Lake, Pipeline], name: str, age_seconds: float) -> Path:
    path = lake[0].root / "landing" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"seq": 1}\n')
    moment = NOW.timestamp() - age_seconds
    os.utime(path, (moment, moment))
    return path


@pytest.fixture
def empty(tmp_path: Path) -> tuple[Lake, Pipeline]:
    """A lake into which nothing landed."""
    root = tmp_path / "lake"
    root.mkdir()
    (root / "lake.toml").write_text(TOML.format(start=START, windows=[2, 3]))
    lake = open_lake(root)
    return lake, make_pipeline(tables(lake.settings))


def test_a_new_file_is_scanned_once_it_is_complete(empty: tuple[Lake, Pipeline], instance: dg.DagsterInstance) -> None:
    drop(empty, "new.jsonl", age_seconds=0.5)
    tick = landing(empty, instance)
    assert tick.requests == []
    assert any("still being written" in note for note in tick.notes)
    (request,) = landing(empty, instance, NOW + timedelta(seconds=10)).requests
    assert request.job_name == SCAN
    ran(instance, request, dg.DagsterRunStatus.STARTED)
    assert landing(empty, instance, NOW + timedelta(seconds=10)).requests == []


def test_a_file_with_a_time_stamp_in_the_future_is_scanned_and_not_waited_for(
    empty: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    drop(empty, "new.jsonl", age_seconds=-365 * 86_400)
    (request,) = landing(empty, instance).requests
    assert request.job_name == SCAN


def test_files_that_a_scan_cannot_take_are_not_scanned_for_ever(
    empty: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    drop(empty, "new.jsonl", age_seconds=60)
    for _ in range(3):
        (request,) = landing(empty, instance).requests
        ran(instance, request, dg.DagsterRunStatus.SUCCESS)
    tick = landing(empty, instance)
    assert tick.requests == []
    assert any("in vain" in note for note in tick.notes)


def test_the_sensors_are_named_and_run_by_themselves_and_the_cursor_is_for_people_only(
    lake: tuple[Lake, Pipeline], instance: dg.DagsterInstance
) -> None:
    from backfill_assets.orchestration.assemble import assemble

    stale(lake, 2)
    defs = assemble(lake[0].root, tables)
    sensors = {s.name: s for s in defs.sensors or ()}
    running = {n for n, s in sensors.items() if s.default_status is dg.DefaultSensorStatus.RUNNING}
    assert running == {LANDING, LATE_DATA}
    found = []
    for cursor in (None, "wiped", "staging 1999-01-01 requested"):
        with dg.build_sensor_context(instance=instance, cursor=cursor, definitions=defs) as context:
            result = sensors[LATE_DATA].evaluate_tick(context)
        found.append([r.run_key for r in result.run_requests or ()])
    assert found[0]
    assert found == [found[0]] * 3
