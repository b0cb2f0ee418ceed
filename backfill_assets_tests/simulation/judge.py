"""What must hold after a story, whatever went wrong in it.

Here: letting time pass, what a person and the sensors do afterwards, and each thing that must be
true then. Not here: the story (`story`). All is done by the package itself, in a process of a
third machine that nothing happened to.
"""

from contextlib import suppress

from backfill_assets.candidates.candidates import candidate_names, find_candidate
from backfill_assets.candidates.publications import PublishRequest, publish_candidate_days
from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.staging import marker_folder, sweep_writes
from backfill_assets.kernel.tables.versions import (
    UnfinishedSwitch,
    unfinished_switches,
    versions_seen,
    why_readers_wait,
)
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.plans.files import CANCELLED, plan_ids, set_mark
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets.upkeep.inspection import inspect_table
from backfill_assets_tests.simulation.actors import SAID
from backfill_assets_tests.simulation.engine import rows_at
from backfill_assets_tests.simulation.history import (
    Violation,
    judge_readings,
    judge_writes,
    refuse,
    values_of,
)
from backfill_assets_tests.simulation.scheduler import Thread
from backfill_assets_tests.simulation.world import BUILT, EVERY_DAY, RAW, Opened, World

MOST_REQUESTS = 4000  # of one process


def judge_process(thread: Thread) -> None:
    """A process ends well, or with an error of the package's own."""
    failure = thread.failure
    if failure is not None and not isinstance(failure, BackfillError):
        raise Violation(f"{thread.name} ends with {failure!r}") from failure
    requests = thread.process.requests
    refuse(requests > MOST_REQUESTS, f"{thread.name} made {requests} requests")


def judge_lake(world: World) -> None:
    """Let the sensors and a person finish, then hold the lake against what must be true."""
    opened = world.open()
    _finish(world, opened)
    _judge_tables(world, opened)
    _judge_readers(opened)
    judge_readings(world, opened)
    judge_writes(opened)
    _judge_leftovers(world, opened)


def _finish(world: World, opened: Opened) -> None:
    lake, pipeline = opened
    for work in unfinished_switches(lake):
        _complete(world, opened, work)
    for plan_id in plan_ids(lake):
        set_mark(lake, plan_id, "ended", CANCELLED)
    for table in BUILT:
        with suppress(BackfillError):
            release_days(*opened, RollbackRequest(table=table, days=EVERY_DAY), SAID)
    for _ in range(2):
        with world.run(*opened, "late data") as run_id:
            world.catch_up(opened, run_id)
            states = pipeline.states(read_view(lake, pipeline.contracts))
            for table in BUILT:
                old = [d for d in EVERY_DAY if states.of(table, d) is State.OUTDATED]
                if old:
                    world.make(opened, table, old, Provenance("newer code", run_id))


def _complete(world: World, opened: Opened, work: UnfinishedSwitch) -> None:
    """What a person does whom `doctor` tells that a rollback or a publication stopped."""
    lake, pipeline = opened
    named, _, rest = work.id.partition(" ")
    for name in candidate_names(lake):
        request = PublishRequest(lake, pipeline, find_candidate(lake, name), pipeline)
        if request.what == work.what:
            with suppress(BackfillError):
                publish_candidate_days(request, act=True)
                return
    back = RollbackRequest(plan=named, chunk=rest.rpartition(" ")[2], over_newer=True)
    with suppress(BackfillError):
        roll_back(lake, pipeline, back, SAID)


def _judge_tables(world: World, opened: Opened) -> None:
    lake, pipeline = opened
    states = pipeline.states(read_view(lake, pipeline.contracts))
    for table in BUILT:
        for of in EVERY_DAY:
            state = states.of(table, of)
            refuse(state is not State.FRESH, f"{table} {of} is {state.value}")
        found = values_of(rows_at(lake, table, lake.store.head(table)))
        right = {d: world.right(table, n) for n, d in enumerate(EVERY_DAY)}
        refuse(found != right, f"{table} holds {found}, and should hold {right}")


def _judge_readers(opened: Opened) -> None:
    """Hours later readers wait for nobody, and see the newest."""
    lake, _ = opened
    still = [work.what for work in unfinished_switches(lake)]
    refuse(still, f"no command ends {still}")
    refuse(waits := why_readers_wait(lake), f"readers wait for nobody: {waits}")
    seen = versions_seen(lake) or {}
    for table in (RAW, *BUILT):
        head = lake.store.head(table)
        refuse(seen[table] != head, f"readers see {table} v{seen[table]} long after v{head}")


def _judge_leftovers(world: World, opened: Opened) -> None:
    lake, pipeline = opened
    for contract in (*pipeline.contracts, ARRIVALS, FILES):
        sweep_writes(lake, contract.name)
        left = lake.place.names(marker_folder(contract.name))
        refuse(left, f"{contract.name} keeps the markers {left}")
        found = inspect_table(lake, contract)
        damage = (found.absent, found.altered, found.torn, found.lacking, found.checkpoints_torn)
        refuse(any(damage), f"{contract.name} is damaged: {damage}")
        refuse(found.lost, f"{found.lost} file(s) of {contract.name} are nobody's")
