"""Markers of runs: a living run is never ended, a dead one is, and two instances of Dagster keep
out of each other's.

Tested here: `dagster.adapter.runs` and what the reconcile remembers per instance. Not tested here:
recording commits (`test_runs`), and processes that are really killed (`end_to_end.test_late_data`).
"""

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import dagster as dg
import grpc
import pytest

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.reconcile import reconcile
from backfill_assets.dagster.adapter.runs import end_dead_runs, markers_of
from backfill_assets.dagster.adapter.ticks import LATE_DATA
from backfill_assets.kernel.core.plans import PLAN_TAG
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.log.run_markers import BEAT, UNKNOWN_PROCESS, live_runs
from backfill_assets.kernel.place.lease_watch import place_time
from backfill_assets.kernel.place.processes import PlacedProcess
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.attention import sensor_alarms
from backfill_assets_tests.builders import make_commit, receipt
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.dagster.adapter.ticking import (
    Made,
    all_fail,
    asked,
    day,
    late,
    seen,
    stale,
)
from backfill_assets_tests.kernel.place.test_processes import step_the_clock
from backfill_assets_tests.processes import free_port
from backfill_assets_tests.synthetic import START

pytestmark = pytest.mark.usefixtures("storages")
QUEUED, STARTED, FAILURE, SUCCESS = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.SUCCESS,
)
DAYS = 2


