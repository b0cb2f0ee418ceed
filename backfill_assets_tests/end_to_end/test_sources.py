"""Two sources in one lake: events, and a truth that lands apart from them and later, from which
labels are made.

Tested here: frontiers, ledgers and rebuilds of each source apart from the other, and the labels by
another engine. Not tested here: the commands on such a lake (`test_sources_commands`), and the
frontier of a table by itself (`kernel.core`).
"""

import json
import random
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from backfill_assets.cli.common import Overrides
from backfill_assets.cli.progress import RunOutcome
from backfill_assets.dagster.run_requests import joined_ranges
from backfill_assets.intake.scan import scan_all
from backfill_assets.kernel.core.days import ONE_DAY, midnight
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land_bytes

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.in_turn("sources"),
    pytest.mark.usefixtures("spark"),
]
TOML = f'''start_date = 2024-03-01
[sources.events]
files = "landing/events/*.jsonl"
format = "jsonl"
select = """seq, cast(arrived AS timestamp) AS arrival_ts, cast(happened AS timestamp) AS event_ts, key AS event_key,
 who AS entity, 1 AS value, 0 AS flag"""
[sources.truth]
files = "landing/truth/*.jsonl"
format = "jsonl"
select = """seq, cast(arrived AS timestamp) AS arrival_ts, cast(happened AS timestamp) AS event_ts, key AS event_key,
 who AS entity, bad"""
[sources.truth.payload]
entity = "STRING"
bad = "BIGINT NOT NULL"
[features]
source = "events"
windows_days = [1, 2]
[labels]
source = "truth"
label = "sum_ahead(bad) > 0"
horizon_days = 1
maturity_days = 0
{SHARED}'''
EVENTS_LAST = date(2024, 3, 6)


def day(number: int) -> date:
    return date(2024, 3, number)


def row(
    seq: int, arrived: int, happened: int, key: str, who: str, **payload: Any
) -> dict[str, Any]:
    """A landed row of a day of arrival and a day on which it happened, in March."""
    return {
        "seq": seq,
        "arrived": f"{day(arrived)} 12:00:00",
        "happened": f"{day(happened)} 10:00:00",
        "key": key,
        "who": who,
        **payload,
    }


FILES: dict[str, Sequence[dict[str, Any]]] = {
    **{
        f"events/{n}": [row(1, n, n, f"a{n}", "A"), row(2, n, n, f"b{n}", "B")] for n in range(1, 7)
    },
    "truth/4": [
        row(1, 4, 2, "t1", "A", bad=1),
        row(2, 4, 3, "t2", "B", bad=0),
        row(3, 4, 3, "t9", "B", bad=None),
    ],
    "truth/10": [row(1, 10, 5, "t3", "A", bad=2), row(2, 10, 6, "t4", "B", bad=1)],
    "truth/12": [row(1, 12, 3, "t2", "B", bad=1)],  # a correction that comes late
}
EXPECTED = """
WITH e AS (SELECT DISTINCT who, CAST(happened AS DATE) AS d FROM read_json('{root}/landing/events/*.jsonl')),
asked AS (SELECT DISTINCT who, CAST(d + CAST(n AS INT) AS DATE) AS day FROM e, range(2) r(n)),
t AS (SELECT who, CAST(happened AS DATE) AS d, arg_max(bad, arrived) AS bad
      FROM read_json('{root}/landing/truth/*.jsonl') WHERE bad IS NOT NULL GROUP BY key, who, d)
SELECT asked.who, day, CAST(coalesce(sum(bad), 0) > 0 AS INTEGER)
FROM asked LEFT JOIN t ON t.who = asked.who AND t.d = asked.day + 1
WHERE day <= DATE '2024-03-06' GROUP BY 1, 2"""


def world_of(root: Path) -> World:
    root.mkdir()
    (root / "lake.toml").write_text(TOML)
    return World(root)


def arrive(world: World, *names: str) -> None:
    """The files land, and everything that needs making is made."""
    for name in names:
        land_bytes(
            world, f"{name}.jsonl", "".join(json.dumps(r) + "\n" for r in FILES[name]).encode()
        )
    scan_all(world.open()[0])
    while True:
        found = world.look()
        ready = rebuild_needs(found, {}).ready
        name, days = next(((n, d) for n, d in ready.items() if d), ("", frozenset()))
        if not days:
            return
        for part in joined_ranges(found, name, days):
            world.backfill(part, name)


def versions_of(world: World) -> dict[str, int]:
    return {n: t.version for n, t in world.look().view.tables.items()}


def written(world: World, before: dict[str, int]) -> dict[str, set[date]]:
    """Per table the days that commits since then name with another content."""
    found: dict[str, set[date]] = {}
    store = open_lake(world.root).store
    for name, version in before.items():
        commits = [c for c in store.commits(name) if c.version > version and c.receipt]
        days = {d for c in commits if c.receipt for d in c.receipt.days}
        if commits:
            found[name] = days
    return found


def of_days(found: States, table: str) -> dict[int, State]:
    return {n: found.of(table, day(n)) for n in range(1, 7)}


