"""What a plan waits for between chunks: a person who resumes it by name and reason, and the hours of `[plan]`.

Tested here: `plans.waits` through `run_plan` with a worker whose rest moves the clock; nothing sleeps. Not
tested here: the command (`cli/test_run.py`), the sensor (`orchestration/test_plan_sensor.py`).
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.backfill.run import run_plan
from backfill_assets.core.clock import utc_now
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.ownership import whoami
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.sections import PlanSettings
from backfill_assets.lake.settings import SparkSettings
from backfill_assets.plans.files import held_back, mark, resume, resumed
from backfill_assets.plans.model import Plan
from backfill_assets.plans.waits import hours_text, usual_parallel, wait_of
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.operations.planning import DAYS, HandWorker, bare_staging, planned

pytestmark = pytest.mark.usefixtures("storages")

Opened = tuple[Lake, Pipeline]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Opened:
    return bare_staging(tmp_path)


def run(lake: Opened, plan: Plan, **worker: Any) -> tuple[str, list[str]]:
    """Run it by hand; its state then, and the chunks whose gate was passed or the rests."""
    by = HandWorker(*lake, **worker)
    state = run_plan(lambda: lake, plan, by).state
    return state, [told for told in by.told if not told.startswith("made")]


def limited(lake: Opened, **plan: Any) -> Opened:
    """The lake with such a section `[plan]`."""
    settings = lake[0].settings.model_copy(update={"plan": PlanSettings(**plan)})
    return replace(lake[0], settings=settings), lake[1]


@pytest.mark.parametrize(
    ("stop", "stops"),
    [
        ("canary", ["gate 1"]),
        ("chunk", ["gate 1", "gate 2", "gate 3", "gate 4"]),
        (str(DAYS.start + timedelta(5)), ["gate 3"]),
    ],
)
def test_it_waits_at_its_point_until_somebody_resumes_it_with_a_reason(
    lake: Opened, stop: str, stops: list[str]
) -> None:
    plan = planned(*lake, stop_after=stop)
    passed = []
    while (done := run(lake, plan))[0] == "waiting":
        passed.append(done[1][-1])
        with pytest.raises(BackfillError, match=r"it is waiting \(chunk \d .*its gate passed, --stop-after"):
            run(lake, plan)
        with pytest.raises(BackfillError, match=r"It still waits\. Say `backfill-assets plan resume"):
            resume(lake[0], plan, "")
        assert f"plan resume {plan.id} --reason WHY`, then `backfill-assets run" in held_back(lake[0])[plan.id]
        resume(lake[0], plan, "looked")
    assert (done[0], passed) == ("finished", stops)
    assert [(r.by, r.reason, f"gate {r.chunk}") for r in resumed(lake[0], plan)] == [
        (whoami(), "looked", gate) for gate in stops
    ]


def test_chunks_at_once_are_all_made_before_it_waits(lake: Opened) -> None:
    state, gates = run(lake, planned(*lake, stop_after=str(DAYS.start + timedelta(1)), max_parallel=2))
    assert (state, gates) == ("waiting", ["gate 1", "gate 2", "gate 3"])


def test_a_pause_is_resumed_without_a_reason_and_no_point_is_passed_by_it(lake: Opened) -> None:
    plan = planned(*lake, stop_after="canary")
    mark(lake[0], plan.id, "paused", "lunch")
    resume(lake[0], plan, "")
    assert [r.chunk for r in resumed(lake[0], plan)] == [None]
    assert run(lake, plan)[0] == "waiting"
    resume(lake[0], plan, "ok")
    resume(lake[0], plan, "again")
    assert len(resumed(lake[0], plan)) == 2, "nothing was held then"


@pytest.mark.parametrize(
    ("stop", "canary", "told"),
    [("canary", 0, "the plan has no canary"), ("noon", 1, "'noon' is no point of a plan"),
     ("2031-01-01", 1, "2031-01-01 is none of the days")],
)  # fmt: skip
def test_a_point_that_a_plan_has_not_is_refused(lake: Opened, stop: str, canary: int, told: str) -> None:
    with pytest.raises(BackfillError, match=told):
        planned(*lake, stop_after=stop, canary=canary)


@pytest.mark.parametrize(
    ("window", "at", "opens"),
    [("22:00-06:00", 12, "2026-03-01 22:00"), ("22:00-06:00", 23, ""), ("22:00-06:00", 5, ""),
     ("22:00-06:00", 6, "2026-03-01 22:00"), ("01:30-03:00", 12, "2026-03-02 01:30"), ("11:59-12:01", 12, "")],
)  # fmt: skip
def test_chunks_start_in_the_window_only_also_over_midnight(lake: Opened, window: str, at: int, opens: str) -> None:
    there, plan = limited(lake, window=window)[0], planned(*lake)
    with set_to(Clock(stopped=NOON.replace(hour=at).timestamp())):
        wait = wait_of(there, plan)
    assert (wait.message.partition(" UTC: ")[0] if wait else "") == (f"waits until {opens}" if opens else "")


def test_a_runner_waits_for_the_window_and_says_so_once(lake: Opened) -> None:
    limits = limited(lake, window="22:00-06:00")
    plan = planned(*lake)
    with set_to(Clock(stopped=NOON.timestamp())) as clock:
        by = HandWorker(*limits, clock=clock)
        assert run_plan(lambda: limits, plan, by).state == "finished"
        assert utc_now() == NOON.replace(hour=22)
    told = "waits until 2026-03-01 22:00 UTC: it is 12:00 UTC, chunks start 22:00-06:00 UTC (`[plan] window`)"
    assert [line for line in by.lines if line.startswith("waits")] == [told]
    assert by.told[0] == "rested 36000 s"


def test_a_runner_that_does_not_wait_ends_and_the_plan_stays_active(lake: Opened) -> None:
    limits = limited(lake, window="22:00-06:00")
    with set_to(Clock(stopped=NOON.timestamp())):
        assert run(limits, planned(*lake)) == ("active", ["rested 36000 s"])


def test_so_many_chunks_run_within_an_hour_and_no_more(lake: Opened) -> None:
    limits, plan = limited(lake, runs_per_hour=2), planned(*lake)
    with set_to(Clock()) as clock:
        state, told = run(limits, plan, clock=clock)
    assert state == "finished"
    kinds = ["gate" if line.startswith("gate") else "rest" for line in told]
    # Commits carry the true time: whether the second one makes room at once with the first is a matter of milliseconds.
    assert (kinds[:3], kinds.count("gate")) == (["gate", "gate", "rest"], 5)
    assert 3500 < clock.off.total_seconds() < 3700, "of two at once each makes room for one, an hour later"


def test_hours_are_told_and_nothing_is_without_them() -> None:
    assert hours_text(PlanSettings()) == ""
    told = "chunks start 22:00-06:00 UTC only, at most 3 chunk(s) run within an hour"
    assert hours_text(PlanSettings(window="22:00-06:00", runs_per_hour=3)) == told


@pytest.mark.parametrize(
    ("spark", "rate", "told"),
    [
        ({"cores": 8, "memory": "2g"}, None, "2: 8 core(s) allow 4, 2g of the engine's memory 2"),
        ({"cores": 2, "memory": "16g"}, None, "1: 2 core(s) allow 1, 16g of the engine's memory 16"),
        ({"cores": 16, "memory": "512m"}, None, "1: 16 core(s) allow 8, 512m of the engine's memory 1"),
        ({"cores": 16, "memory": "8g"}, 3, "3: 16 core(s) allow 8, 8g of the engine's memory 8, runs_per_hour 3"),
        ({"engine": "sc://far:15002"}, None, "1: cores and memory of sc are not known here"),
    ],
)
def test_chunks_at_once_are_as_many_as_cores_and_memory_allow(
    lake: Opened, spark: dict[str, Any], rate: int | None, told: str
) -> None:
    settings = limited(lake, runs_per_hour=rate)[0].settings
    most, why = usual_parallel(settings.model_copy(update={"spark": SparkSettings(**spark)}))
    assert (most, why) == (int(told[0]), told)
