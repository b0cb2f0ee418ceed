"""Tables of months and of days without weekends, in plans and in all that takes a range of days, on
the small engine.

Tested here: `plans.run` with the load path, its kill and rollback, and what days amid a month mean
to rooms. Not tested here: which chunk makes which month (`plans.test_periods`), and the load path
alone (`test_periods.py`).
"""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.closing.closing import ClosingRequest, close_tables
from backfill_assets.closing.late_changes import late_changes
from backfill_assets.compare.compare import CompareRequest, compare_days
from backfill_assets.compare.prove import ProofRequest, prove_written_days
from backfill_assets.export.export import export_days
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG, Work
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import keep_plan
from backfill_assets.plans.model import Plan
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.progress import Progress
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets.plans.run import run_plan
from backfill_assets.plans.work import ChunkMaker
from backfill_assets.reading.claims import days_of_active_plans
from backfill_assets.reading.moments import Moment
from backfill_assets.reconcile.reconcile import ReconcileRequest, reconcile
from backfill_assets.reports.show import report_of_day
from backfill_assets.upkeep.doctor import VerifyRequest, verify_tables
from backfill_assets_tests.end_to_end.month_world import (
    DAYS,
    FEBRUARY,
    MARCH,
    RULES,
    TABLES,
    month_world,
    rows,
)
from backfill_assets_tests.end_to_end.worlds import World, land
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.oracle import delivery


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> World:
    """The lake, loaded and built."""
    return month_world(tmp_path / "lake")


def opened(world: World) -> tuple[Lake, Pipeline]:
    lake_session, pipeline = world.open()
    return lake_session.lake, pipeline


def planned(world: World, first: date, last: date, *tables: str, **policy: Any) -> Plan:
    """A kept plan in chunks of a week, unless said otherwise."""
    asked = Policy(**{"chunk": "7d", **policy})
    plan = make_plan(
        *opened(world), PlanRequest(inclusive_range(first, last), tables or TABLES, asked)
    )
    keep_plan(opened(world)[0], plan)
    return plan


def ran(world: World, plan: Plan, before: Callable[[Work], None] = lambda _: None) -> Progress:
    """The plan, run without Dagster; `before` is called with each work."""

    def make(work: Work) -> str:
        before(work)
        world.make(work)
        return ""

    return run_plan(
        lambda: opened(world), plan, ChunkMaker(world.root, lambda: opened(world), make, print)
    )


def chunks_of(world: World, table: str, plan: Plan) -> list[tuple[str, list[date]]]:
    """Per write of the plan its chunk and its days, oldest first."""
    lake, _ = opened(world)
    receipts = [c.receipt for c in lake.store.commits(table) if c.receipt is not None]
    own = [r for r in receipts if r.tags.get(PLAN_TAG) == plan.id]
    return [(r.tags[CHUNK_TAG], sorted(r.days)) for r in own]


def test_a_plan_makes_each_month_once_with_the_last_of_its_days(world: World) -> None:
    late = [
        delivery(9, "2024-03-05 10:00", "2024-02-10 10:00", key="late"),
        delivery(10, "2024-03-05 11:00", "2024-03-03 10:00", key="later"),
    ]
    land(world, "late.jsonl", late)
    world.backfill(DAYS, "raw")
    plan = planned(world, date(2024, 2, 8), RULES.last_day)
    assert all(tick.passed for tick in plan.preflight)
    assert ran(world, plan).state == "finished"
    assert world.days_in(State.FRESH, "monthly") == {FEBRUARY}
    assert world.days_in(State.PROVISIONAL, "monthly") == {MARCH}  # its last days are to come
    # February 8; 9 to 15; 16 to 22; 23 to 29; 1 to 5 of March; boundary
    assert chunks_of(world, "monthly", plan) == [("4", [FEBRUARY]), ("5", [MARCH])]
    assert rows(world, "monthly", "n") == [("2024-02-01", 3), ("2024-03-01", 3)]
    assert world.days_in(State.STALE, "weekdays") == set()
    again = planned(world, DAYS.start, DAYS.last)
    assert {i.table: i.days() for i in again.impacts if i.days()} == {
        "shares": frozenset(inclusive_range(FEBRUARY, date(2024, 2, 7)))
    }, "the days before the plan's read the month, too"


