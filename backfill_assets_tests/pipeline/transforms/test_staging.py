"""Staging: who is current when, against an oracle that ranks every delivery of every key.

Tested here: `pipeline.transforms.staging`. Not tested here: which raw days are read for it (`load.derived`).
"""

import itertools
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.pipeline.transforms.staging import staging
from backfill_assets_tests.pipeline.built_in import contract
from backfill_assets_tests.pipeline.frames import Row, assert_same, in_parts, rows_of, to_spark
from backfill_assets_tests.pipeline.oracle import answers
from backfill_assets_tests.pipeline.worlds import FIRST, RAW, TRIED_IN_SPARK, World, worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

CONTRACT = contract("staging")
NOON = datetime(FIRST.year, FIRST.month, FIRST.day, 12)  # noqa: DTZ001 - Arrow's plain times, meant as UTC


@settings(TRIED_IN_SPARK, max_examples=5)
@given(worlds())
def test_rows_are_those_of_the_oracle_whatever_the_ranges_and_the_partitions(
    spark: "SparkSession", world: World
) -> None:
    raw = to_spark(spark, world.raw, world.partitions)
    days = world.rules.days
    wanted = answers(world.raw, world.rules).sql(
        f"SELECT * FROM staging WHERE event_date >= DATE '{days.start}' AND event_date < DATE '{days.end}'"
    )
    assert_same(in_parts(world, lambda part: staging(raw, part)), wanted.to_arrow_table(), CONTRACT, world)


def delivery(seq: int, arrival_hours: float, op: str = "upsert", **facts: Any) -> dict[str, Any]:
    """A delivery of the key `k`, some hours after the noon it happened at; its version is its arrival."""
    arrival = NOON + timedelta(hours=arrival_hours)
    plain: dict[str, Any] = {
        "event_ts": NOON,
        "event_key": "k",
        "entity": "A",
        "value": seq,
        "flag": 0,
        "source_file": "file",
    }
    arrived = {"arrival_ts": arrival, "version_ts": arrival, "arrival_date": arrival.date()}
    return {"seq": seq, "op": op, **arrived, **plain, **facts}


def known(spark: "SparkSession", *rows: dict[str, Any], days: int = 1) -> list[Row]:
    """(event day, value, hours from noon until it was known, hours until no longer) of the rows of staging."""
    frame = staging(to_spark(spark, pa.Table.from_pylist(rows, RAW)), DayRange(FIRST, FIRST + ONE_DAY * days))
    found = rows_of(frame.select("event_date", "value", "known_from", "known_until").toArrow())
    return [(day, value, _hours(since), _hours(until)) for day, value, since, until in found]


def _hours(instant: datetime | None) -> float | None:
    return None if instant is None else (instant - NOON) / timedelta(hours=1)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([delivery(1, 1), delivery(2, 5)], [(1, 1, 5), (2, 5, None)]),
        ([delivery(1, 1), delivery(2, 5, version_ts=NOON)], [(1, 1, None)]),
        ([delivery(1, 1), delivery(2, 1)], [(2, 1, None)]),
        ([delivery(1, 1), delivery(2, 5, "delete")], [(1, 1, 5)]),
        ([delivery(1, 1), delivery(2, 5, "delete"), delivery(3, 9)], [(1, 1, 5), (3, 9, None)]),
        ([delivery(1, 1, "delete"), delivery(2, 5, version_ts=NOON)], []),
        ([delivery(1, 1), delivery(2, 5, "delete", event_ts=NOON + 3 * ONE_DAY)], [(1, 1, 5)]),
        ([delivery(1, 1), delivery(2, 5, "delete", event_ts=None, entity=None, value=None, flag=None)], [(1, 1, 5)]),
        ([delivery(1, 1), delivery(2, 5, value=1), delivery(3, 9, value=1)], [(1, 1, None)]),
        ([delivery(1, 1), delivery(2, 5), delivery(3, 9, value=1)], [(1, 1, 5), (1, 9, None), (2, 5, 9)]),
        ([delivery(1, 1), delivery(2, 5), delivery(3, 5, value=1)], [(1, 1, None)]),
        ([delivery(1, 1), delivery(2, 5, "delete"), delivery(3, 9, value=1)], [(1, 1, 5), (1, 9, None)]),
        ([delivery(1, 1), delivery(2, 5, value=1), delivery(3, 9, version_ts=NOON + ONE_DAY / 6)], [(1, 1, None)]),
        ([delivery(1, 1, entity=None), delivery(2, 5, value=1, entity=None)], [(1, 1, None)]),
        ([delivery(1, -50)], [(1, -50, None)]),
        ([delivery(1, 24 * 5000)], [(1, 24 * 5000, None)]),
    ],
    ids=[
        "a correction ends what was known",
        "a stale version that arrives late is never current",
        "a tie goes to the greater seq, and leaves no interval of no length",
        "a delete ends what was known",
        "a re-appearance begins a second interval",
        "an insert older than its delete stays deleted",
        "the day of a delete is ignored",
        "a delete may hold nothing but its key",
        "what is said again changes nothing",
        "an old value that comes back is a change",
        "what was another value for no time is none",
        "what is said again after a delete is new",
        "what was said again outranks older versions all the same",
        "NULL said again is the same",
        "an arrival before the event counts from then on",
        "however late",
    ],
)
def test_known_intervals(
    spark: "SparkSession", rows: list[dict[str, Any]], wanted: list[tuple[int, float, float | None]]
) -> None:
    assert known(spark, *rows) == [(FIRST, *row) for row in wanted]


