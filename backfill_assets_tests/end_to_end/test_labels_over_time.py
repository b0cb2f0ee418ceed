"""Labels as time goes on: days mature when the frontier passes, training takes them, and a late event flips a label.

Tested here: with only the sensors acting, tables against an independent computation at every step. Not tested here:
when a label is mature (`core.test_frontier`).
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets_tests.end_to_end.replay import Replay
from backfill_assets_tests.end_to_end.worlds import make_world
from backfill_assets_tests.homes import opened_home
from backfill_assets_tests.oracle import Row, Rules, delivery, expected, ordered

pytestmark = pytest.mark.on_spark("late deliveries on the engine that users have by default")

START = date(2024, 3, 1)
# Horizon 3, maturity 1: a label of day d is mature from the frontier d + 5 on.
RULES = Rules(START, datetime.fromisoformat("2024-03-15"), date(2024, 3, 14), early_tolerance_days=9)


@pytest.fixture
def told(spark: object, tmp_path: Path) -> Iterator[Replay]:
    with opened_home(tmp_path) as instance:
        yield Replay(make_world(tmp_path / "lake", RULES, as_of=False), instance)


def days_of_b(first: int, last: int) -> list[Row]:
    """Entity B has an event every day."""
    return [delivery(n, f"2024-03-{n:02} 10:00", key=f"b{n}", entity="B") for n in range(first, last + 1)]


def states(told: Replay) -> dict[date, set[str]]:
    """The states of the labels of each day."""
    found: dict[date, set[str]] = {}
    for row in told.world.content("labels"):
        found.setdefault(row["label_date"], set()).add(row["label_state"])
    return found


def as_computed(told: Replay, last_arrival: int) -> None:
    """Labels and training equal the independent computation with the frontier after that arrival day."""
    frontier = datetime.fromisoformat(f"2024-03-{last_arrival + 1:02}")
    want = expected(told.landed, replace(RULES, until=frontier, last_day=date(2024, 3, last_arrival)))
    for table in ("labels", "training"):
        assert told.world.content(table) == ordered(want[table]), table


def flips(told: Replay, day: date) -> object:
    """The number that the newest materialization of the day's labels shows."""
    wanted = dg.AssetRecordsFilter(dg.AssetKey("labels"), asset_partitions=[str(day)])
    (record,) = told.instance.fetch_materializations(wanted, limit=1).records
    assert record.asset_materialization
    return record.asset_materialization.metadata["backfill_assets/label_flips"].value


def test_labels_mature_as_the_frontier_moves_and_a_late_event_flips_them_in_training_too(told: Replay) -> None:
    told.put([*days_of_b(1, 5), delivery(100, "2024-03-01 11:00", key="a1", entity="A")], "jsonl")
    told.world.backfill(DayRange(START, START + ONE_DAY * 5))
    as_computed(told, 5)
    assert {d for d, s in states(told).items() if s == {"mature"}} == {START}

    told.put(days_of_b(6, 7), "jsonl")
    told.settle()
    as_computed(told, 7)
    assert {d for d, s in states(told).items() if s == {"mature"}} == {START + ONE_DAY * n for n in range(3)}
    of_a = {r["label_date"]: r["label"] for r in told.world.content("labels") if r["entity"] == "A"}
    assert (of_a[START], of_a[START + ONE_DAY]) == (0, 0), "nothing of A is known after the first day"
    in_training = {r["feature_date"] for r in told.world.content("training")}
    assert in_training == {START + ONE_DAY * n for n in range(3)}

    told.put([delivery(200, "2024-03-08 09:00", "2024-03-03 09:00", "a2", entity="A")], "jsonl")
    told.settle()
    as_computed(told, 8)
    of_a = {r["label_date"]: r["label"] for r in told.world.content("labels") if r["entity"] == "A"}
    assert (of_a[START], of_a[START + ONE_DAY], of_a[START + ONE_DAY * 2]) == (1, 1, 0)
    assert (flips(told, START), flips(told, START + ONE_DAY)) == (1, 1)
    trained = {(r["entity"], r["feature_date"]): r["label"] for r in told.world.content("training")}
    assert (trained["A", START], trained["A", START + ONE_DAY]) == (1, 1)
