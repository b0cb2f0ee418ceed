"""Writers and sweepers of one table in a store, in histories that chance draws: the log names no
file that was swept. Not here: commits by delta-rs (`test_store_races`)."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.buckets import leases
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.log.log import commit_name, commit_versions, find_write
from backfill_assets.kernel.place.port import AlreadyThere, StoreLost
from backfill_assets.kernel.tables.committer import Conflict, committed_version
from backfill_assets.kernel.tables.folder import TABLES
from backfill_assets.kernel.tables.staging import Staged, StagedFile, marker_folder, sweep_writes
from backfill_assets_tests.stepped import (
    BEAT,
    DELAY,
    DIE,
    GO,
    LOSE,
    REFUSE,
    Actor,
    SteppedPlace,
    Store,
)

HISTORIES = int(os.environ.get("BACKFILL_ASSETS_HISTORIES", "200"))
TABLE, ACTORS, FILES, ATTEMPTS = "t", 4, 2, 3


def commit_of(write_id: str, names: list[str]) -> bytes:
    """A commit that adds these files."""
    info = {
        "commitInfo": {
            "timestamp": 0,
            "userMetadata": Receipt(write_id, TABLE, "test", {}).to_json(),
        }
    }
    return b"\n".join(
        json.dumps(a).encode() for a in [info, *({"add": {"path": n, "size": 1}} for n in names)]
    )


def writes(place: SteppedPlace, write_id: str) -> None:
    """Stage two files, commit the first, try again where another commit came first, and delete the
    second."""
    table, marker = place.at(f"{TABLES}/{TABLE}"), f"{marker_folder(TABLE)}/{write_id}"
    held = place.actor.lease = leases.take_lease(
        cast(Any, place), marker, leases.WRITE_LEASE_SECONDS
    )
    staged = Staged(write_id, cast(Any, place), cast(Any, table), (), held)
    names = [f"{staged.name}/part-{n}.parquet" for n in range(FILES)]
    staged.files = tuple(StagedFile(cast(Any, table), name, None) for name in names)
    try:
        for name in names:
            table.write(name, b"1")
        for _ in range(ATTEMPTS):
            head = max(commit_versions(cast(Any, table)), default=-1)
            staged.tried = True
            staged.committing(head + 1)
            lost: list[Exception] = []
            try:
                table.write(commit_name(head + 1), commit_of(write_id, names[:1]), if_absent=True)
            except (AlreadyThere, StoreLost) as error:
                lost.append(error)
            with suppress(Conflict):
                find = partial(find_write, cast(Any, table), write_id, head)
                committed_version(cast(Any, table), find, head, lost[0] if lost else None)
                staged.keep(names[:1])
                return
    finally:
        if place.actor.ended != "died":
            staged.drop()
    raise AlreadyThere


def sweeps(place: SteppedPlace) -> None:
    """Sweep the table as every writer does before it commits."""
    sweep_writes(cast(Any, lake_of(place)), TABLE)


def lake_of(place: SteppedPlace) -> SimpleNamespace:
    return SimpleNamespace(place=place, table_place=lambda name: place.at(f"{TABLES}/{name}"))


@dataclass
class World:
    """A table, who works on it, and what its log names."""

    store: Store = field(default_factory=Store)
    actors: list[Actor] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)  # file -> write
    late: set[str] = field(
        default_factory=set
    )  # writes of which a file came when their marker was gone, or was late

    def __post_init__(self) -> None:
        self.store.watch = self.seen
        for _ in range(3):
            self.begin()

    def seen(self, name: str, content: bytes | None) -> None:
        """Hold each request against what must be true always."""
        below = name.removeprefix(f"{TABLES}/{TABLE}/")
        if content is None:
            assert below not in self.named, f"{below} is swept, and the log names it"
        elif below.startswith("_delta_log/"):
            lines = [json.loads(line) for line in content.splitlines()]
            write_id = json.loads(lines[0]["commitInfo"]["userMetadata"])["write_id"]
            assert write_id not in self.named.values(), f"{write_id} is committed twice"
            for path in (line["add"]["path"] for line in lines[1:]):
                assert f"{TABLES}/{TABLE}/{path}" in self.store.objects, (
                    f"{write_id} commits {path}, which was swept"
                )
                self.named[path] = write_id
        elif below.startswith("writes/") and (
            self.store.is_arriving or self.marker(below.split("/")[1]) is None
        ):
            self.late.add(below.split("/")[1])

    def marker(self, write_id: str) -> str | None:
        """The state of a write; None if it has no marker."""
        found = self.store.objects.get(f"{marker_folder(TABLE)}/{write_id}")
        state = None if found is None else json.loads(found[0])["state"]
        return None if state == leases.DEAD else state

    def begin(self) -> None:
        """One more process: a writer, or every other time a sweeper."""
        number = len(self.actors)
        work = sweeps if number % 2 else lambda place: writes(place, f"w{number}")
        self.actors.append(Actor(work, self.store))
        self.actors[-1].step(GO)

    def finish(self, actor: Actor) -> None:
        """Let a process go on to its end."""
        while not actor.ended:
            actor.step(GO)

    def settle(self) -> None:
        """Who lives goes on, what is late comes; then hours pass, somebody else commits, and one
        process sweeps."""
        for actor in self.actors:
            self.finish(actor)
        while self.store.late:
            self.store.arrive()
        self.whole("commit", 10_000)
        self.whole("sweep", 10_000)

    def whole(self, what: str, seconds: float) -> None:
        """So many seconds later another process does something from its beginning to its end."""
        self.store.now += seconds
        name = f"{what} {self.store.now}"
        actor = Actor(sweeps if what == "sweep" else lambda place: writes(place, name), self.store)
        self.finish(actor)
        assert actor.ended == "done"


STOPS = [
    "write .*_delta_log",
    r"write \.staging",
    "write writes",
    r"delete \.staging",
    "delete .*parquet",
    "read|look|list",
]
MOVES = st.one_of(
    st.tuples(st.just("run"), st.integers(0, ACTORS - 1), st.sampled_from(STOPS)),
    st.tuples(
        st.just("step"),
        st.integers(0, ACTORS - 1),
        st.sampled_from([GO, GO, LOSE, REFUSE, DELAY, DIE, BEAT]),
    ),
    st.tuples(
        st.sampled_from(["wait", "wait", "sweep", "commit"]),
        st.sampled_from([1, 50, 130, 130, 130]),
        st.none(),
    ),
    st.tuples(st.sampled_from(["begin", "arrive"]), st.none(), st.none()),
)


@pytest.mark.parametrize("is_swept", [False, True])
def test_a_renewal_whose_answer_was_lost_is_the_writers_own_unless_it_was_swept(
    is_swept: bool,
) -> None:
    world = World()
    writer, sweeper = world.actors[:2]
    writer.run_to("write writes")
    writer.step(BEAT)
    writer.step(LOSE)
    world.store.now += 130 if is_swept else 1
    world.finish(sweeper)
    world.finish(writer)
    assert writer.ended == ("Swept" if is_swept else "done")


def test_a_writer_that_commits_while_a_sweeper_takes_it_for_dead_is_left_alone() -> None:
    world = World()
    writer, sweeper = world.actors[:2]
    writer.run_to(r"write \.staging")
    world.store.now += 130
    sweeper.run_to(r"write \.staging")
    writer.run_to("write .*_delta_log")
    world.finish(sweeper)
    world.finish(writer)
    assert (writer.ended, sweeper.ended, len(world.named)) == ("done", "done", 1)


def test_a_writer_paused_before_its_commit_is_swept_only_when_another_took_its_version() -> None:
    for others in (False, True):
        world = World()
        writer, sweeper = world.actors[:2]
        writer.run_to("write .*_delta_log")
        if others:
            world.whole("commit", 130)
        world.store.now += 130
        world.finish(sweeper)
        world.finish(writer)
        assert writer.ended == ("Swept" if others else "done")
    assert world.late == set()


def test_a_commit_that_comes_late_after_it_was_looked_for_is_the_writers_own() -> None:
    world = World()
    writer = world.actors[0]
    writer.run_to("write .*_delta_log")
    writer.step(DELAY)
    writer.run_to("look at .*_delta_log")
    world.store.arrive()
    world.finish(writer)
    assert (writer.ended, len(world.named)) == ("done", 1)


@pytest.mark.slow
@settings(max_examples=HISTORIES)
@given(st.lists(MOVES, min_size=4, max_size=24))
def test_the_log_names_no_file_that_was_swept_and_nothing_is_left(
    moves: list[tuple[str, Any, Any]],
) -> None:
    world = World()
    for move, which, how in moves:
        actor = world.actors[which % len(world.actors)] if move in ("step", "run") else None
        if move == "wait":
            world.store.now += which
        elif move in ("sweep", "commit"):
            world.whole(move, which)
        elif move == "arrive":
            world.store.arrive()
        elif move == "begin" and len(world.actors) < ACTORS:
            world.begin()
        elif actor is not None:
            actor.run_to(how) if move == "run" else actor.step(how)
    world.settle()
    for number, actor in enumerate(world.actors):
        is_in_log = f"w{number}" in world.named.values()
        assert (
            actor.ended not in ("done", "Swept")
            or number % 2
            or is_in_log == (actor.ended == "done")
        )
    left = {
        n.removeprefix(f"{TABLES}/{TABLE}/") for n in world.store.objects if "/writes/" in n
    } - {*world.named}
    assert {name.split("/")[1] for name in left} <= world.late
    assert [name for name in world.store.objects if name.startswith(marker_folder(TABLE))] == []
