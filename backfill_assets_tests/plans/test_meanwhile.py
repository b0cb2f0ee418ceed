"""Days that become stale while a plan runs: by its own chunks that run at once, and by late data.

Tested here: `plans.run` on real tables of eight days, with a worker that leaves out days that
are right, as the load path does. Not tested here: kills (`plans/test_run.py`,
`end_to_end.test_plan_killed`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import Codes, State
from backfill_assets.plans.files import keep_plan, only_runner, remove_mark, set_mark
from backfill_assets.plans.model import Plan
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.rollback import RollbackRequest, roll_back
from backfill_assets.plans.run import run_plan
from backfill_assets.plans.work import ChunkWork
from backfill_assets.reading.claims import holding_plans
from backfill_assets_tests.builders import day
from backfill_assets_tests.planned import BUILT, DAYS, Planned, lines_held_back

pytestmark = pytest.mark.usefixtures("storages")
EVERY_DAY = DayRange(day(0), day(DAYS))


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    """Eight days that are right, and what landed for them."""
    found = Planned(tmp_path / "lake")
    found.list_files()
    return found


@dataclass
class Worker:
    """Makes days that are not right. Of chunks at once the last is first, so that each changes what
    a later one read. Staging gets the `values`; `lands` is called after each round."""

    made: Planned
    values: Sequence[int]
    lands: Callable[[int], object] = lambda _: None
    told: list[tuple[int, str]] = field(default_factory=list)
    works: list[ChunkWork] = field(default_factory=list)

    def make(self, works: Sequence[ChunkWork]) -> list[str]:
        """All of each, table by table."""
        for work in reversed(works):
            for table in work.tables:
                states = self.made.states()
                todo = [
                    n
                    for n in range(DAYS)
                    if day(n) in work.days and not states.is_settled(table, day(n))
                ]
                if todo:
                    values = {
                        n: self.values[n] if table == "staging" else len(self.told) for n in todo
                    }
                    self.made.write(table, values, "run", **work.tags)
                    self.told.append((work.chunk.number, table))
                    self.works.append(work)
        self.lands(len(self.told))
        return [""] * len(works)

    def report(self, line: str) -> None:
        """Kept."""


def planned(made: Planned, tables: Sequence[str], **policy: object) -> Plan:
    """A kept plan of all days."""
    asked = Policy(canary=0, **policy)  # type: ignore[arg-type]
    plan = make_plan(made.lake, made.pipeline, PlanRequest(EVERY_DAY, tuple(tables), asked))
    keep_plan(made.lake, plan)
    return plan


def test_days_that_a_chunk_at_once_made_stale_are_left_to_the_boundary_chunk(made: Planned) -> None:
    codes = {"staging": Codes("code-2", "settings-1")}
    made.pipeline = replace(made.pipeline, codes={**made.pipeline.codes, **codes})
    plan = planned(made, BUILT, chunk="4d", max_parallel=2)
    # The second chunk's staging comes out as it was, so that its features are right until the first
    # chunk is made.
    worker = Worker(made, [2] * 4 + [1] * 4)
    now = run_plan(lambda: (made.lake, made.pipeline), plan, worker)
    assert (now.state, now.is_done) == ("finished", True)
    assert worker.told[:3] == [(2, "staging"), (1, "staging"), (1, "features")]
    assert set(worker.told[3:]) <= {(3, "staging"), (3, "features")}, (
        "the days over the cut are the boundary chunk's"
    )
    assert made.of("features", State.STALE) == []


def lands_for(made: Planned, number: int) -> None:
    """Other rows for a day of staging: features of this day and the next are stale."""
    made.write("staging", {number: 7 + made.values("staging")[number]}, "elsewhere")


@dataclass
class Lacking(Worker):
    """Of chunks at once the last lacks what the others make, and fails."""

    tries: list[int] = field(default_factory=list)

    def make(self, works: Sequence[ChunkWork]) -> list[str]:
        """All of each but the last of several."""
        self.tries += [work.chunk.number for work in works]
        done = super().make(works[:1])
        return [*done, *("features is incomplete" for _ in works[1:])]


def test_a_chunk_that_lacked_what_another_at_once_made_is_made_after_it(made: Planned) -> None:
    made.pipeline = replace(
        made.pipeline, codes={**made.pipeline.codes, "staging": Codes("code-2", "settings-1")}
    )
    plan = planned(made, BUILT, chunk="2d", max_parallel=3)
    worker = Lacking(made, [2] * DAYS)
    assert run_plan(lambda: (made.lake, made.pipeline), plan, worker).state == "finished"
    assert worker.tries[:7] == [1, 2, 3, 2, 3, 3, 4]


def test_the_boundary_chunk_makes_scattered_days_of_a_table_in_one_run_around_held_days(
    made: Planned,
) -> None:
    made.write("staging", {0: 5, 7: 5})
    plan, version = planned(made, ["features"], chunk="4d"), made.view("features").version
    held = RollbackRequest(table="features", days=DayRange(day(5), day(6)), to_version=version)

    def lands(number: int) -> None:
        """After the last chunk before the boundary chunk."""
        if number == 2:
            for late in (0, 3, 6):
                lands_for(made, late)
            made.write("features", {5: 99})
            roll_back(made.lake, made.pipeline, held, Provenance("test"))

    worker = Worker(made, [], lands)
    assert run_plan(lambda: (made.lake, made.pipeline), plan, worker).state == "finished"
    assert made.of("features", State.HELD) == [day(5)]
    assert [w.days for w in worker.works[2:]] == [
        DayRange(day(0), day(5)),
        DayRange(day(6), day(8)),
    ]
    assert {w.written for w in worker.works[2:]} == {frozenset({"features"})}, (
        "right days between them are not forced"
    )
    assert made.of("features", State.STALE) == []


def test_what_lands_for_a_day_of_the_only_chunk_is_made_once_more(made: Planned) -> None:
    lands_for(made, 6)
    plan = planned(made, ["features"], chunk="31d")
    once = {1: lambda: lands_for(made, 0)}
    worker = Worker(made, [], lambda number: once.pop(number, lambda: None)())
    assert run_plan(lambda: (made.lake, made.pipeline), plan, worker).state == "finished"
    assert len(worker.told) == 2
    assert made.of("features", State.STALE) == []


def test_what_lands_for_ever_stops_the_plan_which_says_what_it_keeps_from_others(
    made: Planned,
) -> None:
    lands_for(made, 7)
    plan = planned(made, ["features"], chunk="31d")
    worker = Worker(made, [], lambda number: lands_for(made, number - 1))
    with pytest.raises(
        BackfillError, match=r"ended well, 3 times, but features 2024-03-0\S+ is still to be made"
    ):
        run_plan(lambda: (made.lake, made.pipeline), plan, worker)
    (line,) = lines_held_back(made.lake).values()
    assert f"the plan {plan.id} is stopped (chunk 1" in line
    assert (
        f"nothing else makes {plan.days} of features until it ends: `backfill-assets run {plan.id}`"
        in line
    )
    set_mark(made.lake, plan.id, "paused", "lunch")
    assert (
        f"is paused (lunch); nothing else makes {plan.days}" in lines_held_back(made.lake)[plan.id]
    )
    assert (
        f"plan resume {plan.id}`, then `backfill-assets run {plan.id}`"
        in lines_held_back(made.lake)[plan.id]
    )
    remove_mark(made.lake, plan.id, "paused")
    remove_mark(made.lake, plan.id, "stopped")
    assert holding_plans(made.lake) == [], "it goes on"
    assert "no process runs it" in lines_held_back(made.lake, also_idle=True)[plan.id]
    with only_runner(made.lake, plan):
        assert holding_plans(made.lake, also_idle=True) == []
    set_mark(made.lake, plan.id, "ended", "cancelled")
    assert holding_plans(made.lake, also_idle=True) == []
