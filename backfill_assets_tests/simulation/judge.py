"""What must hold after a story, whatever went wrong in it.

Here: letting time pass, what a person and the sensors do afterwards, and each thing that must be
true then. Not here: the story (`story`). All is done by the package itself, in a process of a
third machine that nothing happened to.
"""

import json
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

from pyarrow.parquet import read_table

from backfill_assets.candidates.candidates import candidate_names, find_candidate
from backfill_assets.candidates.publications import PublishRequest, publish_candidate_days
from backfill_assets.erasure.forget import ForgetRequest
from backfill_assets.erasure.traces import Trace
from backfill_assets.export.export import export_days
from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.place.port import LOCKS, RUNS, Swept
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import marker_folder, sweep_writes
from backfill_assets.kernel.tables.versions import (
    UnfinishedSwitch,
    newest_version,
    unfinished_switches,
    versions_seen,
    why_readers_wait,
)
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.plans.files import CANCELLED, plan_ids, set_mark
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets.reading.kept_snapshots import find_snapshot, kept_file_path, snapshot_names
from backfill_assets.upkeep.inspection import inspect_table
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets_tests.simulation.actors import SAID
from backfill_assets_tests.simulation.engine import rows_at
from backfill_assets_tests.simulation.faults import CLOCK
from backfill_assets_tests.simulation.history import (
    Violation,
    judge_logs,
    judge_readings,
    judge_writes,
    refuse,
    values_of,
)
from backfill_assets_tests.simulation.outsiders import erase_entity, make_asset
from backfill_assets_tests.simulation.scheduler import Thread
from backfill_assets_tests.simulation.world import (
    EVERY_DAY,
    EXPORTS,
    LAKE,
    RAW,
    Opened,
    World,
)

MOST_REQUESTS = 4000  # of one process, whatever goes wrong
# Of a command while nothing goes wrong: four times what it needs alone, since whoever is overtaken
# looks again.
BUDGETS = {
    "tick": 550,
    "late file": 850,
    "reader": 230,
    "rollback": 360,
    "release": 190,
    "sweep": 260,
    "plan": 1750,
    "plan goes on": 1750,
    "plan is undone": 2400,
    "publish": 1300,
    "maintain": 800,
    "snapshot": 400,
    "asset": 360,
    "export": 750,
    "forget": 3000,
}
IDLE_REQUESTS = 130  # of a tick that has nothing to do: 86 to 96 were seen
SECONDS_UNTIL_THINNED = 10 * 86_400.0
SECONDS_LATER = 100 * 86_400.0  # longer than replaced files are kept


def judge_process(thread: Thread, has_faults: bool = False) -> None:
    """A process ends well, or with an error of the package's own, within its budget of requests.
    One that nothing happened to but a step of its clock is never taken for dead."""
    failure = thread.failure
    if failure is not None and not isinstance(failure, BackfillError):
        raise Violation(f"{thread.name} ends with {failure!r}") from failure
    was_well = isinstance(failure, Swept) and thread.process.met <= {CLOCK}
    refuse(was_well, f"{thread.name} was well, and ends with {failure!r}")
    requests = thread.process.requests
    most = MOST_REQUESTS if has_faults else BUDGETS.get(thread.what, MOST_REQUESTS)
    refuse(requests > most, f"{thread.name} made {requests} requests, and {most} are enough")


def judge_idle(thread: Thread) -> None:
    """A tick of a new process, with nothing left to do, makes few requests, whatever happened."""
    judge_process(thread)
    requests = thread.process.requests
    is_much = requests > IDLE_REQUESTS
    refuse(is_much, f"{thread.name} made {requests} requests, and {IDLE_REQUESTS} are enough")


