"""What processes of a story do: commands and ticks of the package, and a reader.

Here: each as a function of the lake. Not here: who does what on which machine (`casts`), what a
command is made of (`world`), and what must hold afterwards (`judge`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from backfill_assets.candidates.candidates import create_candidate
from backfill_assets.candidates.publications import PublishRequest, publish_candidate_days
from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot, drop_snapshot
from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.staging import sweep_writes
from backfill_assets.kernel.tables.versions import newest_version, versions_seen
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.plans.files import find_plan, keep_plan, plan_ids
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets.plans.run import run_plan
from backfill_assets.plans.work import ChunkWork, make_chunk_here
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets_tests.builders import day
from backfill_assets_tests.simulation.engine import rows_at
from backfill_assets_tests.simulation.outsiders import asset, export, forget
from backfill_assets_tests.simulation.world import DAYS, EVERY_DAY, RAW, Reading, World

LATE, TOUCHED = (2, 3), (1, 2)  # arrival days of late files, and the event days in them: few
SECONDS_WATCHED = 0.3
SWEEPS = 4  # of one process
# Between two of them: some come while a write is staged, the last once its lease is over.
SECONDS_UNTIL_SWEPT = (2.0, 30.0, 90.0, 150.0)
LOOKS = 6  # of who lets go what is held, until something is
SECONDS_UNTIL_LOOK = (2.0, 30.0, 90.0)
SECONDS_UNWATCHED = 20.0  # where nobody asks for anything
SAID = Provenance("test", tags={"by": "ann@desk"})


@dataclass(frozen=True)
class Worker:
    """Makes chunks of plans in the process that runs the plan."""

    world: World

    def make(self, works: Sequence[ChunkWork]) -> list[str]:
        """As the port says."""
        return [make_chunk_here(self.world.open, work, self._make_days) for work in works]

    def _make_days(self, work: Work) -> str:
        opened = self.world.open()
        with self.world.run(*opened, work.reason) as run_id:
            for table in work.tables:
                said = Provenance(work.reason, run_id, work.note, tags=work.receipt_tags)
                try:
                    self.world.make(opened, table, [*work.days], said, table in work.force)
                except BackfillError as error:
                    return str(error)
        return ""

    def report(self, line: str) -> None:
        """Told to the story."""
        self.world.scheduler.note(line)


Act = Callable[[World, Random], None]


@dataclass(frozen=True)
class Actor:
    """A process of a story: what it does, where, after how many seconds; `seed` decides details.
    `upon`: the moment of another process from which on the seconds count, at the n-th time."""

    what: str
    machine: str
    after: float
    seed: int
    upon: str = ""
    times: int = 1


def tick(world: World, chance: Random) -> None:
    """A sensor's tick and its run."""
    opened = world.open()
    with world.run(*opened, "late data") as run_id:
        world.catch_up(opened, run_id)


def late_file(world: World, chance: Random) -> None:
    """A file lands for an arrival day, with numbers of days before it; it is loaded, or all is
    caught up."""
    arrived = chance.choice(LATE)
    numbers = world.landed[arrived]
    world.landed[arrived] = {**numbers, chance.choice(TOUCHED): chance.randint(2, 99)}
    opened = world.open()
    with world.run(*opened, "late data") as run_id:
        if chance.random() < 0.3:
            world.load(*opened, run_id)
        else:
            world.catch_up(opened, run_id)


def reader(world: World, chance: Random) -> None:
    """Somebody reads the tables, again and again."""
    lake, _ = world.open()
    for _ in range(6):
        before, running = newest_version(lake), world.well_runs()
        seen = versions_seen(lake) or {}
        after = newest_version(lake)
        rows = {}
        for table in (RAW, *world.built):
            world.scheduler.stop(f"reads {table} v{seen[table]}")
            with suppress(*([OSError] if world.forgotten else [])):  # they may go at any moment
                rows[table] = rows_at(lake, table, seen[table])
        assert before is not None
        assert after is not None
        still = running & world.well_runs()
        world.readings.append(Reading(seen, rows, before.number, after.number, still))
        world.scheduler.wait(chance.choice((0.1, 2.0, 30.0)))


def watch(world: World) -> None:
    """Somebody on another machine looks at the tables whenever something may have changed."""
    lake, _ = world.open()
    scheduler = world.scheduler
    told, looked = -1, 0.0
    while True:
        if len(scheduler.trace) > told or scheduler.now - looked > SECONDS_UNWATCHED:
            told, looked = len(scheduler.trace), scheduler.now
            entry, seen = newest_version(lake), versions_seen(lake)
            assert entry is not None
            assert seen is not None
            reading = Reading(seen, {}, entry.number, entry.number, world.well_runs())
            if not world.readings or world.readings[-1] != reading:
                world.readings.append(reading)
        scheduler.wait(SECONDS_WATCHED)


