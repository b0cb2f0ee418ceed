"""Any story of landings, corrected code, plans, kills, rollbacks and releases ends as a lake that
was made at once.

Tested here: stories by chance, on real tables of eight days, without an engine: a day holds a
number that follows from what landed by plain arithmetic. Not tested here: kills of processes
(`test_plan_killed`), and what Spark computes. $BACKFILL_ASSETS_STORIES says how many stories are
told.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.readings import PARAMETERS, todays_parameters
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.states import Codes, State
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.plans.files import keep_plan, set_mark
from backfill_assets.plans.model import PLAN_REASON, Plan
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets.plans.run import run_plan
from backfill_assets.plans.work import ChunkWork, make_chunk_here
from backfill_assets_tests.builders import WINDOW, day, receipt
from backfill_assets_tests.clocks import Jumping, set_to
from backfill_assets_tests.files import arrow_schema, stage_by_hand
from backfill_assets_tests.planned import BUILT, DAYS, Planned
from backfill_assets_tests.planning import Killed
from backfill_assets_tests.synthetic import arrival

STORIES = int(os.environ.get("BACKFILL_ASSETS_STORIES", "3"))
Draw = Callable[[st.SearchStrategy[Any]], Any]
EVERY_DAY = DayRange(day(0), day(DAYS))
LATE = st.tuples(
    st.integers(0, 12), st.integers(0, DAYS - 1), st.integers(2, 9)
)  # when (0: never), for which day, what
SAID = Provenance("", tags={"by": "ann@desk"})


@dataclass
class World(Planned):
    """The lake, what landed, and the version of the code, which is in every number that staging
    holds."""

    landed: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(DAYS), 1))
    code: int = 0
    plans: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.list_files()
        self.make(
            "features", list(EVERY_DAY), {}, force=True
        )  # with the numbers of this story's arithmetic

    def open(self) -> tuple[Lake, Pipeline]:
        codes = Codes(f"code-{self.code + 1}", "settings-1")  # 1 is what `Planned` begins with
        return self.lake, replace(self.pipeline, codes=dict.fromkeys(self.pipeline.codes, codes))

    def right(self, table: str, number: int) -> int:
        """What a day holds in a lake that is made at once."""
        if table == "staging":
            return self.landed[number] + 100 * self.code
        return sum(self.right("staging", n) for n in range(max(number - WINDOW + 1, 0), number + 1))

    def made(self, table: str, number: int) -> int:
        """What the transform makes of a day from what its inputs hold now."""
        if table == "staging":
            return self.right(table, number)
        held = dict(enumerate(self.values("staging")))
        return sum(held[n] for n in range(max(number - WINDOW + 1, 0), number + 1))

    def land(self, number: int, value: int) -> None:
        """Another delivery for a day: raw is loaded, and the ledger says so in one commit."""
        self.landed[number] = value
        version = self.write("raw", {number: value})
        rows = [arrival(day(n), f"F-{n}-{v}") for n, v in self.landed.items()]
        said = receipt(
            ARRIVALS.name,
            {day(n): DayEntry(1, f"F-{n}-{v}", "") for n, v in self.landed.items()},
            inputs={"raw": version},
            write_id=f"ledger-{version}",
        )
        write_deltalake(
            self.lake.table_place(ARRIVALS.name).uri(),
            pa.Table.from_pylist(rows, arrow_schema(ARRIVALS)),
            mode="overwrite",
            commit_properties=CommitProperties(custom_metadata={"userMetadata": said.to_json()}),
        )

    def make(
        self, table: str, days: Sequence[date], tags: dict[str, str], force: bool = False
    ) -> None:
        """Make days as the load path does: settled ones only by force, in one commit, signed by
        today's code."""
        lake, pipeline = self.open()
        states, contract = pipeline.states(self._view()), self.contract(table)
        todo = [d for d in days if force or not states.is_settled(table, d)]
        if not todo:
            return
        rows = [
            {"entity": "A", "value": self.made(table, (d - day(0)).days), contract.day_column: d}
            for d in todo
        ]
        staged = stage_by_hand(lake, contract, rows)
        found, digests = (
            audit_files(lake, staged.paths, contract),
            {d: states.digests.of(table, d) for d in todo},
        )
        entries = {d: DayEntry(found[d].rows, found[d].fingerprint, digests[d]) for d in todo}
        state_tags = {PARAMETERS: todays_parameters(contract, states.view).to_json()}
        codes = pipeline.codes[table]
        said = Provenance(
            PLAN_REASON if tags else "test",
            "run",
            "",
            codes.code_digest,
            codes.settings_digest,
            tags={**state_tags, **tags},
        )
        version = states.view.table(table).version
        replace_days(
            lake, Write(contract, staged, entries, version, said, force=force), lambda _: digests
        )

    def _view(self) -> LakeView:
        return read_view(self.lake, self.pipeline.contracts)

    def catch_up(self) -> None:
        """What the sensors do, and a plan for what other code made: until every day is right."""
        for table in BUILT:
            states = self.open()[1].states(self._view())
            self.make(table, [d for d in EVERY_DAY if states.of(table, d) is not State.HELD], {})


