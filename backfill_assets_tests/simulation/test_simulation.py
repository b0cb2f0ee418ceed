"""Stories of several machines on one lake, and what they must find.

Tested here: stories by seeds, that a seed tells the same story twice, and that at each request of
the port others may go on. Not tested here: engines and Dagster. The big run, for hours: `python -m backfill_assets_tests.thorough simulation`.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from backfill_assets.buckets.bucket import Bucket
from backfill_assets.kernel.place.port import Place
from backfill_assets_tests.processes import CHECKOUT
from backfill_assets_tests.simulation.__main__ import seeds_with
from backfill_assets_tests.simulation.casts import MEETINGS, drawn_cast
from backfill_assets_tests.simulation.choices import Choices
from backfill_assets_tests.simulation.faults import COMMITS, KILLED, LOST, Faults
from backfill_assets_tests.simulation.planted import PLANTED
from backfill_assets_tests.simulation.scheduler import (
    BEGAN,
    COMMITTED,
    COMPUTES,
    ENDED,
    REQUEST_SECONDS,
    SECONDS_HELD,
    TELLS,
    Machine,
    Scheduler,
)
from backfill_assets_tests.simulation.shrinking import shrunk
from backfill_assets_tests.simulation.story import (
    Beginning,
    End,
    Played,
    go_alone,
    new_world,
    play,
)
from backfill_assets_tests.simulation.tally import Tally
from backfill_assets_tests.simulation.world import World

SEEDS = 12  # of stories in a run of all tests, half a minute: always the same ones
ASKING: dict[str, Callable[[Place], object]] = {  # each verb of the port that asks a store
    "names": lambda place: place.names("folder"),
    "below": lambda place: place.below("folder"),
    "tokens": lambda place: place.tokens("folder"),
    "token": lambda place: place.token("file"),
    "open": lambda place: place.open("file").read(),
    "write": lambda place: place.write("other", b""),
    "put": lambda place: place.put("other", place.prepared("folder") / "file"),
    "link": lambda place: place.link("other", place, "file"),
    "copy": lambda place: place.copy("other", place, "file"),
    "point": lambda place: place.point("other", place.prepared("folder") / "file"),
    "delete": lambda place: place.delete("file"),
    "delete_all": lambda place: place.delete_all(["file"]),
    "delete_below": lambda place: place.delete_below("folder"),
    "sync": lambda place: place.sync("folder/file"),
    "sync_new": lambda place: place.sync_new(["folder/file"]),
    "lock": lambda place: place.lock("lock", "it").__enter__(),
    "hold": lambda place: place.hold("marker"),
    "abandoned": lambda place: [*place.abandoned("folder", lambda *_: False)],
    "held": lambda place: place.held(["marker"]),
    "clear_locks": lambda place: place.clear_locks(),
    "local": lambda place: place.local("file"),
}
OF_NAMES = {"at", "client", "is_store", "keeping_copies", "may_be_of_others", "name", "uri"}
OF_THIS_MACHINE = {"file_fault", "patience", "prepared", "prune", "refuse_link", "refuse_loss"}


@pytest.mark.usefixtures("processes")
def test_stories_of_several_machines_end_as_a_lake_that_was_made_at_once() -> None:
    words = ("--seeds", str(SEEDS), "--minutes", "10")
    command = (sys.executable, "-m", "backfill_assets_tests.simulation", *words)
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_at_each_verb_of_the_port_that_asks_a_store_others_may_go_on(tmp_path: Path) -> None:
    verbs = {name for name in vars(Place).keys() & vars(Bucket) if not name.startswith("_")}
    assert verbs == {*ASKING} | OF_NAMES | OF_THIS_MACHINE
    for name in ASKING:
        (tmp_path / name).mkdir()
        with new_world(tmp_path / name, seed=0, choices=Choices(0)) as world:
            world.begin()
            thread = go_alone(world, name, partial(_ask, world, ASKING[name]))
            assert thread.failure is None, name


def _ask(world: World, verb: Callable[[Place], object]) -> None:
    """Ask a store by a verb, before whose request others may go on."""
    place = world.open()[0].place
    place.write("file", b"content")
    (place.prepared("folder") / "file").write_bytes(b"content")
    before = len(world.scheduler.trace)
    verb(place)
    assert len(world.scheduler.trace) > before


@pytest.mark.slow
def test_a_seed_tells_the_same_story_twice() -> None:
    with Beginning.made() as beginning:
        one, other = (play(beginning, seed=3) for _ in range(2))
    assert one.trace == other.trace
    assert one.digest == other.digest
    assert one.choices == other.choices
    assert len(one.trace) > 100


def test_stories_can_be_chosen_by_who_takes_part_and_by_what_goes_wrong() -> None:
    assert drawn_cast(next(seeds_with(0, (TELLS, TELLS)))).actors[1].upon == TELLS
    wanted = ("late file", "late file", LOST)
    for seed in itertools.islice(seeds_with(0, wanted), 3):
        cast = drawn_cast(seed)
        assert [actor.what for actor in cast.actors].count("late file") >= 2
        assert LOST in cast.kinds
        assert cast.share > 0
    assert [*itertools.islice(seeds_with(7, ()), 3)] == [7, 8, 9]


COMMIT, ENTRY = "write if lake/tables/raw/_delta_log/1.json", "write lake/.versions/1.json"


@pytest.mark.parametrize(
    ("moment", "asks"),
    [(COMMITTED, [COMMIT, "list"]), (TELLS, [ENTRY]), (ENDED, [])],
)
def test_who_awaits_a_moment_of_another_begins_then_and_has_time_before_that_one_goes_on(
    moment: str, asks: Sequence[str]
) -> None:
    scheduler, began = Scheduler(Choices(0, given=())), dict[str, float]()

    def first() -> None:
        scheduler.wait(5.0)
        for each in asks:
            scheduler.stop(each)

    def second() -> None:
        began["second"] = scheduler.now
        scheduler.stop("look")

    scheduler.start_process(Machine("one"), "first", first)
    scheduler.start_process(Machine("two"), "second", second, upon=moment)
    scheduler.run()
    assert began["second"] == pytest.approx(BEGAN + 5.0 + len(asks) * REQUEST_SECONDS)


def test_who_is_at_a_moment_that_another_awaits_is_held_up_for_as_long_as_chance_says() -> None:
    scheduler = Scheduler(Choices(0, given=(0, len(SECONDS_HELD) - 1)))
    seconds = list[float]()

    def first() -> None:
        before = scheduler.now
        scheduler.reach(COMPUTES)
        seconds.append(scheduler.now - before)

    scheduler.start_process(Machine("one"), "first", first)
    scheduler.start_process(Machine("two"), "second", lambda: None, upon=COMPUTES)
    scheduler.run()
    assert seconds == [SECONDS_HELD[-1]]


def test_who_awaits_a_moment_that_never_comes_begins_without() -> None:
    scheduler = Scheduler(Choices(0, given=()))
    scheduler.start_process(Machine("one"), "first", lambda: None, upon=ENDED)
    scheduler.run()
    assert scheduler.threads[0].ended_well


def test_faults_strike_one_process_alone_and_at_commits_alone_where_a_story_says_so() -> None:
    scheduler = Scheduler(Choices(0))
    faults = Faults(scheduler, share=1.0, kinds=(KILLED,), where=COMMITS)
    asked = list[str]()

    def work() -> None:
        for each in ("look a", COMMIT, "look b", "look c"):
            scheduler.stop(each)
            asked.append(each)
            kind, _, key = each.rpartition(" ")
            faults.meet(kind, key, lambda: None)

    for name in ("one", "two"):
        faults.struck = scheduler.start_process(Machine(name), name, work)
    scheduler.run()
    spared, struck = scheduler.processes
    assert [thread.ended_well for thread in scheduler.threads] == [True, False]
    assert (spared.met, struck.met) == (set(), {KILLED})
    assert sorted(asked) == sorted(["look a", COMMIT, "look b", "look c", "look a", COMMIT])


def test_a_moment_that_a_meeting_names_is_one_of_those_that_are_reached() -> None:
    assert {meeting.upon for meeting in MEETINGS} == {"", COMPUTES, COMMITTED, TELLS, ENDED}


def test_a_tally_says_in_how_many_stories_an_actor_changed_something() -> None:
    tally = Tally()
    in_vain, well = End("sweep", "well", has_changed=False), End("sweep", "well", has_changed=True)
    for ends in ([in_vain, in_vain], [in_vain, well], [End("tick", "dead", has_changed=True)]):
        tally.add(Played(0, (), "", "", (), (), 5, {KILLED: 1}, ends))
    lines = [line.split() for line in tally.lines()]
    assert ["sweep", "2", "1", "4", "well"] in lines
    assert ["tick", "1", "1", "1", "dead"] in lines
    assert ["3", *KILLED.split()] in lines
    assert (tally.stories, tally.requests) == (3, 15)


def test_each_fault_that_can_be_planted_has_a_row_that_says_what_shows_it() -> None:
    page = Path(__file__).with_name("planted.md").read_text("utf-8")
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert rows[1:] == [*PLANTED]


@pytest.mark.slow
def test_a_fault_that_was_planted_is_found_and_its_story_is_made_smaller() -> None:
    name = "receipts without versions"
    with Beginning.made() as beginning:
        played = (play(beginning, seed, planted=name) for seed in range(20))
        found = next(story for story in played if story.wrong)
        smaller = shrunk(beginning, found, name, tries=12)
    assert "does not say from which" in found.wrong
    assert smaller.wrong
    assert len(smaller.actors) <= len(found.actors)
