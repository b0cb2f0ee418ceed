"""The files of plans: written once, marks that stay, locks, and the days that are left to active
plans.

Not tested here: what a plan says (`plans/test_model.py`), locks across processes
(`kernel.place.test_folder`).
"""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from backfill_assets.buckets.store_errors import lost_request_error
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.port import LOCKS
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.plans.files import (
    Acceptance,
    active_plans,
    all_acceptances,
    examine_plans,
    find_plan,
    is_running,
    keep_plan,
    mark_text,
    marking_stops,
    only_runner,
    past_resumptions,
    readable_plans,
    set_mark,
)
from backfill_assets.plans.model import DayMove, Plan, PlanLook, plan_json
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket
from backfill_assets_tests.planning import bare_staging, impact_on, planned
from backfill_assets_tests.synthetic import synthetic_lake

OLD_ID = "20261124-030000-ab12"
WEEK = DayRange(date(2024, 2, 26), date(2024, 3, 5))


def test_a_plan_is_written_once_and_active_between_its_marks(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    with pytest.raises(BackfillError, match="it is there already"):
        keep_plan(lake, plan)
    assert active_plans(lake) == []
    set_mark(lake, plan.id, "started")
    assert active_plans(lake) == [plan]
    set_mark(lake, plan.id, "ended", "finished")
    set_mark(lake, plan.id, "ended", "cancelled")  # the first end stays
    assert mark_text(lake, plan.id, "ended") == "finished"
    assert active_plans(lake) == []


def test_plans_that_ended_cost_no_request_by_which_active_ones_are_found(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    set_mark(lake, plan.id, "started")
    for n in range(100):
        for suffix in ("json", "started", "ended"):
            lake.place.write(f".plans/20250101-000000-{n:04x}.{suffix}", b"{}")
    asked = Mock(place=Mock(wraps=lake.place))
    assert active_plans(asked) == [plan]
    assert len(asked.place.method_calls) <= 3, "a listing, and the file of the active one"


@pytest.mark.slow
def test_a_second_runner_is_refused_and_looking_takes_nothing_away(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    assert not is_running(lake, plan)
    with only_runner(lake, plan):
        assert is_running(lake, plan)
        with (
            pytest.raises(BackfillError, match="another process is running it"),
            only_runner(lake, plan),
        ):
            raise AssertionError("two runners")
    assert not is_running(lake, plan)


def test_the_next_runner_waits_for_the_lease_that_a_dead_one_left(
    bucket_address: str, tmp_path: Path
) -> None:
    lake, plan = (
        bare_bucket(bucket_address, tmp_path / "state"),
        planned(*bare_staging(tmp_path / "folder")),
    )
    lease = {"state": "staged", "seconds": 1, "owner": "process 1 of gone", "nonce": "1"}
    lake.place.write_json(f"{LOCKS}/plan-{plan.id}.lock", lease)
    assert is_running(lake, plan)
    with only_runner(lake, plan):
        assert is_running(lake, plan)


def test_an_end_says_why_where_the_store_takes_no_mark(tmp_path: Path) -> None:
    plan, silent = planned(*bare_staging(tmp_path)), Mock()
    silent.place.token.side_effect = silent.place.write.side_effect = lost_request_error(
        "s3://bucket/lake/.plans"
    )
    with pytest.raises(BackfillError, match="the gate"), marking_stops(silent, plan):
        raise BackfillError("the gate", "it refused", "Nothing", "Look")


def test_whoever_ends_early_says_why(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    one, other = planned(lake, pipeline), planned(lake, pipeline)
    with pytest.raises(BackfillError), marking_stops(lake, one):
        raise BackfillError("the gate", "it refused", "Nothing", "Look")
    assert "it refused" in (mark_text(lake, one.id, "stopped") or "")
    with pytest.raises(KeyboardInterrupt), marking_stops(lake, other):
        raise KeyboardInterrupt
    assert mark_text(lake, other.id, "stopped") == "it was interrupted"


def test_the_doctor_names_a_plan_whose_file_is_damaged_and_lists_leave_it_out(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    assert [*examine_plans(lake, ())] == []
    (lake.root / ".plans" / f"{plan.id}.json").write_bytes(b"\x00")
    assert [*readable_plans(lake)] == []
    (found,) = examine_plans(lake, ())
    assert (found.object, found.advice) == (f"the plan {plan.id}", "Make a new plan")


@pytest.mark.parametrize("mark", ["accepted", "resumed"])
def test_a_mark_that_is_not_what_was_written_is_named(tmp_path: Path, mark: str) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    assert (all_acceptances(lake, plan), past_resumptions(lake, plan)) == ((), ())
    (lake.root / ".plans" / f"{plan.id}.{mark}").write_text('{"who": [1], "times": [1]}')
    with pytest.raises(BackfillError, match=rf"{mark}: it is not what was written"):
        (all_acceptances(lake, plan), past_resumptions(lake, plan))


def test_a_damaged_mark_says_so_where_its_text_is_shown(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    for damaged in (b"", b"[]", b'{"told": 3}', b"[" * 100_000):
        (lake.root / ".plans" / f"{plan.id}.waiting").write_bytes(damaged)
        assert mark_text(lake, plan.id, "waiting") == (
            f".plans/{plan.id}.waiting is not what was written"
        )


def old_plan(root: Path) -> tuple[Lake, Plan]:
    """A plan as its file was written in November 2026; it has prices that plans have no more."""
    lake = bare_staging(root)[0]
    (lake.root / ".plans").mkdir(exist_ok=True)
    (lake.root / ".plans" / f"{OLD_ID}.json").write_text(
        Path(__file__).with_name("plan_of_before.json").read_text()
    )
    return lake, find_plan(lake, OLD_ID)


def test_an_older_plan_file_says_what_it_said_then_and_can_be_active(tmp_path: Path) -> None:
    lake, plan = old_plan(tmp_path)
    assert [(c.number, c.days, c.kind.value) for c in plan.chunks] == [
        (1, DayRange(WEEK.last, WEEK.end), "canary"),
        (2, DayRange(WEEK.start, WEEK.last), "chunk"),
        (3, WEEK, "seams"),
    ]
    assert (plan.created, plan.days) == (datetime(2026, 11, 24, 3, tzinfo=UTC), WEEK)
    assert impact_on(plan, "staging").write == {"forced": (WEEK,)}
    move = DayMove("staging", date(2024, 2, 29), 2, 1, 4)
    assert plan.look == PlanLook(
        (move,), {"features": (DayRange(date(2024, 2, 29), date(2024, 3, 2)),)}
    )
    body = json.loads(Path(__file__).with_name("plan_of_before.json").read_text())
    assert set(body.pop("besides")) == {"opening the engine", "between runs"}, (
        "which plans have no more"
    )
    now = json.loads(plan_json(plan))
    assert now.pop("digest"), "which plans had not"
    later: dict[str, object] = {
        "stop_after": "",
        "expect": [],
        "canary_days": None,
        "keep_good_days": False,
    }
    assert (now.pop("parallel"), {key: now["policy"].pop(key) for key in later}) == ("", later)
    assert now == body
    assert active_plans(lake) == []
    set_mark(lake, plan.id, "started")
    assert active_plans(lake) == [plan]


@pytest.mark.parametrize(
    ("what", "names_a_bound"),
    [(("chunk 3",), False), (("daily.max_rows",), True), (("chunk 1", "daily.value.nulls"), True)],
)
def test_an_acceptance_of_a_bound_is_told_from_one_of_a_chunk(
    what: tuple[str, ...], names_a_bound: bool
) -> None:
    accepted = Acceptance(what, by="me", at="2024-03-01T10:00:00+00:00", reason="looks right")
    assert accepted.names_a_bound is names_a_bound