@dataclass
class Worker:
    """Makes the days of a plan's chunks in this process, and dies in front of or behind a write. At
    the moment of `late`, a delivery lands for its day."""

    world: World
    moments_left: int
    late: tuple[int, int, int] = (0, 0, 0)

    def make(self, works: Sequence[ChunkWork]) -> list[str]:
        """One after the other, the last one first: what a kill leaves of several at once is some of
        them, and each changes what a later one read before."""
        done = [make_chunk_here(self.world.open, work, self._work) for work in reversed(works)]
        return [*reversed(done)]

    def _work(self, work: Work) -> str:
        lake, pipeline = self.world.open()
        for table in work.tables:
            states = pipeline.states(read_view(lake, pipeline.contracts))
            if any(states.of(table, d) is State.HELD for d in work.days):
                return "days are held"
            self._may_die()
            self.world.make(table, list(work.days), dict(work.tags), table in work.force)
            self._may_die()
        return ""

    def _may_die(self) -> None:
        self.moments_left -= 1
        moment, number, value = self.late
        self.late = (moment - 1, number, value)
        if moment == 1:
            self.world.land(number, value)
        if self.moments_left == 0:
            raise Killed

    def report(self, line: str) -> None:
        """Kept."""


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        chunk=draw(st.sampled_from(["1d", "2d", "3d"])),
        canary=draw(st.integers(0, 1)),
        force=draw(st.booleans()),
        order=draw(st.sampled_from(["ascending", "newest-first"])),
        max_parallel=draw(st.integers(1, 3)),
        on_failure=draw(st.sampled_from(["stop", "rollback"])),
    )


def landing(draw: Draw, world: World) -> None:
    world.land(draw(st.integers(0, DAYS - 1)), draw(st.integers(2, 9)))


def correction(draw: Draw, world: World) -> None:
    world.code += 1


def planning(draw: Draw, world: World) -> None:
    first = draw(st.integers(0, DAYS - 1))
    days = DayRange(day(first), day(draw(st.integers(first + 1, DAYS))))
    lake, pipeline = world.open()
    plan = make_plan(lake, pipeline, PlanRequest(days, BUILT, draw(policies())))
    try:
        keep_plan(lake, plan)
    except BackfillError:  # an active plan has some of its days
        return
    world.plans.append(plan)
    _run(draw, world, plan)


def going_on(draw: Draw, world: World) -> None:
    if world.plans:
        _run(draw, world, draw(st.sampled_from(world.plans)))


def _run(draw: Draw, world: World, plan: Plan) -> None:
    """Run it to its end, or until it is refused, or dies at a moment; 0: it lives. One thing lands
    on the way, which must not stop it."""
    moments, late = draw(st.integers(0, 12)), draw(LATE)
    refused = ""
    with suppress(Killed):
        try:
            run_plan(world.open, plan, Worker(world, moments, late))
        except BackfillError as error:
            refused = str(error)
    assert "its runs ended well" not in refused
    assert "account" not in refused


def rolling_back(draw: Draw, world: World) -> None:
    if world.plans:
        plan = draw(st.sampled_from(world.plans))
        chunk = draw(st.sampled_from(["", *(str(c.number) for c in plan.chunks)]))
        with suppress(BackfillError):
            roll_back(
                *world.open(),
                RollbackRequest(plan=plan.id, chunk=chunk, over_newer=draw(st.booleans())),
                SAID,
            )


def releasing(draw: Draw, world: World) -> None:
    with suppress(BackfillError):
        release_days(
            *world.open(), RollbackRequest(table=draw(st.sampled_from(BUILT)), days=EVERY_DAY), SAID
        )


def cancelling(draw: Draw, world: World) -> None:
    if world.plans:
        set_mark(world.lake, draw(st.sampled_from(world.plans)).id, "ended", "cancelled")


def catching_up(draw: Draw, world: World) -> None:
    world.catch_up()


EVENTS: tuple[Callable[[Draw, World], None], ...] = (
    landing,
    correction,
    planning,
    planning,
    going_on,
    rolling_back,
    releasing,
    cancelling,
    catching_up,
)


@settings(
    max_examples=STORIES,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    print_blob=True,
)
@given(st.data())
def test_any_story_ends_as_a_lake_that_was_made_at_once(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, set_to(Jumping()):
        world = World(Path(folder) / "lake")
        for event in data.draw(st.lists(st.sampled_from(EVENTS), min_size=3, max_size=9)):
            event(data.draw, world)
        for table in BUILT:
            with suppress(BackfillError):
                release_days(*world.open(), RollbackRequest(table=table, days=EVERY_DAY), SAID)
        world.catch_up()
        lake, pipeline = world.open()
        states = pipeline.states(read_view(lake, pipeline.contracts))
        for table in BUILT:
            assert world.values(table) == [world.right(table, n) for n in range(DAYS)]
            assert {states.of(table, d) for d in EVERY_DAY} == {State.FRESH}
