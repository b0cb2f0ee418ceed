"""Worlds: hundreds of small random lakes in one frame of deliveries, so that one Spark job tries
them all. Here: random deliveries with few keys, entities, days and instants, so that everything
collides, and the rules to try them under. Not here: what they must come to (`oracle`). Keys and
entities begin with the number of their case, so that cases never meet and a difference names its
own."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import Phase, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets_tests.pipeline.oracle import Rules

# A deadline measures the machine. Shrinking a seed leads nowhere: the comparison names the smallest
# case by itself.
TRIED_IN_SPARK = settings(deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
CASES = 300
EVENT_DAYS = 9
FIRST = date(2024, 2, 24)  # a leap day lies within
INSTANT = pa.timestamp("us")
# Midnight, its neighbours on both sides, and two plain times: bounds are where windows and cuts go
# wrong.
TIMES = (
    timedelta(0),
    timedelta(0),
    timedelta(microseconds=-1),
    timedelta(microseconds=1),
    timedelta(hours=7),
    timedelta(hours=19, minutes=30),
)
ENTITIES = ("A", "A", "A", "B", "B", "NA", None)
RAW = pa.schema(
    [
        ("seq", pa.int64()),
        ("arrival_ts", INSTANT),
        ("version_ts", INSTANT),
        ("event_ts", INSTANT),
        ("event_key", pa.string()),
        ("op", pa.string()),
        ("entity", pa.string()),
        ("value", pa.int64()),
        ("flag", pa.int32()),
        ("source_file", pa.string()),
        ("arrival_date", pa.date32()),
    ]
)


@dataclass(frozen=True)
class World:
    """Deliveries (Arrow, zone-less times), the rules to try them under, the ranges to compute the
    days in, how many partitions the input frames have, and whether those hold rows of days that
    nobody asked for, too.
    """

    raw: Any = field(repr=False)
    rules: Rules
    parts: tuple[DayRange, ...]
    partitions: int
    with_others: bool

    def of_case(self, case: str) -> list[dict[str, Any]]:
        """The deliveries of one case, as they arrived."""
        rows: list[dict[str, Any]] = self.raw.to_pylist()
        mine = [r for r in rows if r["event_key"].split("/")[0] == case]
        return sorted(mine, key=lambda r: (r["arrival_ts"], r["seq"]))


def _instant(random: Random, latest_day: int, grace_hours: int) -> datetime:
    """An instant, often exactly a midnight or a cut, or a microsecond beside one."""
    start = datetime.combine(FIRST, time()) + ONE_DAY * random.randrange(latest_day)
    return start + random.choice(TIMES) + timedelta(hours=random.choice((0, grace_hours)))


def _case(random: Random, case: int, grace_hours: int) -> Iterator[dict[str, Any]]:
    keys = random.randint(1, 4)
    for _ in range(random.randint(1, 9)):
        arrival = _instant(random, EVENT_DAYS + 4, grace_hours)
        version = arrival if random.random() < 0.6 else _instant(random, EVENT_DAYS, 0)
        deleted = random.random() < 0.2
        entity = random.choice(ENTITIES)
        event = (
            datetime.combine(FIRST, time())
            + ONE_DAY * random.randrange(EVENT_DAYS)
            + random.choice(TIMES)
        )
        yield {
            "arrival_ts": arrival,
            "version_ts": version,
            "event_ts": None if deleted and random.random() < 0.5 else event,
            "event_key": f"{case}/k{random.randrange(keys)}",
            "op": "delete" if deleted else "upsert",
            "entity": None if entity is None else f"{case}/{entity}",
            "value": None if deleted else random.randint(-3, 3),
            "flag": None if deleted else random.randint(0, 1),
            "source_file": "file",
            "arrival_date": arrival.date(),
        }


def _deliveries(seed: int, grace_hours: int) -> Any:
    random = Random(seed)
    rows = [row for case in range(CASES) for row in _case(random, case, grace_hours)]
    numbers = random.sample(
        range(len(rows)), len(rows)
    )  # says nothing about the order of arrival, but in ties
    return pa.Table.from_pylist(
        [{**row, "seq": seq} for row, seq in zip(rows, numbers, strict=True)], RAW
    )


def _parts(days: DayRange, cuts: set[int]) -> tuple[DayRange, ...]:
    bounds = [0, *sorted(c for c in cuts if c < len(days)), len(days)]
    return tuple(
        DayRange(days.start + ONE_DAY * a, days.start + ONE_DAY * b) for a, b in pairwise(bounds)
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A world whose days begin up to three days late and are computed in one range or two side by
    side."""
    days = DayRange(
        FIRST + ONE_DAY * draw(st.integers(0, 3)), FIRST + ONE_DAY * draw(st.integers(7, 14))
    )
    windows = sorted(draw(st.tuples(st.integers(1, 6), st.integers(1, 6))))
    start = datetime.combine(FIRST, time())
    rules = Rules(
        days=days,
        windows_days=(windows[0], windows[1]),
        grace_hours=draw(st.sampled_from((0, 0, 1, 7, 24, 30))),
        horizon_days=draw(st.integers(1, 5)),
        maturity_days=draw(st.integers(0, 3)),
        measure=draw(st.sampled_from(("events", "flag", "value"))),
        rule=draw(st.sampled_from(("any", "rise"))),
        frontier=start
        + ONE_DAY * draw(st.integers(0, 16))
        + timedelta(hours=draw(st.sampled_from((0, 12)))),
    )
    parts = _parts(days, draw(st.sets(st.integers(1, 13), max_size=1)))
    raw = _deliveries(draw(st.integers(0, 2**32)), rules.grace_hours)
    return World(raw, rules, parts, draw(st.integers(1, 4)), draw(st.booleans()))


def aware(instant: datetime) -> datetime:
    """A zone-less instant of the oracle, as the package has them."""
    return instant.replace(tzinfo=UTC)