def judge_waiting(world: World) -> None:
    """Readers wait for nobody any more, and see all that no unfinished switch covers, once each run
    that went on has shown no sign of life for its time; all there is, where each process ended
    well."""
    lake, _ = world.open()
    refuse(waits := why_readers_wait(lake), f"readers wait for the dead: {waits}")
    entry, seen = newest_version(lake), versions_seen(lake)
    newest = entry and (entry.held.then or entry.tables)
    refuse(seen != newest, f"readers see {seen}, and the newest is {newest}")
    others = [t for t in world.scheduler.threads if t.process is not world.scheduler.process]
    if seen is not None and all(t.ended_well for t in others if t.is_foreground):
        behind = [t for t in (RAW, *world.tables) if seen[t] != lake.store.head(t)]
        refuse(behind, f"all ended well, and readers see {seen}: nobody told them of {behind}")


def judge_lake(world: World) -> None:
    """Let the sensors and a person finish, then hold the lake against what must be true."""
    opened = world.open()
    judge_logs(opened)
    _finish(world, opened)
    judge_logs(opened)
    _judge_tables(world, opened)
    _judge_readers(world, opened)
    judge_readings(world, opened)
    _judge_exports(world, opened)
    _judge_erasures(world, opened)
    _judge_leftovers(world, opened)
    _judge_upkeep(world, opened)
    _judge_leftovers(world, opened)
    _judge_marks(opened[0])


def _finish(world: World, opened: Opened) -> None:
    lake, pipeline = opened
    for work in unfinished_switches(lake):
        _complete(world, opened, work)
    for plan_id in plan_ids(lake):
        set_mark(lake, plan_id, "ended", CANCELLED)
    for table in world.built:
        with suppress(BackfillError):
            release_days(*opened, RollbackRequest(table=table, days=EVERY_DAY), SAID)
    for _ in range(2):
        with world.run(*opened, "late data") as run_id:
            world.catch_up(opened, run_id)
            states = pipeline.states(read_view(lake, pipeline.contracts))
            for table in world.built:
                old = [d for d in EVERY_DAY if states.of(table, d) is State.OUTDATED]
                if old:
                    world.make(opened, table, old, Provenance("newer code", run_id))
            if world.has_asset:
                make_asset(world, opened, [*EVERY_DAY], run_id)
    for name in sorted(world.forgotten):
        erase_entity(world, name)


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
    for table in world.tables:
        for of in EVERY_DAY:
            state = states.of(table, of)
            refuse(state is not State.FRESH, f"{table} {of} is {state.value}")
        found = values_of(rows_at(lake, table, lake.store.head(table)))
        right = {d: world.right(table, n) for n, d in enumerate(EVERY_DAY)}
        refuse(found != right, f"{table} holds {found}, and should hold {right}")


def _judge_readers(world: World, opened: Opened) -> None:
    """Hours later readers wait for nobody, and see the newest."""
    lake, _ = opened
    still = [work.what for work in unfinished_switches(lake)]
    refuse(still, f"no command ends {still}")
    refuse(waits := why_readers_wait(lake), f"readers wait for nobody: {waits}")
    seen = versions_seen(lake) or {}
    for table in (RAW, *world.tables):
        head = lake.store.head(table)
        refuse(seen[table] != head, f"readers see {table} v{seen[table]} long after v{head}")


def _judge_exports(world: World, opened: Opened) -> None:
    """What was exported, and is exported once more, is what the tables hold."""
    lake, pipeline = opened
    for table in sorted(world.exported):
        export_days(lake, pipeline, table, EXPORTS)
        column = pipeline.table(table).contract.day_column
        found = dict[date, int]()
        for path in world.store.path(f"{LAKE}/{EXPORTS}/{table}").glob("*/part-0.parquet"):
            (value,) = read_table(path, partitioning=None).column("value").to_pylist()
            found[date.fromisoformat(path.parent.name.removeprefix(f"{column}="))] = value
        right = {d: world.right(table, n) for n, d in enumerate(EVERY_DAY)}
        refuse(found != right, f"the export of {table} holds {found}, and should hold {right}")


