"""One story: a seed's machines, processes and faults, played and judged.

Here: the lake with which each story begins, playing, and what came of it. Not here: many seeds
(`__main__`).
"""

import contextlib
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from random import Random

from backfill_assets.kernel.log.run_markers import BEAT_SECONDS
from backfill_assets.kernel.place.port import SHOWN_SECONDS
from backfill_assets.plans.plan import PlanRequest
from backfill_assets.plans.policy import Policy
from backfill_assets_tests.simulation.actors import ACTS, Actor, run_new_plan, watch
from backfill_assets_tests.simulation.casts import MACHINES, Cast, drawn_cast
from backfill_assets_tests.simulation.choices import Choices
from backfill_assets_tests.simulation.faults import Faults
from backfill_assets_tests.simulation.history import Violation
from backfill_assets_tests.simulation.judge import (
    judge_idle,
    judge_lake,
    judge_process,
    judge_waiting,
)
from backfill_assets_tests.simulation.planted import planting
from backfill_assets_tests.simulation.replaced import standing_in
from backfill_assets_tests.simulation.scheduler import Endless, Machine, Scheduler, Thread
from backfill_assets_tests.simulation.store import Store
from backfill_assets_tests.simulation.world import EVERY_DAY, PAIRS, World

FIRST_CODE = 1  # the version of the code with which stories begin
NO_SEED = -1  # of the lakes with which stories begin: ids of no story are theirs
# After its last sign of life, and two beats, nobody's is awaited: readers are at the newest.
LEASE_SECONDS = SHOWN_SECONDS + 2 * BEAT_SECONDS
LATER_SECONDS = 2 * 3600.0  # between the story and its judge: every lease is over
SWITCHING = (0.02, 0.1, 0.3, 0.6)  # shares of stops at which another process goes on
DAYS_AGO = (0, 0, 0, 10, 40)  # when the lake was last written to: lake versions thin out
FAULTS_END = (inf, inf, 30.0, 200.0)  # seconds of a story after which nothing goes wrong any more


@dataclass(frozen=True)
class End:
    """How a process ended: `well`, `dead`, or with the error of that name."""

    what: str
    how: str
    has_changed: bool  # any object


@dataclass(frozen=True)
class Played:
    """What came of a story. `wrong`: "" if all holds."""

    seed: int
    actors: Sequence[Actor]
    wrong: str
    digest: str
    trace: Sequence[str]
    choices: Sequence[int]
    requests: int
    met: Mapping[str, int]  # how often each fault
    ends: Sequence[End]  # of each actor and judge
    cause: str = ""  # with lines of the program

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.wrong or 'all holds'}"


@dataclass(frozen=True)
class Beginning:
    """Lakes that were loaded twice and brought to newer code by plans, as the objects of their
    stores: one for each number of pairs of tables."""

    folder: Path

    @classmethod
    @contextlib.contextmanager
    def made(cls) -> "Iterator[Beginning]":
        """One that is kept while stories are played."""
        with tempfile.TemporaryDirectory() as folder:
            for pairs in range(1, len(PAIRS) + 1):
                cls._make_lake(Path(folder) / str(pairs), pairs)
            yield cls(Path(folder))

    @staticmethod
    def _make_lake(folder: Path, pairs: int) -> None:
        folder.mkdir()
        with new_world(folder, NO_SEED, Choices(NO_SEED, ())) as world:
            world.pairs = PAIRS[:pairs]
            world.begin()
            for times in range(2):
                world.landed = {n: {n: 1 + times} for n in world.landed}
                judge_process(go_alone(world, "maker", partial(ACTS["tick"][0], world, Random(0))))
            world.code = FIRST_CODE
            for pair in world.pairs:
                request = PlanRequest(EVERY_DAY, pair, Policy(chunk="2d"))
                judge_process(go_alone(world, "maker", partial(run_new_plan, world, request)))

    def objects(self, pairs: int) -> Path:
        """The objects of the lake with so many pairs of tables."""
        return self.folder / str(pairs) / "store"


