"""Late data with only the sensors acting: exactly the touched days are rewritten, and the end is as
if built at once.

The clock jumps by seconds, hours and years all the while. Tested here: landings in random order
with repeats, killed runs, early cut-off, what came too late and is released. Not tested here: what
a tick decides (`dagster.adapter.test_ticks`).
"""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.server import stop_server
from backfill_assets.intake.too_late import release_late_rows
from backfill_assets.kernel.core.days import DayRange
from backfill_assets_tests.clocks import Jumping, jumps, set_to
from backfill_assets_tests.end_to_end.replay import Replay
from backfill_assets_tests.end_to_end.worlds import (
    SHARED,
    World,
    by_arrival,
    land,
    make_world,
    span,
)
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.homes import make_home, opened_home
from backfill_assets_tests.logs import commits
from backfill_assets_tests.oracle import Row, Rules, delivery, expected, ordered, unruly
from backfill_assets_tests.processes import run_python

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("replay")]
START = date(2024, 3, 1)
RULES = Rules(START, datetime.fromisoformat("2024-03-08"), date(2024, 3, 7), early_tolerance_days=9)
SEEDS = range(
    3, 3 + int(os.environ.get("BACKFILL_ASSETS_REPLAYS", "1"))
)  # each costs a minute and a half
TABLES = ("staging", "features", "features_as_known", "labels", "training")
LONG_BEFORE = datetime.fromisoformat("2024-01-01")
# The process of a daemon that is killed in the n-th commit of its life, whatever table that is of.
KILLED = """
import logging, os, signal, sys, warnings
from pathlib import Path
import backfill_assets.kernel.tables.store as store_module
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.daemon import Daemon
from backfill_assets_tests.homes import opened_home

warnings.simplefilter("ignore")
left = int(sys.argv[3])
real = store_module.commit_files

def commit(*args):
    global left
    left -= 1
    if left == 0 and sys.argv[4] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    version = real(*args)
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return version

store_module.commit_files = commit
with opened_home(sys.argv[2]) as instance:
    Daemon(open_lake(Path(sys.argv[1])), instance).settle()
"""


@pytest.fixture
def spark_server() -> None:
    """Says that the test starts a server of its own, for processes that are killed."""


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with opened_home(tmp_path) as made:
        yield made


def replay(root: Path, instance: dg.DagsterInstance, more: str = SHARED) -> Replay:
    told = Replay(make_world(root / "lake", RULES, more=more), instance)
    told.daemon.jump = jumps()
    return told


@pytest.fixture(autouse=True)
def jumping_clock() -> Iterator[None]:
    """Whoever looks at the clock sees another time: seconds, hours or years ahead or behind."""
    with set_to(Jumping()):
        yield


def usable(rows: list[Row]) -> list[Row]:
    """Deliveries that no rule sets aside, each with a number of its own, so that landing one again
    is a duplicate."""
    return [r for r in rows if r["op"] == "delete" or r["event_ts"].date() >= START]


@pytest.mark.parametrize("seed", SEEDS)
def test_landings_in_random_order_rewrite_what_changed_and_end_as_if_built_at_once(
    spark: "SparkSession", tmp_path: Path, instance: dg.DagsterInstance, seed: int
) -> None:
    told = replay(tmp_path, instance)
    days = by_arrival(usable(unruly(seed, START, days=6, rows=45, keys=15)))
    order = random.Random(seed).sample(sorted(days), len(days))
    half = len(order) // 2
    for batch in (
        order[:half],
        order[half:-1],
        order[-1:],
        order[:1],
    ):  # the first again, as another file
        for day in batch:
            told.put(days[day], "jsonl")
        told.settle()
    assert told.steps[-1].changed == set(), "what landed twice counts once"
    rows = [r for mine in days.values() for r in mine]
    at_once = make_world(tmp_path / "at once", RULES)
    land(at_once, "all.jsonl", rows)
    at_once.backfill(span(RULES))
    for name in TABLES:
        assert told.world.content(name) == at_once.content(name), name
        assert told.world.content(name) == ordered(expected(rows, RULES)[name]), name
    assert day_writes(told.world) == changes_of_content(told.world), (
        "a day is written iff its content changed"
    )
    assert told.daemon.swallowed == []


def day_writes(world: World) -> Counter[str]:
    """Per table how many days its data commits rewrote, by the files they added and removed."""
    counted: Counter[str] = Counter()
    for name in TABLES:
        for path in (world.root / "tables" / name / "_delta_log").glob("*.json"):
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            moved = [
                a.get("add") or a.get("remove") for a in actions if "add" in a or "remove" in a
            ]
            counted[name] += len({tuple(m["partitionValues"].values()) for m in moved})
    return counted


def changes_of_content(world: World) -> Counter[str]:
    """Per table how often a receipt gave a day another content than the receipt before it."""
    counted: Counter[str] = Counter()
    for name in TABLES:
        last: dict[date, tuple[int, str]] = {}
        for commit in commits(world.root / "tables" / name, -1):
            for day, entry in (commit.receipt.days if commit.receipt else {}).items():
                said = (entry.rows, entry.fingerprint)
                counted[name] += said[0] + last.get(day, (0, ""))[0] > 0 and said != last.get(day)
                last[day] = said
    return counted


