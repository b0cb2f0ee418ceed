"""What processes of a story do: commands and ticks of the package, and a reader.

Here: each as a function of the lake, and drawing who does what on which machine. Not here: what a
command is made of (`world`), and what must hold afterwards (`judge`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.staging import sweep_writes
from backfill_assets.kernel.tables.versions import newest_version, versions_seen
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets_tests.builders import day
from backfill_assets_tests.simulation.engine import rows_at
from backfill_assets_tests.simulation.world import BUILT, DAYS, EVERY_DAY, RAW, Reading, World

SAID = Provenance("test", tags={"by": "ann@desk"})
Act = Callable[[World, Random], None]


@dataclass(frozen=True)
class Actor:
    """A process of a story: what it does, where, after how many seconds; `seed` decides details."""

    what: str
    machine: str
    after: float
    seed: int


def tick(world: World, chance: Random) -> None:
    """A sensor's tick and its run."""
    opened = world.open()
    with world.run(*opened, "late data") as run_id:
        world.catch_up(opened, run_id)


def late_file(world: World, chance: Random) -> None:
    """A file lands for an arrival day, with numbers of days before it, and is loaded."""
    arrived = chance.randrange(DAYS)
    world.landed[arrived] = {
        **world.landed[arrived],
        chance.randint(0, arrived): chance.randint(2, 99),
    }
    opened = world.open()
    with world.run(*opened, "load") as run_id:
        world.load(*opened, run_id)


def reader(world: World, chance: Random) -> None:
    """Somebody reads the tables, again and again."""
    lake, _ = world.open()
    for _ in range(4):
        before = newest_version(lake)
        seen = versions_seen(lake) or {}
        after = newest_version(lake)
        rows = {}
        for table in (RAW, *BUILT):
            world.scheduler.stop(f"reads {table} v{seen[table]}")
            rows[table] = rows_at(lake, table, seen[table])
        assert before is not None
        assert after is not None
        world.readings.append(Reading(seen, rows, before.number, after.number))
        world.scheduler.wait(chance.choice((0.1, 2.0, 30.0)))


def rollback(world: World, chance: Random) -> None:
    """A table's days are put back to what they were before their newest write."""
    lake, pipeline = world.open()
    table = chance.choice(BUILT)
    first = chance.randrange(DAYS)
    days = DayRange(day(first), day(first) + ONE_DAY * chance.randint(1, DAYS - first))
    head = lake.store.head(table)
    request = RollbackRequest(table=table, days=days, to_version=max(head - 1, 1))
    roll_back(lake, pipeline, request, SAID)


def release(world: World, chance: Random) -> None:
    """Held days are let go."""
    release_days(*world.open(), RollbackRequest(table=chance.choice(BUILT), days=EVERY_DAY), SAID)


def sweep(world: World, chance: Random) -> None:
    """What killed writes left is removed."""
    lake, _ = world.open()
    for table in (RAW, *BUILT):
        sweep_writes(lake, table)


ACTS: dict[str, tuple[Act, int]] = {  # and how often it is drawn
    "tick": (tick, 4),
    "late file": (late_file, 4),
    "reader": (reader, 2),
    "rollback": (rollback, 2),
    "release": (release, 1),
    "sweep": (sweep, 1),
}
MACHINES = ("one", "two")


def drawn_actors(seed: int) -> list[Actor]:
    """Who takes part in the story of a seed."""
    chance = Random(f"actors {seed}")
    often = [name for name, (_, weight) in ACTS.items() for _ in range(weight)]
    found = []
    for number in range(chance.randint(3, 7)):
        after = chance.choice((0.0, 0.0, 0.5, 2.0, 20.0, 90.0))
        found.append(Actor(chance.choice(often), chance.choice(MACHINES), after, number))
    return found