def test_a_killed_plan_goes_on_claims_its_months_and_puts_them_back_by_chunk(world: World) -> None:
    land(world, "late.jsonl", [delivery(9, "2024-03-05 10:00", "2024-02-10 10:00", key="late")])
    world.backfill(DAYS, "raw")
    plan = planned(world, date(2024, 2, 8), date(2024, 3, 2), "staging", "monthly")

    def die_at_a_month(work: Work) -> None:
        if "monthly" in work.tables:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(world, plan, die_at_a_month)
    lake, pipeline = opened(world)
    assert world.days_in(State.STALE, "monthly") == {FEBRUARY}
    assert days_of_active_plans(lake)["monthly"] == {FEBRUARY, MARCH}
    other = PlanRequest(
        inclusive_range(FEBRUARY, date(2024, 2, 2)), ("monthly",), Policy(force=True)
    )
    with pytest.raises(BackfillError, match=r"has 2024-02-01\.\.2024-02-01 of monthly"):
        keep_plan(lake, make_plan(lake, pipeline, other))
    assert ran(world, plan).state == "finished"
    assert chunks_of(world, "monthly", plan) == [("4", [FEBRUARY])]
    chunk = RollbackRequest(plan=plan.id, chunk="4")
    (put_back,) = roll_back(lake, pipeline, chunk, Provenance("")).tables
    assert (put_back.contract.name, {*put_back.entries}) == ("monthly", {FEBRUARY})
    assert world.days_in(State.HELD, "monthly") == {FEBRUARY}
    days = inclusive_range(date(2024, 2, 20), date(2024, 2, 21))
    by_days = RollbackRequest(table="monthly", days=days)
    assert release_days(lake, pipeline, by_days, Provenance("")) == {"monthly": (FEBRUARY,)}
    assert world.days_in(State.STALE, "monthly") == {FEBRUARY}


def test_days_amid_a_month_mean_the_month_whatever_is_done_with_them(world: World) -> None:
    lake, pipeline = opened(world)
    first = world.look().view.table("monthly").version
    before = world.content("monthly")
    land(world, "late.jsonl", [delivery(9, "2024-03-05 10:00", "2024-02-10 10:00", key="late")])
    world.backfill(DAYS, "raw", "staging", "monthly")
    days = inclusive_range(date(2024, 2, 20), date(2024, 2, 21))
    moments = Moment(lake, first), Moment(lake, None)
    report = compare_days(pipeline, CompareRequest("monthly", days), *moments)
    assert [day.day for day in report.differing] == [FEBRUARY]
    assert "1 of 1 month(s) differ" in report.headline
    sides = ReconcileRequest("monthly", f"monthly@{first}", days=days)
    assert [d.day for d in reconcile(lake, pipeline, sides).days] == [FEBRUARY]
    exported = export_days(lake, pipeline, "monthly", str(world.root.parent / "out"), days)
    assert (exported.replaced, exported.rows) == ((FEBRUARY,), 1)
    assert "0 month(s) as they were" in str(exported)
    proven = prove_written_days(lake, pipeline, ProofRequest(days=days, tables=("monthly",)))
    assert [(d.day, d.equal) for v in proven.verdicts for d in v.days] == [(FEBRUARY, True)]
    assert proven.compared_by_unit == {"month": 1}
    wanted = VerifyRequest(("monthly",), frozenset(days))
    assert any(
        "1 month(s), 1 rows equal" in d.what
        for d in verify_tables(lake, pipeline.contracts, wanted)
    )
    put_back = RollbackRequest(table="monthly", days=days, to_version=first)
    assert roll_back(lake, pipeline, put_back, Provenance("")).is_done
    assert world.content("monthly") == before
    shown = report_of_day(lake, pipeline, "monthly", days.start)
    assert (shown.day, shown.period, shown.state) == (FEBRUARY, "month", State.HELD)


def test_rows_that_come_late_for_a_closed_month_that_a_rollback_holds_are_listed(
    world: World,
) -> None:
    lake, pipeline = opened(world)
    days = inclusive_range(FEBRUARY, date(2024, 2, 2))
    world.backfill(DAYS, "monthly", force=True)
    back = RollbackRequest(table="monthly", days=days, to_version=1)
    assert roll_back(lake, pipeline, back, Provenance("")).is_done
    closing = ClosingRequest(("monthly",), "reported", {}, as_they_are=True)
    close_tables(lake, pipeline, date(2024, 2, 29), closing)
    assert [*late_changes(lake, world.look())] == []
    land(world, "late.jsonl", [delivery(9, "2024-03-05 10:00", "2024-02-10 10:00", key="late")])
    world.backfill(DAYS, "raw", "staging")
    found = [(late.table, late.day, late.rows) for late in late_changes(lake, world.look())]
    assert found == [("monthly", FEBRUARY, None)]
