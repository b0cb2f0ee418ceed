"""What a plan waits for between chunks: a person who resumes it by name and reason; and how many chunks run at once.

Tested here: `backfill.preflight` through `run_plan` with a worker that writes by hand. Not tested here: the command
(`cli/test_run.py`), the sensor (`orchestration/test_plan_job.py`).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.backfill.preflight import usual_parallel
from backfill_assets.backfill.run import run_plan
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.ownership import whoami
from backfill_assets.lake.sections import SparkSettings
from backfill_assets.plans.files import held_back, mark, resume, resumed
from backfill_assets.plans.model import Plan
from backfill_assets_tests.operations.planning import DAYS, HandWorker, bare_staging, planned
from backfill_assets_tests.operations.synthetic import Made

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    return bare_staging(tmp_path)


def run(lake: Made, plan: Plan, **worker: Any) -> tuple[str, list[str]]:
    """Run it by hand; its state then, and the chunks whose gate was passed."""
    by = HandWorker(*lake, **worker)
    state = run_plan(lambda: lake, plan, by).state
    return state, [told for told in by.told if not told.startswith("made")]


@pytest.mark.parametrize(
    ("stop", "stops"),
    [
        ("canary", ["gate 1"]),
        ("chunk", ["gate 1", "gate 2", "gate 3", "gate 4"]),
        (str(DAYS.start + timedelta(5)), ["gate 3"]),
    ],
)
def test_it_waits_at_its_point_until_somebody_resumes_it_with_a_reason(lake: Made, stop: str, stops: list[str]) -> None:
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


def test_chunks_at_once_are_all_made_before_it_waits(lake: Made) -> None:
    state, gates = run(lake, planned(*lake, stop_after=str(DAYS.start + timedelta(1)), max_parallel=2))
    assert (state, gates) == ("waiting", ["gate 1", "gate 2", "gate 3"])


def test_a_pause_is_resumed_without_a_reason_and_no_point_is_passed_by_it(lake: Made) -> None:
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
def test_a_point_that_a_plan_has_not_is_refused(lake: Made, stop: str, canary: int, told: str) -> None:
    with pytest.raises(BackfillError, match=told):
        planned(*lake, stop_after=stop, canary=canary)


@pytest.mark.parametrize(
    ("spark", "told"),
    [
        ({"cores": 8, "memory": "2g"}, "2: 8 core(s) allow 4, 2g of the engine's memory 2"),
        ({"cores": 2, "memory": "16g"}, "1: 2 core(s) allow 1, 16g of the engine's memory 16"),
        ({"cores": 16, "memory": "512m"}, "1: 16 core(s) allow 8, 512m of the engine's memory 1"),
        ({"engine": "sc://far:15002"}, "1: cores and memory of sc are not known here"),
    ],
)
def test_chunks_at_once_are_as_many_as_cores_and_memory_allow(lake: Made, spark: dict[str, Any], told: str) -> None:
    most, why = usual_parallel(lake[0].settings.model_copy(update={"spark": SparkSettings(**spark)}))
    assert (most, why) == (int(told[0]), told)