@contextlib.contextmanager
def new_world(folder: Path, seed: int, choices: Choices, share: float = 0.0) -> Iterator[World]:
    """A lake that is not there yet, and all that stands for other things while it is played."""
    scheduler = Scheduler(choices, str(folder))
    faults = Faults(scheduler, share)
    store = Store(folder / "store", scheduler, faults)
    store.folder.mkdir()
    world = World(store, folder / "machines")
    try:
        with standing_in(store, seed):
            try:
                yield world
            finally:
                scheduler.close()
    finally:
        shutil.rmtree(folder / "machines", ignore_errors=True)


def go_alone(world: World, name: str, work: Callable[[], None]) -> Thread:
    """Let one process of a machine of its own do something to its end, while nothing goes wrong."""
    world.store.faults.is_on = False
    scheduler = world.scheduler
    scheduler.start_process(Machine(name), name, work)
    main = scheduler.threads[-1]
    scheduler.run()
    assert main.is_over
    return main


def play(
    beginning: Beginning,
    seed: int,
    actors: Sequence[Actor] | None = None,
    given: Sequence[int] | None = None,
    planted: str = "",
) -> Played:
    """Play the story of a seed; `actors` and `given` decisions in place of those that it draws.
    `planted`: by a package with this fault."""
    chance, choices, cast = Random(f"story {seed}"), Choices(seed, given), drawn_cast(seed)
    if actors is not None:
        cast = replace(cast, actors=actors)
    with (
        tempfile.TemporaryDirectory() as folder,
        new_world(Path(folder), seed, choices, cast.share) as world,
        planting(planted, world.scheduler),
    ):
        world.pairs, world.code = PAIRS[: cast.pairs], FIRST_CODE
        world.has_asset = any(actor.what == "asset" for actor in cast.actors)
        world.store.lay_out(beginning.objects(cast.pairs))
        world.scheduler.now += chance.choice(DAYS_AGO) * 86_400.0
        world.scheduler.switching = chance.choice(SWITCHING)
        world.store.faults.kinds = cast.kinds
        world.store.faults.where = cast.where
        world.store.faults.until = world.scheduler.now + chance.choice(FAULTS_END)
        wrong, cause = _played(world, cast)
        scheduler = world.scheduler
        return Played(
            seed,
            cast.actors,
            wrong,
            scheduler.digest(),
            [*scheduler.trace],
            [*choices.made],
            sum(process.requests for process in scheduler.processes),
            {**world.store.faults.met},
            [_end_of(thread) for thread in scheduler.threads if thread.is_foreground],
            cause,
        )


def _played(world: World, cast: Cast) -> tuple[str, str]:
    """What is wrong after a story ("": nothing), and where that shows."""
    scheduler = world.scheduler
    machines = {name: Machine(name) for name in MACHINES}
    world.store.faults.losable = (machines[MACHINES[1]],)
    try:
        for actor in cast.actors:
            process = scheduler.start_process(
                machines[actor.machine],
                f"{actor.what} {actor.seed} on {actor.machine}",
                partial(_act, world, actor),
                actor.upon,
                actor.times,
            )
            world.store.faults.struck = process if cast.is_last_struck else None
        scheduler.start_watcher(Machine("watching"), partial(watch, world))
        scheduler.run()
        for thread in scheduler.threads:
            judge_process(thread, world.store.faults.share > 0)
        for seconds, judge in ((LEASE_SECONDS, judge_waiting), (LATER_SECONDS, judge_lake)):
            scheduler.now += seconds
            judged = go_alone(world, "judge", partial(judge, world))
            if judged.failure is not None:
                raise judged.failure
        judge_idle(go_alone(world, "an idle tick", partial(ACTS["tick"][0], world, Random(0))))
    except (Violation, Endless) as error:
        return str(error), _where(error)
    except Exception as error:  # noqa: BLE001  # whatever it is, the story must tell it
        return f"the judge meets {error!r}", _where(error)
    return "", ""


def _end_of(thread: Thread) -> End:
    how = "well" if thread.ended_well else "dead"
    if thread.failure is not None:
        how = type(thread.failure).__name__
    return End(thread.what or thread.name, how, thread.process.changes > 0)


def _where(error: BaseException) -> str:
    return "".join(traceback.format_exception(error.__cause__ or error))


def _act(world: World, actor: Actor) -> None:
    if actor.after:
        world.scheduler.wait(actor.after)
    act, _ = ACTS[actor.what]
    act(world, Random(f"{actor.what} {actor.seed}"))