@pytest.fixture
def other() -> Iterator[dg.DagsterInstance]:
    """Dagster with another home."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def begun(
    instance: dg.DagsterInstance,
    lake: Lake,
    process: PlacedProcess | None = None,
    origin: Any = None,
) -> str:
    """A run that says it is running, marked by this process or the one given."""
    span = {runs.RANGE_START: str(START), runs.RANGE_END: str(START)}
    run = dg.DagsterRun(runs.REBUILD, status=STARTED, tags=span, remote_job_origin=origin)
    run_id: str = instance.add_run(run).run_id
    markers = markers_of(instance, lake)
    markers.mark(run_id)
    if process is not None:
        lake.place.local(f"{markers.folder}/{run_id}").write_text(json.dumps(asdict(process)))
    return run_id


def show_last(
    instance: dg.DagsterInstance, lake: Lake, run_id: str, seconds: float, sign: bytes = b"killed"
) -> None:
    """Let a run have given its last sign of life so many seconds ago."""
    beat = lake.place.local(f"{markers_of(instance, lake).folder}/{run_id}{BEAT}")
    beat.unlink()  # the thread of the process that made it shows what is gone
    beat.write_bytes(sign)
    now = place_time(lake.place)
    os.utime(beat, (now - seconds, now - seconds))


@contextmanager
def code_server() -> Iterator[int]:
    """The port of what answers as a code server does when it is asked who it is."""

    def answer(_: object, __: object) -> bytes:
        return b""  # a reply whose fields have their defaults

    known = grpc.unary_unary_rpc_method_handler(answer)
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("api.DagsterApi", {"GetServerId": known})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None)


def launched_at(port: int) -> Any:
    """What a run says that a code server at this port started, as Dagster keeps it."""
    server = {
        "__class__": "GrpcServerRepositoryLocationOrigin",
        "host": "127.0.0.1",
        "port": port,
        "socket": None,
        "location_name": "lake",
    }
    repository = {
        "__class__": "ExternalRepositoryOrigin",
        "repository_location_origin": server,
        "repository_name": "__repository__",
    }
    job = {
        "__class__": "ExternalPipelineOrigin",
        "external_repository_origin": repository,
        "pipeline_name": runs.REBUILD,
    }
    return dg.deserialize_value(json.dumps(job))


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


DEAD = replace(PlacedProcess.this(), started=0.0)


@pytest.mark.parametrize("seconds", [-3600.0, 0.0, 3600.0])
def test_a_run_whose_process_is_gone_is_ended_once_and_no_living_one_whatever_step_the_clock_makes(
    instance: dg.DagsterInstance, lake: Made, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    dead, living = begun(instance, lake[0], DEAD), begun(instance, lake[0])
    step_the_clock(seconds, monkeypatch)
    assert end_dead_runs(instance, lake[0]) == [f"run {dead} ended: its process is gone"]
    assert end_dead_runs(instance, lake[0]) == []
    assert (status(instance, dead), status(instance, living)) == (FAILURE, STARTED)


def test_a_living_run_is_not_dead_while_its_steps_mark_it(
    instance: dg.DagsterInstance, lake: Made
) -> None:
    run_id, markers, done = (
        begun(instance, lake[0]),
        markers_of(instance, lake[0]),
        threading.Event(),
    )

    def steps() -> None:
        while not done.is_set():
            markers.mark(run_id)

    writer = threading.Thread(target=steps)
    writer.start()
    try:
        ended = [line for _ in range(300) for line in end_dead_runs(instance, lake[0])]
    finally:
        done.set()
        writer.join()
    assert ended == []
    assert sorted(lake[0].place.names(markers.folder)) == [run_id, f"{run_id}{BEAT}"]


def test_a_run_that_run_monitoring_ended_is_waited_for_no_longer_wherever_its_process_is(
    instance: dg.DagsterInstance, lake: Made
) -> None:
    run_id = begun(
        instance, lake[0], replace(PlacedProcess.this(), host="elsewhere", boot="another")
    )
    assert (end_dead_runs(instance, lake[0]), live_runs(lake[0].place)) == ([], frozenset({run_id}))
    run = instance.get_run_by_id(run_id)
    assert run is not None
    instance.report_run_failed(run, "its worker is gone")
    assert (end_dead_runs(instance, lake[0]), live_runs(lake[0].place)) == ([], frozenset())


def test_a_dead_run_waits_for_its_code_server_since_dagster_tries_none_again_without_it(
    instance: dg.DagsterInstance, lake: Made
) -> None:
    with code_server() as port:
        run_id = begun(instance, lake[0], DEAD, launched_at(port))
        left_alone = begun(instance, lake[0], DEAD, launched_at(free_port()))
        assert end_dead_runs(instance, lake[0]) == [f"run {run_id} ended: its process is gone"]
    assert (status(instance, run_id), status(instance, left_alone)) == (FAILURE, STARTED)
    show_last(instance, lake[0], left_alone, 610.0)
    assert end_dead_runs(instance, lake[0]) == [f"run {left_alone} ended: its process is gone"]


def test_another_instance_leaves_the_markers_alone_and_the_run_is_ended_by_its_own(
    instance: dg.DagsterInstance, other: dg.DagsterInstance, lake: Made
) -> None:
    run_id = begun(instance, lake[0], DEAD)
    assert end_dead_runs(other, lake[0]) == []
    assert end_dead_runs(instance, lake[0]) == [f"run {run_id} ended: its process is gone"]
    assert runs.busy_days(instance, str(lake[0].root), lake[1].contracts) == {}


def test_a_commit_is_recorded_once_by_each_instance_and_not_only_by_the_one_whose_run_made_it(
    instance: dg.DagsterInstance, other: dg.DagsterInstance, lake: Made
) -> None:
    run_id = begun(instance, lake[0], DEAD)
    said = receipt("staging", {START: DayEntry(3, "F", "digest")}, run_id=run_id)
    make_commit(lake[0].table_place("staging").local(), 2, said)
    for looking in (other, instance):
        lines = reconcile(looking, *seen(*lake))
        assert "staging: 1 day(s) of version 2 recorded from the receipt" in lines
        assert reconcile(looking, *seen(*lake)) == []


@pytest.mark.parametrize(
    ("where", "ended"),
    [
        ({"host": "elsewhere", "boot": "b-2"}, False),
        ({"host": "elsewhere", "numbering": "a container's"}, False),
        ({"numbering": "a container's of the same name"}, False),
        ({"boot": "an earlier one"}, True),
        ({"host": "a name it had before"}, True),
    ],
)
def test_a_process_elsewhere_is_not_judged_by_a_number_that_means_another_one_here(
    instance: dg.DagsterInstance, lake: Made, where: dict[str, Any], ended: bool
) -> None:
    here = PlacedProcess.this()
    if not here.boot:
        pytest.skip("this system names no boot")
    run_id = begun(instance, lake[0], replace(here, started=0.0, **where))
    assert bool(end_dead_runs(instance, lake[0])) == ended
    assert status(instance, run_id) is (FAILURE if ended else STARTED)


ELSEWHERE = replace(PlacedProcess.this(), host="elsewhere", boot="another")
# Which process works on a run, whether it shows it until its end, and since when it has not.
SILENT: dict[str, tuple[PlacedProcess, bool, float, bool]] = {
    "killed with its host": (ELSEWHERE, True, 130.0, True),
    "at work on another host": (ELSEWHERE, True, 60.0, False),
    "between two steps, on another host": (ELSEWHERE, False, 130.0, False),
    "whose steps are pods": (UNKNOWN_PROCESS, False, 130.0, False),
    "at work here, on a machine that slept": (PlacedProcess.this(), True, 8 * 3600.0, False),
}


@pytest.mark.parametrize("case", SILENT)
def test_a_run_of_another_host_is_ended_when_its_one_process_shows_it_no_longer(
    instance: dg.DagsterInstance, lake: Made, case: str
) -> None:
    process, shows_it_whole, seconds, ended = SILENT[case]
    run_id = begun(instance, lake[0], process)
    show_last(instance, lake[0], run_id, seconds, b"of another kernel" * shows_it_whole)
    told = [f"run {run_id} ended: its process shows no sign of life"] * ended
    assert end_dead_runs(instance, lake[0]) == told
    assert status(instance, run_id) is (FAILURE if ended else STARTED)
    busy = runs.busy_days(instance, str(lake[0].root), lake[1].contracts)
    assert bool(busy) is not ended, "its days are asked for again"


KEY = dg.AssetKey("staging")
# The job and assets of a run that began and shows nothing in the lake; since when it told nothing;
# whether it has done a step; whether it is ended.
UNBEGUN: dict[str, tuple[str, frozenset[dg.AssetKey], float, bool, bool]] = {
    "from the page of a table, died first": ("__ASSET_JOB", frozenset({KEY}), 130.0, False, True),
    "of the job of all tables, died first": (runs.REBUILD, frozenset(), 130.0, False, True),
    "of a scan, died first": (runs.SCAN, frozenset(), 130.0, False, True),
    "just begun": ("__ASSET_JOB", frozenset({KEY}), 60.0, False, False),
    "at its checks, after its tables": (runs.REBUILD, frozenset(), 130.0, True, False),
    "of a job that never shows itself": ("export", frozenset(), 130.0, False, False),
    "of an asset of others, too": (
        "__ASSET_JOB",
        frozenset({KEY, dg.AssetKey("report")}),
        130.0,
        False,
        False,
    ),
}


def step_success(job: str) -> dg.DagsterEvent:
    """What a step says that ended well, as a run that ends at once says it."""

    @dg.op
    def a_step() -> None:
        """Does nothing."""

    @dg.job(name=job)
    def one_step() -> None:
        """One step."""
        a_step()

    done = one_step.execute_in_process().all_events
    return next(event for event in done if event.is_step_success)


@pytest.mark.parametrize("case", UNBEGUN)
def test_a_run_that_died_before_its_first_step_showed_it_is_ended_by_a_tick(
    instance: dg.DagsterInstance, lake: Made, case: str
) -> None:
    job, chosen, seconds, has_done, ended = UNBEGUN[case]
    run = instance.add_run(dg.DagsterRun(job, status=STARTED, asset_selection=chosen or None))
    instance.report_engine_event("it begins", run)
    if has_done:
        instance.report_dagster_event(step_success(job), run.run_id)
    with set_to(Clock(timedelta(seconds=seconds))):
        late(lake, instance, datetime.now(UTC))
    assert status(instance, run.run_id) is (FAILURE if ended else STARTED)


def test_a_run_that_waits_for_the_pool_of_the_lake_is_no_dead_one(
    lake: Made, tmp_path: Path
) -> None:
    file = lake[0].root / "lake.toml"
    file.write_text(f'{file.read_text("utf-8")}\n[plan]\npool = "lake"\n', "utf-8")
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        held = instance.event_log_storage
        held.set_concurrency_slots("lake", 1)
        found = [
            instance.add_run(dg.DagsterRun(runs.REBUILD, status=STARTED)).run_id for _ in range(2)
        ]
        for run_id in ("of another lake", found[0]):
            held.claim_concurrency_slot("lake", run_id, "raw")
        for run_id in found:
            instance.report_engine_event("it begins", job_name=runs.REBUILD, run_id=run_id)
        with set_to(Clock(timedelta(hours=3))):
            late(lake, instance, datetime.now(UTC))
        assert [status(instance, run_id) for run_id in found] == [STARTED, FAILURE]


AHEAD: dict[str, tuple[dg.DagsterRunStatus, dict[str, str], bool]] = {
    "a queued run of the lake": (QUEUED, {runs.LAKE_TAG: "here"}, True),
    "a running one": (STARTED, {runs.LAKE_TAG: "here"}, True),
    "a queued one of the browser, which names no lake": (QUEUED, {}, True),
    "a running one that never showed itself as the lake's": (STARTED, {}, False),
    "one of another lake": (QUEUED, {runs.LAKE_TAG: "there"}, False),
    "one that ended": (SUCCESS, {runs.LAKE_TAG: "here"}, False),
    "one as patient": (QUEUED, {runs.LAKE_TAG: "here", "dagster/priority": "-1"}, False),
    "one with words for a priority": (QUEUED, {"dagster/priority": "soon"}, True),
    "one of a plan, whatever its priority": (
        STARTED,
        {runs.LAKE_TAG: "here", PLAN_TAG: "1"},
        False,
    ),
}


@dataclass(frozen=True)
class OneRun:
    """An instance of Dagster with one run. Its storage makes no queued one without a code server."""

    run: dg.DagsterRun

    def get_runs(self, filters: dg.RunsFilter) -> list[dg.DagsterRun]:
        """The run, where it has one of the statuses."""
        return [self.run] if self.run.status in filters.statuses else []


@pytest.mark.parametrize("case", AHEAD)
def test_a_plan_lets_runs_of_its_lake_go_first_that_have_a_higher_priority(case: str) -> None:
    state, tags, is_ahead = AHEAD[case]
    instance: Any = OneRun(dg.DagsterRun("load", tags=tags)._replace(status=state))
    told = f"the run {instance.run.run_id[:8]} of load"
    assert runs.run_ahead(instance, "here", -1) == (told if is_ahead else "")


def test_a_run_that_shows_itself_is_no_unbegun_one_however_long_it_tells_nothing(
    instance: dg.DagsterInstance, lake: Made
) -> None:
    run_id = begun(instance, lake[0])
    instance.report_engine_event("it begins", job_name=runs.REBUILD, run_id=run_id)
    with set_to(Clock(timedelta(hours=3))):
        late(lake, instance, datetime.now(UTC))
    assert status(instance, run_id) is STARTED


def test_a_run_that_ends_well_at_the_moment_of_the_look_keeps_its_ending(
    instance: dg.DagsterInstance, lake: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begun(instance, lake[0])

    def ends_now(_marked: PlacedProcess, _here: PlacedProcess) -> bool:
        instance.report_dagster_event(
            dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, runs.REBUILD), run_id
        )
        return True

    monkeypatch.setattr(PlacedProcess, "is_gone", ends_now)
    assert end_dead_runs(instance, lake[0]) == []
    assert status(instance, run_id) is SUCCESS
    assert not lake[0].place.names(markers_of(instance, lake[0]).folder)


def test_a_marker_that_a_power_cut_left_empty_ends_its_run(
    instance: dg.DagsterInstance, lake: Made
) -> None:
    run_id = begun(instance, lake[0])
    lake[0].place.local(f"{markers_of(instance, lake[0]).folder}/{run_id}").write_text("")
    assert end_dead_runs(instance, lake[0])
    assert status(instance, run_id) is FAILURE


def test_files_that_a_link_leads_to_are_no_markers(
    instance: dg.DagsterInstance, lake: Made, tmp_path: Path
) -> None:
    folder, theirs = lake[0].place.local(markers_of(instance, lake[0]).folder), tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis").touch()
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(theirs)
    assert end_dead_runs(instance, lake[0]) == []
    assert (theirs / "thesis").exists()


def test_what_one_home_gave_up_the_other_still_tries_and_takes_back_nothing_that_needs_a_person(
    instance: dg.DagsterInstance, other: dg.DagsterInstance, lake: Made
) -> None:
    stale(lake, 2)
    all_fail(lake, instance)
    assert late(lake, instance).requests == []
    assert asked(late(lake, other)) == [f"staging {day(2)}"]
    defs = assemble(lake[0].root, tables)
    sensor = next(s for s in defs.sensors or () if s.name == LATE_DATA)
    for home in (instance, other):
        with dg.build_sensor_context(instance=home, definitions=defs) as context:
            sensor.evaluate_tick(context)
    (line,) = sensor_alarms(lake[0].root)
    assert str(day(2)) in line


def test_a_run_in_several_processes_lives_in_the_one_that_began_its_steps() -> None:
    begun = dg.multiprocess_executor.name
    assert runs.process_of_run(begun, current_process()) == PlacedProcess.this()
    assert runs.process_of_run(begun, None) == UNKNOWN_PROCESS, (
        "nothing on this machine began the step"
    )
    assert runs.process_of_run("k8s_job_executor", current_process()) == UNKNOWN_PROCESS


def test_the_days_of_a_run_are_busy_by_the_asset_that_makes_a_table_whatever_its_name(
    instance: dg.DagsterInstance, lake: Made
) -> None:
    key = dg.AssetKey(["EU", "Sold-Items"])
    span = {runs.RANGE_START: str(START), runs.RANGE_END: str(START)}
    instance.add_run(dg.DagsterRun("j", status=STARTED, tags=span, asset_selection={key}))
    first, *others = lake[1].contracts
    sold = replace(first, name="sold", made_by=key.to_user_string())
    assert runs.busy_days(instance, str(lake[0].root), [sold, *others]) == {"sold": {START}}
