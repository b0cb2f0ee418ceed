"""The property of the ledger, on Spark: after any loads in any order it is what one load of
everything would write.

Lives here: random worlds (keys that move, are deleted, come late, early and again), days loaded in
any order, days that are resent with other rows, loads that die before their last commit. Does not
live here: worlds by hand (`intake.test_arrivals`), and what staging makes of the ledger
(`test_invariance`). One world holds hundreds of keys, so that a handful of loads tries them all.
"""

import os
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.intake import arrivals
from backfill_assets.intake.scan import withdraw_disputed
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, midnight
from backfill_assets_tests.clocks import Jumping, set_to
from backfill_assets_tests.end_to_end.worlds import LONG_AGO, World, land, make_world
from backfill_assets_tests.lakes import death_before_the_ledger
from backfill_assets_tests.oracle import Row, Rules, arrivals_of, delivery
from backfill_assets_tests.pipeline.worlds import TRIED_IN_SPARK

pytestmark = pytest.mark.usefixtures("spark")
FIRST = date(
    2024, 2, 27
)  # a month ends and a leap day lies within: `arrivals` is laid out by month
DAYS, KEYS = 5, 150
RULES = Rules(
    FIRST, datetime.fromisoformat("2024-04-01"), FIRST + ONE_DAY * 9, early_tolerance_days=3
)
AT_ONCE = DayRange(FIRST, FIRST + ONE_DAY * DAYS)
LATENESS_DAYS = (0, 0, 1, 2, 3, 4, -1, -2)
DELETED_SHARE, KEPT_SHARE, DIES_SHARE = 0.25, 0.6, 0.3


@dataclass
class Worlds:
    """Deliveries by chance, by arrival day; each resend and each key by the same chance."""

    chance: Random
    made: int = 0

    def delivery(self, key: str, arrival: int) -> Row:
        self.made += 1
        at = str(
            midnight(FIRST + ONE_DAY * arrival).replace(tzinfo=None)
            + timedelta(hours=self.chance.randrange(24))
        )
        if self.chance.random() < DELETED_SHARE:
            ignored = self.chance.choice([None, datetime.fromisoformat("2024-02-28")])
            facts: dict[str, Any] = {
                "event_ts": ignored,
                "entity": None,
                "value": None,
                "flag": None,
            }
            return delivery(self.made, at, key=key, op="delete", **facts)
        event = max(0, arrival - self.chance.choice(LATENESS_DAYS))
        return delivery(
            self.made, at, str(FIRST + ONE_DAY * event), key, value=self.chance.randrange(9)
        )

    def days(self) -> dict[int, list[Row]]:
        days: dict[int, list[Row]] = {a: [] for a in range(DAYS)}
        for key in range(KEYS):
            for _ in range(self.chance.randint(1, 4)):
                arrival = self.chance.randrange(DAYS)
                days[arrival].append(self.delivery(f"k{key}", arrival))
        return days

    def resent(self, rows: list[Row], arrival: int) -> list[Row]:
        """Some of the rows, and new ones of any keys: keys vanish, move, and appear."""
        kept = [r for r in rows if self.chance.random() < KEPT_SHARE]
        return kept + [self.delivery(f"k{self.chance.randrange(KEYS)}", arrival) for _ in range(20)]


def put(world: World, arrival: int, rows: list[Row], version: int) -> None:
    path = land(world, f"{arrival}.jsonl", rows)
    os.utime(path, (LONG_AGO + version, LONG_AGO + version))


def load(world: World, days: DayRange, *, dies: bool = False) -> None:
    with set_to(Jumping()), death_before_the_ledger() if dies else nullcontext():
        world.backfill(days, "raw")


def said(world: World) -> dict[tuple[date, date], tuple[Any, ...]]:
    names = ("deliveries", "keys", "moved_keys", "greatest_lateness_s")
    return {
        (r["arrival_date"], r["event_date"]): tuple(r[n] for n in names)
        for r in world.content("arrivals")
    }


@settings(TRIED_IN_SPARK, max_examples=2)
@given(
    st.integers(0, 2**32),
    st.permutations(
        [DayRange(FIRST + ONE_DAY * a, FIRST + ONE_DAY * b) for a, b in ((0, 2), (2, 3), (3, DAYS))]
    ),
    st.sampled_from([arrivals.WHOLE_SHARE, 10.0]),
)
def test_after_any_loads_in_any_order_the_ledger_is_what_one_load_of_everything_writes(
    tmp_path_factory: pytest.TempPathFactory, seed: int, order: list[DayRange], share: float
) -> None:
    worlds = Worlds(Random(seed))
    days, world = worlds.days(), make_world(tmp_path_factory.mktemp("orders"), RULES, as_of=False)
    for arrival, rows in days.items():
        put(world, arrival, rows, 0)
    loaded: set[int] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            arrivals, "WHOLE_SHARE", share
        )  # above 1: never everything, always what the load touched
        for step, chunk in enumerate(order):
            load(world, chunk, dies=step < len(order) - 1 and worlds.chance.random() < DIES_SHARE)
            loaded |= {(d - FIRST).days for d in chunk}
        assert said(world) == arrivals_of([r for a in loaded for r in days[a]])
        again = (order[0].start - FIRST).days
        days[again] = worlds.resent(days[again], again)
        put(world, again, days[again], 1)
        assert withdraw_disputed(world.open()[0], "resent") == [f"{again}.jsonl"]
        load(world, DayRange(order[0].start, order[0].start + ONE_DAY))
    at_once = make_world(tmp_path_factory.mktemp("at_once"), RULES, as_of=False)
    for arrival, rows in days.items():
        put(at_once, arrival, rows, 0)
    load(at_once, AT_ONCE)
    assert said(world) == arrivals_of([r for rows in days.values() for r in rows])
    assert world.content("arrivals") == at_once.content("arrivals"), "fingerprints too"
    assert world.content("raw") == at_once.content("raw")