def rollback(world: World, chance: Random) -> None:
    """A table's days are put back to what they were before one of its newest writes, so that days
    are among them which others are making now."""
    lake, pipeline = world.open()
    table = chance.choice(world.built)
    first = chance.randrange(DAYS)
    days = DayRange(day(first), day(first) + ONE_DAY * chance.randint(1, DAYS - first))
    head = lake.store.head(table)
    before = max(head - chance.randint(1, 3), 1)
    request = RollbackRequest(table=table, days=days, to_version=before)
    roll_back(lake, pipeline, request, SAID)


def release(world: World, chance: Random) -> None:
    """Somebody looks for held days, again and again, and lets go those of a table."""
    for _ in range(LOOKS):
        lake, pipeline = world.open()
        view = read_view(lake, pipeline.contracts)
        held = [table for table in world.built if view.table(table).held_days]
        if held:
            request = RollbackRequest(table=chance.choice(held), days=EVERY_DAY)
            release_days(lake, pipeline, request, SAID)
            return
        world.scheduler.wait(chance.choice(SECONDS_UNTIL_LOOK))


def sweep(world: World, chance: Random) -> None:
    """What killed writes left is removed, again and again, of ledgers, too: a late file writes
    `files` first."""
    lake, _ = world.open()
    waits = [chance.choice(SECONDS_UNTIL_SWEPT) for _ in range(SWEEPS - 2)]
    for seconds in (*waits, SECONDS_UNTIL_SWEPT[-1], 0.0):
        for table in (FILES.name, RAW, ARRIVALS.name, *world.built):
            sweep_writes(lake, table)
        world.scheduler.wait(seconds)


def plan(world: World, chance: Random) -> None:
    """Corrected code is installed, and a plan of two chunks brings days to it."""
    world.code += 1
    first = chance.randrange(DAYS - 1)
    days = DayRange(day(first), day(chance.randint(first + 2, DAYS)))
    policy = Policy(
        chunk="2d", force=chance.random() < 0.3, on_failure=chance.choice(("stop", "rollback"))
    )
    pair = chance.choice(world.pairs)
    tables = chance.choice((pair, pair, pair[:1], pair[1:]))
    run_new_plan(world, PlanRequest(days, tables, policy))


def run_new_plan(world: World, request: PlanRequest) -> None:
    """Make a plan and run it to its end."""
    lake, pipeline = world.open()
    made = make_plan(lake, pipeline, request)
    keep_plan(lake, made)
    run_plan(world.open, made, Worker(world))


def go_on(world: World, chance: Random) -> None:
    """A plan that stopped goes on."""
    lake, _ = world.open()
    for plan_id in plan_ids(lake):
        run_plan(world.open, find_plan(lake, plan_id), Worker(world))


def undo_plan(world: World, chance: Random) -> None:
    """Plans, or a chunk of each, are put back, in any order: several tables at once."""
    lake, pipeline = world.open()
    if not plan_ids(lake):
        plan(world, chance)
    plans = [*plan_ids(lake)]
    chance.shuffle(plans)
    for plan_id in plans:
        chunk = chance.choice(("", "", "1", "2"))
        roll_back(
            lake,
            pipeline,
            RollbackRequest(plan=plan_id, chunk=chunk, over_newer=chance.random() < 0.3),
            SAID,
        )


def publish(world: World, chance: Random) -> None:
    """A candidate with newer code is made, built and published."""
    lake, _ = world.open()
    pair = chance.choice(world.pairs)
    newer = world.pipeline(world.code + 1)
    name = f"v{world.scheduler.process.pid}"
    there = create_candidate(lake, newer, name, pair, lambda p: (p,), "newer code")
    world.candidates.add(name)
    opened = there, newer
    for table in pair:
        world.make(opened, table, [*EVERY_DAY], Provenance("candidate", ""))
    world.code += 1
    publish_candidate_days(PublishRequest(lake, newer, there, newer), act=True)


def maintain(world: World, chance: Random) -> None:
    """Upkeep, some time after the retention of what was replaced."""
    opened = world.open()
    if chance.random() < 0.5:
        world.scheduler.process.machine.clock_off += 86_400.0
    maintain_tables(*opened)


def snapshot(world: World, chance: Random) -> None:
    """A snapshot of two tables is made, and one is dropped again."""
    opened = world.open()
    name = f"s{world.scheduler.process.pid}"
    create_snapshot(*opened, SnapshotRequest(name, chance.choice(world.pairs), unfit="take"))
    world.snapshots.add(name)
    if chance.random() < 0.5:
        world.snapshots.remove(name)
        drop_snapshot(opened[0], name)


ACTS: dict[str, tuple[Act, int]] = {  # and how often it is drawn
    "tick": (tick, 1),
    "late file": (late_file, 1),
    "reader": (reader, 4),
    "rollback": (rollback, 3),
    "release": (release, 2),
    "sweep": (sweep, 1),
    "plan": (plan, 2),
    "plan goes on": (go_on, 1),
    "plan is undone": (undo_plan, 3),
    "publish": (publish, 2),
    "maintain": (maintain, 1),
    "snapshot": (snapshot, 2),
    "asset": (asset, 2),
    "export": (export, 1),
    "forget": (forget, 1),
}