def test_a_delivery_that_never_becomes_current_ends_the_cascade_at_staging(
    spark: "SparkSession", tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    told = replay(tmp_path, instance)
    told.put([delivery(n, f"2024-03-0{n} 10:00", key=f"k{n}") for n in range(1, 8)], "jsonl")
    told.settle()
    told.put(
        [delivery(9, "2024-03-07 12:00", "2024-03-02 09:00", "k2", version_ts=LONG_BEFORE)], "jsonl"
    )
    step = told.settle()
    assert step.changed == set()
    made = [run.split(" ")[0] for run in step.runs]
    assert made == ["scan", "raw", "staging"], made


def test_a_daemon_killed_again_and_again_loses_nothing_and_doubles_nothing(
    spark_server: None, tmp_path: Path, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    told = replay(tmp_path, instance, "")
    stop = partial(stop_server, told.world.root, force=True)
    request.addfinalizer(stop)
    rows = usable(unruly(7, START, days=6, rows=40, keys=12))
    for day, mine in by_arrival(rows).items():
        land(told.world, f"{day}.jsonl", mine)
    for count, moment in ((1, "before"), (2, "after"), (2, "before"), (1, "after")):
        with pytest.raises(AssertionError, match="exit code -9"):
            run_python(KILLED, told.world.root, tmp_path, str(count), moment)
    run_python(KILLED, told.world.root, tmp_path, "1000", "never")
    want = expected(rows, RULES)
    for name in TABLES:
        assert told.world.content(name) == ordered(want[name]), name
    dead = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    assert dead == []


def release_late_rows_of_the_first_days(root: Path) -> None:
    """Run `replay-late`, without its note in vain, then with it."""
    from click.testing import CliRunner

    from backfill_assets.cli.app import app

    span = ["--from", "2024-03-01", "--to", "2024-03-03"]
    command = ["--lake", str(root), "replay-late", *span]
    assert CliRunner().invoke(app, command).exit_code == 2, "a note is asked for"
    done = CliRunner().invoke(app, [*command, "--note", "the sender was down"])
    assert done.exit_code == 0, done.output
    assert "2024-03-02  2024-03-07     1" in done.output
    assert "1 row(s) that came too late count now" in done.output


def test_rows_beyond_the_window_are_kept_apart_and_shown_until_they_are_released_with_a_note(
    spark: "SparkSession",
    tmp_path: Path,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = replay(tmp_path, instance)
    path = told.world.root / "lake.toml"
    path.write_text(
        path.read_text().replace("[lateness]", '[lateness]\nbeyond = "quarantine"\nwindow_days = 2')
    )
    on_time = [delivery(n, f"2024-03-0{n} 10:00", key=f"k{n}") for n in range(1, 8)]
    beyond = delivery(20, "2024-03-07 12:00", "2024-03-02 09:00", "late")
    within = delivery(21, "2024-03-07 12:00", "2024-03-06 09:00", "just in time")
    land(told.world, "rows.jsonl", [*on_time, beyond, within])
    told.daemon.settle()
    assert {r["event_key"] for r in told.world.content("too_late")} == {"late"}
    assert {r["event_key"] for r in told.world.content("staging")} == {
        *(f"k{n}" for n in range(1, 8)),
        "just in time",
    }
    before = files_of(told.world)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    make_home(tmp_path)
    release_late_rows_of_the_first_days(told.world.root)
    assert told.world.content("too_late") == []
    assert told.world.content("staging") == ordered(
        expected([*on_time, beyond, within], RULES)["staging"]
    )
    after = files_of(told.world)
    assert {d for d in after if after[d] != before.get(d)} == {date(2024, 3, 2)}
    said = [
        c.receipt
        for c in commits(told.world.root / "tables" / "staging", -1)
        if c.receipt is not None
    ][-1]
    assert (said.reason, said.note) == ("replay-late", "the sender was down")
    assert told.daemon.settle() == []


def test_rows_that_come_too_late_after_a_release_of_their_days_wait_for_one_of_their_own(
    spark: "SparkSession", tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    told = replay(tmp_path, instance)
    path = told.world.root / "lake.toml"
    path.write_text(
        path.read_text().replace("[lateness]", '[lateness]\nbeyond = "quarantine"\nwindow_days = 2')
    )

    def late(seq: int, key: str) -> Row:
        return delivery(seq, "2024-03-07 12:00", "2024-03-02 09:00", key)

    def keys(table: str) -> set[str]:
        return {r["event_key"] for r in told.world.content(table)}

    on_time = [delivery(n, f"2024-03-0{n} 10:00", key=f"k{n}") for n in range(1, 8)]
    land(told.world, "rows.jsonl", [*on_time, late(20, "seen")])
    told.daemon.settle()
    for step, looked_at in enumerate(({"seen"}, {"unseen"})):
        assert keys("too_late") == looked_at
        release_late_rows(
            LakeSession(told.lake), DayRange(START, date(2024, 3, 4)), "I looked at them"
        )
        land(
            told.world,
            f"later {step}.jsonl",
            [late(21 + step, "unseen" if step == 0 else "last"), late(20, "seen")],
        )
        told.daemon.settle()
        assert keys("staging") == {
            *(f"k{n}" for n in range(1, 8)),
            "seen",
            *(looked_at if step else ()),
        }
    assert keys("too_late") == {"last"}
    assert keys("raw") == {*(f"k{n}" for n in range(1, 8)), "seen", "unseen"}


def files_of(world: World) -> dict[date, set[str]]:
    from backfill_assets.kernel.tables.home import open_lake
    from backfill_assets_tests.lakes import data_files

    return data_files(open_lake(world.root), "staging")