@pytest.fixture(scope="module")
def story(spark: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The lake as it was after each landing."""
    world = world_of(tmp_path_factory.mktemp("two") / "lake")
    told: dict[str, Any] = {"world": world}
    arrive(world, *(f"events/{n}" for n in range(1, 7)))
    told["events alone"] = world.look()
    for number in (4, 10, 12):
        before = versions_of(world)
        arrive(world, f"truth/{number}")
        told[f"truth {number}"] = world.look()
        told[f"written {number}"] = written(world, before)
    return told


def test_features_are_not_held_back_by_a_truth_that_has_not_landed(story: dict[str, Any]) -> None:
    found: States = story["events alone"]
    assert (
        found.frontier("features")
        == found.frontier("features_as_known")
        == midnight(EVENTS_LAST + ONE_DAY)
    )
    assert found.frontier("labels") is found.frontier("training") is None
    assert set(of_days(found, "features_as_known").values()) == {State.FRESH}
    assert (
        set(of_days(found, "labels").values())
        == set(of_days(found, "training").values())
        == {State.PENDING}
    )


def test_labels_mature_when_the_frontier_of_the_truth_passes_and_training_waits_for_both(
    story: dict[str, Any],
) -> None:
    first, second = story["truth 4"], story["truth 10"]
    assert first.frontier("labels") == first.frontier("raw_truth") == midnight(day(5))
    assert second.frontier("labels") == second.frontier("raw_events") == midnight(day(7))
    assert second.frontier("raw_truth") == midnight(day(11))
    pending = {n for n, state in of_days(first, "labels").items() if state is State.PENDING}
    assert (
        pending
        == {n for n, state in of_days(first, "training").items() if state is State.PENDING}
        == {5, 6}
    )
    assert set(of_days(second, "training").values()) == {State.FRESH}


def test_a_late_row_of_the_truth_rebuilds_the_days_it_touches_and_no_feature(
    story: dict[str, Any],
) -> None:
    touched = {name: days for name, days in story["written 12"].items() if "arrivals" not in name}
    assert touched == {
        "raw_truth": {day(12)},
        "staging_truth": {day(3), day(11), day(12)},
        "labels": {day(2), day(3)},
        "training": {day(2)},
    }
    assert not any(
        "events" in name or "features" in name
        for n in (4, 10, 12)
        for name in story[f"written {n}"]
    )


def test_whatever_the_order_of_landing_the_tables_are_those_of_one_load(
    story: dict[str, Any], tmp_path: Path
) -> None:
    names, at_once = list(FILES), world_of(tmp_path / "once")
    arrive(at_once, *names)
    random.Random(13).shuffle(names)
    by_steps = world_of(tmp_path / "steps")
    arrive(by_steps, *names[:5])
    arrive(by_steps, *names[5:])
    one = {**story["world"].contents(), "x": story["world"].content("arrivals_truth")}
    for other in (at_once, by_steps):
        assert {**other.contents(), "x": other.content("arrivals_truth")} == one
    assert all(set(s) <= {"fresh"} for s in by_steps.states().values())


def test_a_source_whose_select_is_broken_hides_nothing_of_the_others_and_holds_none_up(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path / "lake")
    toml = world.root / "lake.toml"
    toml.write_text(TOML.replace("who AS entity, bad", "who AS entity"))
    for name in ("events/1", "truth/4"):
        land_bytes(
            world, f"{name}.jsonl", "".join(json.dumps(r) + "\n" for r in FILES[name]).encode()
        )

    def work(_known: KnownStates, asked: Work) -> RunOutcome:
        for name in asked.tables:
            world.backfill(asked.days, name)
        return RunOutcome("run", True, (), "", 0.0)

    told = run("scan", "--lake", world.root)
    assert "new        events:1.jsonl: 2 rows" in told.stdout
    assert (told.exit_code, told.stderr.count("Error: [sources.truth]")) == (2, 1), told.output
    land_bytes(
        world, "events/2.jsonl", "".join(json.dumps(r) + "\n" for r in FILES["events/2"]).encode()
    )
    told = run("catch-up", "--json", "--lake", world.root, overrides=Overrides(work=work))
    assert (told.exit_code, told.stderr.count("Error: [sources.truth]")) == (1, 1), told.output
    (why,) = json.loads(told.stdout)["unscanned"]
    assert why.startswith("[sources.truth]")
    assert len(world.content("raw_events")) == 4


def test_labels_are_what_another_engine_says_of_the_landed_files(story: dict[str, Any]) -> None:
    world: World = story["world"]
    found = {(r["entity"], r["label_date"], r["label"]) for r in world.content("labels")}
    wanted = duckdb.connect().execute(EXPECTED.format(root=world.root)).fetchall()
    assert found == set(wanted)
    assert {r["label"] for r in world.content("training")} == {0, 1}
    mature = {r["label_date"] for r in world.content("labels") if r["label_state"] == "mature"}
    assert mature == {day(n) for n in range(1, 6)}