def _judge_erasures(world: World, opened: Opened) -> None:
    """Nothing holds what was erased."""
    for name in sorted(world.forgotten):
        held = ForgetRequest(*opened, Trace({"entity": name}), "").look().held
        refuse(held, f"{name} was erased, and {[path.as_posix() for path in held]} hold it")


def _judge_upkeep(world: World, opened: Opened) -> None:
    """Upkeep thins lake versions out, and keeps all that a rollback is promised for; months later
    it deletes all that nothing needs any more, and nothing else."""
    world.scheduler.now += SECONDS_UNTIL_THINNED
    maintain_tables(*opened)
    _judge_thinning(world, opened)
    judge_writes(world, opened)
    world.scheduler.now += SECONDS_LATER
    maintain_tables(*opened)
    left = [t.names for t in maintain_tables(*opened, act=False).tables if t.names]
    refuse(left, f"upkeep leaves {left}")
    _judge_tables(world, opened)
    _judge_snapshots(world, opened[0])
    _judge_candidates(world, opened[0])


def _judge_thinning(world: World, opened: Opened) -> None:
    """Entries of the lake's log go only where later ones of the same hour or day stay, or none is
    promised any more."""
    entries = {key: json.loads(content) for key, content in world.entries.items()}
    kept = world.entries.keys() - world.thinned.keys()
    promised = opened[0].settings.retention.rollback_days
    for key, when in world.thinned.items():
        at = datetime.fromisoformat(entries[key]["at"])
        age = datetime.fromtimestamp(when, UTC) - at
        refuse(age < timedelta(days=7), f"{key} is deleted after {age}")
        refuse(key > max(kept), f"{key} is deleted, and it was the newest")
        length = len("2024-01-01" if age > timedelta(days=30) else "2024-01-01T00")
        alike = [
            k for k in kept if k > key and entries[k]["at"][:length] == at.isoformat()[:length]
        ]
        is_needed = age < timedelta(days=promised) and not alike
        refuse(is_needed, f"{key} is deleted, and nothing of its time stays")


def _judge_snapshots(world: World, lake: Lake) -> None:
    """Each snapshot that nobody dropped is there; each file of each, with its bytes."""
    there = snapshot_names(lake)
    gone = world.snapshots.difference(there)
    refuse(gone, f"the snapshots {gone} are gone")
    for name in there:
        for table in find_snapshot(lake, name).tables.values():
            for kept in table.files:
                kept_file_path(lake, name, table, kept)


def _judge_candidates(world: World, lake: Lake) -> None:
    """Each candidate that was made is there, and what it built can be read."""
    gone = world.candidates.difference(candidate_names(lake))
    refuse(gone, f"the candidates {gone} are gone")
    for name in sorted(world.candidates):
        candidate = find_candidate(lake, name)
        for table in sorted(candidate.own):
            if exists_at(head := candidate.store.head(table)):
                rows_at(candidate, table, head)


def _judge_marks(lake: Lake) -> None:
    """Months later no run, switch or lock of those days has left anything."""
    shown = lake.place.below(RUNS)
    refuse(shown, f"nobody deletes the signs of life {shown}")
    locks = [name for name in lake.place.names(LOCKS) if name.endswith(".lock")]
    refuse(locks, f"nobody deletes the locks {locks}")


def _judge_leftovers(world: World, opened: Opened) -> None:
    """A sweep leaves no marker and no file of a write that was not committed; all that was is
    whole."""
    lake, pipeline = opened
    for contract in (*pipeline.contracts, ARRIVALS, FILES):
        sweep_writes(lake, contract.name)
        left = lake.place.names(marker_folder(contract.name))
        refuse(left, f"{contract.name} keeps the markers {left}")
        found = inspect_table(lake, contract)
        damage = (found.absent, found.altered, found.torn, found.lacking, found.checkpoints_torn)
        refuse(any(damage), f"{contract.name} is damaged: {damage}")
        refuse(found.lost, f"{found.lost} file(s) of {contract.name} are nobody's")
