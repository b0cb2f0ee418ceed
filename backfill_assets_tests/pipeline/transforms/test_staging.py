"""Staging: who is current when, against an oracle that ranks every delivery of every key.

Tested here: `pipeline.transforms.staging`. Not tested here: which raw days are read for it
(`kernel.write.derived`).
"""

import itertools
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange, day_range, midnight
from backfill_assets.pipeline.transforms.staging import as_known, day_less_hours, staging_rows
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.pipeline.built_in import contract
from backfill_assets_tests.pipeline.frames import Row, assert_same, in_parts, rows_of, to_spark
from backfill_assets_tests.pipeline.oracle import answers
from backfill_assets_tests.pipeline.worlds import FIRST, RAW, TRIED_IN_SPARK, World, worlds

pytestmark = pytest.mark.users_do
CONTRACT = contract("staging")
NOON = datetime(FIRST.year, FIRST.month, FIRST.day, 12)  # noqa: DTZ001 - Arrow's plain times, meant as UTC


@settings(TRIED_IN_SPARK, max_examples=5)
@given(worlds())
def test_rows_are_those_of_the_oracle_whatever_ranges_and_partitions(
    spark: "SparkSession", world: World
) -> None:
    raw = to_spark(spark, world.raw, world.partitions)
    days = world.rules.days
    wanted = answers(world.raw, world.rules).sql(
        f"SELECT * FROM staging WHERE event_date >= DATE '{days.start}' AND event_date < DATE "
        f"'{days.end}'"
    )
    assert_same(
        in_parts(world, lambda part: staging_rows(raw, part)),
        wanted.to_arrow_table(),
        CONTRACT,
        world,
    )


def delivery(seq: int, arrival_hours: float, op: str = "upsert", **facts: Any) -> dict[str, Any]:
    """A delivery of the key `k`, some hours after the noon it happened at; its version is its
    arrival."""
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
    """(event day, value, hours from noon until it was known, hours until no longer) of the rows of
    staging."""
    frame = staging_rows(
        to_spark(spark, pa.Table.from_pylist(rows, RAW)), DayRange(FIRST, FIRST + ONE_DAY * days)
    )
    found = rows_of(frame.select("event_date", "value", "known_from", "known_until").toArrow())
    return [(day, value, _hours(since), _hours(until)) for day, value, since, until in found]


def _hours(instant: datetime | None) -> float | None:
    return None if instant is None else (instant - NOON) / timedelta(hours=1)


FEW = st.tuples(
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["upsert", "upsert", "delete"]),
    st.booleans(),
)


@settings(TRIED_IN_SPARK, max_examples=15)
@given(st.lists(FEW, min_size=1, max_size=7))
def test_rows_are_what_is_known_between_instants(
    spark: "SparkSession", drawn: list[tuple[int, int, str, bool]]
) -> None:
    rows = [
        delivery(seq, hour, op, version_ts=NOON + timedelta(hours=version), value=int(value))
        for seq, (hour, version, op, value) in enumerate(drawn)
    ]
    states: list[tuple[float, int | None]] = [(-1, None)]
    for hour in sorted({hour for hour, *_ in drawn}):
        arrived = [
            (version, at, seq, op, value)
            for seq, (at, version, op, value) in enumerate(drawn)
            if at <= hour
        ]
        *_, op, value = max(arrived)
        states += [(hour, int(value) if op == "upsert" else None)]
    changes = [now for before, now in itertools.pairwise(states) if before[1] != now[1]]
    ends = [since for since, _ in changes[1:]] + [None]
    wanted = [
        (FIRST, value, since, end)
        for (since, value), end in zip(changes, ends, strict=False)
        if value is not None
    ]
    assert sorted(known(spark, *rows), key=str) == sorted(wanted, key=str)


def test_days_that_are_not_wanted_are_left_out_and_the_others_are_as_they_were(
    spark: "SparkSession",
) -> None:
    days, wanted = DayRange(FIRST, FIRST + ONE_DAY * 3), [FIRST, FIRST + ONE_DAY * 2]
    moved = delivery(2, 30, event_ts=NOON + ONE_DAY * 2)
    other = [delivery(n, 40 + n, event_key="j", event_ts=NOON + ONE_DAY * n) for n in (3, 1)]
    raw = to_spark(spark, pa.Table.from_pylist([delivery(1, 1), moved, *other], RAW))
    shown = ("event_date", "event_key", "seq", "known_until")
    every, some = (
        rows_of(staging_rows(raw, days, only=o).select(*shown).toArrow()) for o in (None, wanted)
    )
    assert sorted(map(str, some)) == sorted(str(row) for row in every if row[0] in wanted)
    assert len(some) == len(every) - 1


DAYS = day_range("2024-03-03", "2024-03-05")
TIMES = [datetime(2024, 3, n, hour, tzinfo=UTC) for n, hour in product(range(1, 8), (0, 9))]


@pytest.mark.parametrize("grace", [0, 9])
def test_a_version_counts_on_the_days_at_whose_cut_it_was_current(
    spark: "SparkSession", grace: int
) -> None:
    rows = [
        (n, date(2024, 3, event), known_from, known_until)
        for n, (event, known_from, known_until) in enumerate(
            product(range(1, 6), TIMES, [None, *TIMES])
        )
        if known_until is None or known_until > known_from
    ]
    found = as_known(
        spark.createDataFrame(
            rows, "n int, event_date date, known_from timestamp, known_until timestamp"
        ),
        DAYS,
        2,
        grace,
    )
    expected = set()
    for n, event, known_from, known_until in rows:
        for day in DAYS:
            cut = midnight(day + ONE_DAY) + timedelta(hours=grace)
            current = known_from < cut and (known_until is None or cut <= known_until)
            if current and day - 2 * ONE_DAY <= event <= day:
                expected.add((n, day))
    assert {(r["n"], r["known_on"]) for r in found.collect()} == expected
    assert found.count() == len(expected)


def test_the_day_of_a_cut_is_exact_to_the_microsecond_also_before_1970(
    spark: "SparkSession",
) -> None:
    moments, step = list[datetime](), timedelta(microseconds=1)
    for begun in (datetime(1969, 12, 30), datetime(1970, 1, 1), datetime(2287, 3, 1)):  # noqa: DTZ001 - sessions are in UTC
        for hours in (0, 5):
            moments += [begun + timedelta(hours=hours) + n * step for n in (-1, 0, 1)]
    frame = spark.createDataFrame([(m,) for m in moments], "moment TIMESTAMP")
    for hours in (0, 5):
        found = frame.select("moment", day_less_hours("moment", hours).alias("day")).collect()
        wanted = {m: (m - timedelta(hours=hours)).date() for m in moments}
        assert {r["moment"]: r["day"] for r in found} == wanted, hours
