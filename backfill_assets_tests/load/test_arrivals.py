"""The ledger `arrivals` is a function of what is loaded: no order of loading, reloading or removing shows in it.

Lives here: the ledger after every step of random loading orders, against Python. Does not live here: what staging makes
of it (`end_to_end.test_invariance`).
"""

import random
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.load.scan import accept
from backfill_assets_tests.end_to_end.worlds import World, by_arrival, land, make_world
from backfill_assets_tests.lakes import death_before_the_ledger
from backfill_assets_tests.oracle import Row, Rules, arrivals_of, delivery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-20"), date(2024, 3, 20), early_tolerance_days=3)
ROWS = [
    delivery(1, "2024-03-01 10:00", key="stays"),
    delivery(2, "2024-03-02 10:00", key="stays", value=2),
    delivery(3, "2024-03-01 11:00", key="moves"),
    delivery(4, "2024-03-04 11:00", "2024-03-02 09:00", key="moves"),
    delivery(5, "2024-03-05 11:00", "2024-03-01 09:00", key="moves"),
    delivery(6, "2024-03-03 12:00", key="moves", op="delete", event_ts=datetime.fromisoformat("2024-03-09")),
    delivery(7, "2024-03-06 12:00", key="only deleted", op="delete", event_ts=None, entity=None, value=None, flag=None),
    delivery(8, "2024-03-02 12:00", key="deleted first", op="delete"),
    delivery(9, "2024-03-07 12:00", "2024-03-02 12:00", key="deleted first"),
    delivery(10, "2024-03-05 12:00", "2024-03-07 00:00", key="early"),
    delivery(11, "2024-03-07 13:00", "2024-03-07 00:00", key="early", entity=None),
]


def ledger(world: World) -> dict[tuple[date, date], tuple[Any, ...]]:
    return {
        (r["arrival_date"], r["event_date"]): (r["deliveries"], r["keys"], r["moved_keys"], r["greatest_lateness_s"])
        for r in world.content("arrivals")
    }


def only(day: date) -> DayRange:
    return DayRange(day, day + ONE_DAY)


@pytest.mark.parametrize("seed", [1])
def test_after_every_load_in_any_order_the_ledger_says_what_python_counts_of_the_loaded_days(
    spark: "SparkSession", tmp_path: Path, seed: int
) -> None:
    world, days = make_world(tmp_path, RULES), by_arrival(ROWS)
    for day, rows in days.items():
        land(world, f"{day}.jsonl", rows)
    loaded: list[Row] = []
    for day in random.Random(seed).sample(sorted(days), len(days)):
        world.backfill(only(day), "raw")
        loaded += days[day]
        assert ledger(world) == arrivals_of(loaded)
    at_once = make_world(tmp_path / "at once", RULES)
    for day, rows in days.items():
        land(at_once, f"{day}.jsonl", rows)
    at_once.backfill(DayRange(RULES.start, RULES.last_day), "raw")
    assert world.content("arrivals") == at_once.content("arrivals"), "fingerprints too"


def test_a_file_that_is_given_up_takes_its_days_out_of_the_ledger_and_of_those_its_keys_touched(
    spark: "SparkSession", tmp_path: Path
) -> None:
    world, days = make_world(tmp_path, RULES), by_arrival(ROWS)
    paths = {day: land(world, f"{day}.jsonl", rows) for day, rows in days.items()}
    everything = DayRange(RULES.start, RULES.last_day)
    world.backfill(everything, "raw")
    mover = date(2024, 3, 4)
    paths[mover].unlink()
    lake_session, _ = world.open()
    accept(lake_session, "never sent")
    world.backfill(everything, "raw")
    assert ledger(world) == arrivals_of([r for r in ROWS if r["arrival_ts"].date() != mover])
    land(world, paths[mover].name, days[mover])
    world.backfill(everything, "raw")
    assert ledger(world) == arrivals_of(ROWS)


def test_a_load_that_died_before_the_ledger_is_completed_by_the_next_one(spark: "SparkSession", tmp_path: Path) -> None:
    world, days = make_world(tmp_path, RULES), by_arrival(ROWS)
    for day, rows in days.items():
        land(world, f"{day}.jsonl", rows)
    with death_before_the_ledger():
        world.backfill(DayRange(date(2024, 3, 1), date(2024, 3, 4)), "raw")
    assert world.states()["raw"] == {"stale"}
    world.backfill(only(date(2024, 3, 5)), "raw")
    loaded = [r for r in ROWS if r["arrival_ts"].day <= 3 or r["arrival_ts"].day == 5]
    assert ledger(world) == arrivals_of(loaded)
    assert world.states()["raw"] == {"fresh"}