FEW = st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["upsert", "upsert", "delete"]), st.booleans())


@settings(TRIED_IN_SPARK, max_examples=15)
@given(st.lists(FEW, min_size=1, max_size=7))
def test_rows_are_what_is_known_from_instant_to_instant_told_once_each(
    spark: "SparkSession", drawn: list[tuple[int, int, str, bool]]
) -> None:
    rows = [
        delivery(seq, hour, op, version_ts=NOON + timedelta(hours=version), value=int(value))
        for seq, (hour, version, op, value) in enumerate(drawn)
    ]
    states: list[tuple[float, int | None]] = [(-1, None)]
    for hour in sorted({hour for hour, *_ in drawn}):
        arrived = [(version, at, seq, op, value) for seq, (at, version, op, value) in enumerate(drawn) if at <= hour]
        *_, op, value = max(arrived)
        states += [(hour, int(value) if op == "upsert" else None)]
    changes = [now for before, now in itertools.pairwise(states) if before[1] != now[1]]
    ends = [since for since, _ in changes[1:]] + [None]
    wanted = [
        (FIRST, value, since, end) for (since, value), end in zip(changes, ends, strict=False) if value is not None
    ]
    assert sorted(known(spark, *rows), key=str) == sorted(wanted, key=str)


def test_an_event_that_moves_leaves_its_old_day_at_the_move(spark: "SparkSession") -> None:
    moved = [delivery(1, 1), delivery(2, 30, event_ts=NOON + ONE_DAY)]
    assert known(spark, *moved) == [(FIRST, 1, 1.0, 30.0)]
    assert known(spark, *moved, days=2) == [(FIRST, 1, 1.0, 30.0), (FIRST + ONE_DAY, 2, 30.0, None)]


def test_another_keys_deliveries_do_no_harm(spark: "SparkSession") -> None:
    other = delivery(2, 5, event_key="other", event_ts=NOON + 2 * ONE_DAY)
    assert known(spark, delivery(1, 1), other) == [(FIRST, 1, 1.0, None)]


def test_days_that_are_not_wanted_are_left_out_and_the_others_are_as_they_were(spark: "SparkSession") -> None:
    days, wanted = DayRange(FIRST, FIRST + ONE_DAY * 3), [FIRST, FIRST + ONE_DAY * 2]
    moved = delivery(2, 30, event_ts=NOON + ONE_DAY * 2)
    other = [delivery(n, 40 + n, event_key="j", event_ts=NOON + ONE_DAY * n) for n in (3, 1)]
    raw = to_spark(spark, pa.Table.from_pylist([delivery(1, 1), moved, *other], RAW))
    shown = ("event_date", "event_key", "seq", "known_until")
    every, some = (rows_of(staging(raw, days, only=o).select(*shown).toArrow()) for o in (None, wanted))
    assert sorted(map(str, some)) == sorted(str(row) for row in every if row[0] in wanted)
    assert len(some) == len(every) - 1
