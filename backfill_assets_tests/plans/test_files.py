"""The files of plans: written once, marks that stay, locks, and the days that are left to active plans.

Tested here: `plans.files`. Not tested here: what a plan says (`plans/test_model.py`), locks
across processes (`places.test_folder`).
"""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import DayMove
from backfill_assets.lake.home import Lake
from backfill_assets.plans.files import (
    active_plans,
    find_plan,
    is_running,
    keep_plan,
    left_to_plans,
    mark,
    marked,
    marking_stops,
    only_runner,
)
from backfill_assets.plans.model import Plan, PlanLook, plan_json
from backfill_assets.plans.policy import Policy, Tolerances
from backfill_assets_tests.operations.planning import bare_staging, impact_on, planned
from backfill_assets_tests.operations.synthetic import synthetic_lake

OLD_ID = "20261124-030000-ab12"
WEEK = DayRange(date(2024, 2, 26), date(2024, 3, 5))


def test_a_plan_is_written_once_and_active_between_its_marks(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    with pytest.raises(BackfillError, match="it is there already"):
        keep_plan(lake, plan)
    assert active_plans(lake) == []
    mark(lake, plan.id, "started")
    assert active_plans(lake) == [plan]
    mark(lake, plan.id, "ended", "finished")
    mark(lake, plan.id, "ended", "cancelled")  # the first end stays
    assert marked(lake, plan.id, "ended") == "finished"
    assert active_plans(lake) == []


def test_days_left_to_plans_are_told_per_table() -> None:
    (line,) = left_to_plans({"staging": {date(2024, 3, 1)}, "raw": set()}, ("raw", "staging"))
    assert line.startswith("staging: 2024-03-01 left alone")


@pytest.mark.slow
def test_a_second_runner_is_refused_and_looking_takes_nothing_away(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    assert not is_running(lake, plan)
    with only_runner(lake, plan):
        assert is_running(lake, plan)
        with pytest.raises(BackfillError, match="another process is running it"), only_runner(lake, plan):
            raise AssertionError("two runners")
    assert not is_running(lake, plan)


def test_whoever_ends_early_says_why(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    one, other = planned(lake, pipeline), planned(lake, pipeline)
    with pytest.raises(BackfillError), marking_stops(lake, one):
        raise BackfillError("the gate", "it refused", "Nothing", "Look")
    assert "it refused" in (marked(lake, one.id, "stopped") or "")
    with pytest.raises(KeyboardInterrupt), marking_stops(lake, other):
        raise KeyboardInterrupt
    assert marked(lake, other.id, "stopped") == "it was interrupted"


def old_plan(root: Path) -> tuple[Lake, Plan]:
    """A plan as its file was written in November 2026; it has prices that plans have no more."""
    lake = bare_staging(root)[0]
    (lake.root / ".plans").mkdir(exist_ok=True)
    (lake.root / ".plans" / f"{OLD_ID}.json").write_text(Path(__file__).with_name("plan_of_before.json").read_text())
    return lake, find_plan(lake, OLD_ID)


def test_the_request_and_chunks_of_an_older_plan_file_are_read_as_they_were_written(tmp_path: Path) -> None:
    plan = old_plan(tmp_path)[1]
    assert (plan.created, plan.user, plan.tables) == (
        datetime(2026, 11, 24, 3, tzinfo=UTC),
        "ada",
        ("staging", "features"),
    )
    assert (plan.days, plan.reason, plan.note) == (WEEK, "wrong rule", "asked for by the analysts")
    assert plan.policy == Policy(
        chunk="week",
        canary=1,
        order="newest-first",
        max_parallel=2,
        write_mode="merge",
        on_failure="rollback",
        retries=3,
        force=True,
        template="feature-fix",
        tolerances=Tolerances(rows=0.05, nulls=0.2, means=0.1, drift=0.25),
        keep_removed=True,
    )
    assert [(c.number, c.days, c.kind.value) for c in plan.chunks] == [
        (1, DayRange(WEEK.last, WEEK.end), "canary"), (2, DayRange(WEEK.start, WEEK.last), "chunk"), (3, WEEK, "seams"),
    ]  # fmt: skip
    assert plan.pins.as_of == datetime(2026, 11, 1, tzinfo=UTC)
    assert plan.pins.packages == {"engine": "embedded", "python": "3.12.3"}


def test_what_an_older_plan_file_says_is_printed_as_it_was_then(tmp_path: Path) -> None:
    body = json.loads(Path(__file__).with_name("plan_of_before.json").read_text())
    assert set(body.pop("besides")) == {"opening the engine", "between runs"}, "which plans have no more"
    now = json.loads(plan_json(old_plan(tmp_path)[1]))
    later = {"parallel": now.pop("parallel")} | {
        key: now["policy"].pop(key) for key in ("stop_after", "expect", "canary_days", "keep_good_days")
    }
    assert later == {
        "parallel": "", "stop_after": "", "expect": [], "canary_days": None, "keep_good_days": False,
    }, "which plans of then had not"  # fmt: skip
    assert now == body


def test_impact_look_and_code_of_an_older_plan_file_are_read_and_it_can_be_active(tmp_path: Path) -> None:
    lake, plan = old_plan(tmp_path)
    staging = impact_on(plan, "staging")
    assert (staging.key, staging.write, staging.reads) == (
        ("event_key", "known_from"),
        {"forced": (WEEK,)},
        {"raw": (WEEK,)},
    )
    assert staging.price is not None
    assert (staging.price.rows, staging.price.writes == 0, set(plan.prices)) == (24, True, {1, 2, 3})
    assert [t.passed for t in plan.preflight] == [True] * 4
    move = DayMove("staging", date(2024, 2, 29), 2, 1, 4)
    assert plan.look == PlanLook((move,), {"features": (DayRange(date(2024, 2, 29), date(2024, 3, 2)),)})
    assert plan.code is not None
    assert (plan.code.ref, plan.code.files, plan.retention_days) == ("v1.2", 3, 90)
    assert active_plans(lake) == []
    mark(lake, plan.id, "started")
    assert active_plans(lake) == [plan]
