"""The rate at which chunks of plans may begin, held by a runner that waits and by one that does
not. Not here: the section (`test_settings`), and the sensor's other decisions (`test_plan_job`).
Nothing sleeps: a rest moves the clock."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets.plans.files import set_mark
from backfill_assets.plans.model import Plan
from backfill_assets.plans.pace import Pace, wait_for_turn
from backfill_assets.plans.preflight import usual_parallel
from backfill_assets.plans.progress import read_progress
from backfill_assets.plans.run import run_plan
from backfill_assets.plans.settings import PlanSettings
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.planning import HandWorker, bare_staging, planned
from backfill_assets_tests.synthetic import Made

pytestmark = pytest.mark.usefixtures("storages")
CHUNKS = 4  # of a plan of ten days: a canary of one day, and three of three


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    """A lake in which two chunks may begin within an hour."""
    made, pipeline = bare_staging(tmp_path)
    settings = made.settings.model_copy(update={"plan": PlanSettings(runs_per_hour=2)})
    return replace(made, settings=settings), pipeline


def run(lake: Made, plan: Plan, worker: HandWorker) -> str:
    """The state of the plan after a runner that does not wait."""
    return run_plan(lambda: lake, plan, worker).state


def test_a_runner_in_dagster_ends_after_so_many_chunks_and_goes_on_when_one_may_begin(
    lake: Made,
) -> None:
    plan, worker = planned(*lake), HandWorker(*lake)
    assert run(lake, plan, worker) == "active"
    assert [told for told in worker.told if told.startswith("made")] == [
        "made 2024-02-26",
        "made 2024-02-27..2024-02-29",
    ]
    assert "2 chunk(s) ran within the hour, 2 may (`[plan] runs_per_hour`)" in worker.lines[-1]
    assert read_progress(*lake, plan).hours.startswith("waits until ")
    assert run(lake, plan, worker) == "active"
    assert sum(told.startswith("made") for told in worker.told) == 2, "nothing begins too early"
    with set_to(Clock(timedelta(minutes=61))):
        assert wait_for_turn(lake[0], plan) is None
        assert run(lake, plan, worker) == "finished"
    assert sum(told.startswith("made") for told in worker.told) == CHUNKS


def test_a_runner_in_a_terminal_waits_as_long_as_it_must(lake: Made) -> None:
    plan, worker, rests = planned(*lake), HandWorker(*lake), list[float]()
    with set_to(Clock()) as clock:

        def rest(seconds: float) -> bool:
            rests.append(seconds)
            clock.off += timedelta(seconds=seconds)
            return True

        state = run_plan(lambda: lake, plan, worker, pace=Pace(rest)).state
    assert state == "finished"
    assert sum(told.startswith("made") for told in worker.told) == CHUNKS
    assert rests
    assert 3000 < sum(rests) < 7300, "two chunks at once, two an hour later"


def test_who_pauses_a_plan_that_waits_is_heard(lake: Made) -> None:
    plan, worker = planned(*lake), HandWorker(*lake)

    def pause(_: float) -> bool:
        set_mark(lake[0], plan.id, "paused", "lunch")
        return True

    assert run_plan(lambda: lake, plan, worker, pace=Pace(pause)).state == "paused"


def test_chunks_of_another_plan_count_too(lake: Made) -> None:
    first = planned(*lake)
    other = planned(*lake)
    run(lake, first, HandWorker(*lake))
    wait = wait_for_turn(lake[0], other)
    assert wait is not None
    assert 0 < wait.seconds <= 3600


def test_chunks_at_once_are_no_more_than_the_rate(lake: Made) -> None:
    spark = lake[0].settings.spark.model_copy(update={"cores": 16, "memory": "16g"})
    most, why = usual_parallel(lake[0].settings.model_copy(update={"spark": spark}))
    assert (most, why.endswith("runs_per_hour 2")) == (2, True)


def test_a_run_that_goes_first_is_let_by_after_the_chunk_under_way_and_never_before_the_first(
    tmp_path: Path,
) -> None:
    lake = bare_staging(tmp_path)
    plan, worker = planned(*lake), HandWorker(*lake)
    pace = Pace(find_ahead=lambda: "the run 1234 of rebuild")
    for made in range(1, CHUNKS + 1):
        state = run_plan(lambda: lake, plan, worker, pace=pace).state
        assert sum(told.startswith("made") for told in worker.told) == made
        assert state == ("finished" if made == CHUNKS else "active")
    waits = "waits for the run 1234 of rebuild, which goes first (`[plan] priority`)"
    assert sum(line.endswith(waits) for line in worker.lines) == CHUNKS - 1


def test_a_runner_in_a_terminal_goes_on_when_the_other_run_has_ended(tmp_path: Path) -> None:
    lake = bare_staging(tmp_path)
    plan, worker = planned(*lake), HandWorker(*lake)
    ahead = ["the nightly load", "the nightly load"]
    rests = list[float]()

    def rest(seconds: float) -> bool:
        rests.append(seconds)
        return True

    pace = Pace(rest, lambda: ahead.pop() if ahead else "")
    assert run_plan(lambda: lake, plan, worker, pace=pace).state == "finished"
    assert len(rests) == 2, "as often as it was there"
