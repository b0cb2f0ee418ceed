"""Which days of its inputs a step loaded, for each of its own days.

Tested here: windows and keys of mappings against Dagster's own, and that a day is fresh only where
it is what these give today. Not tested here: keys as plain values (`kernel/core/test_keys.py`), and
whole runs (`test_io_manager.py`).
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from backfill_assets.assets.contracts import asset_periods
from backfill_assets.assets.loaded import LoadedInput, MappedInput, window_of
from backfill_assets.dagster.adapter.partitions import partitions_of
from backfill_assets.kernel.core.calendars import Calendar, parse_calendar
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.digests import input_days_of
from backfill_assets.kernel.core.states import State
from backfill_assets_tests.assets.projects import DAYS
from backfill_assets_tests.keyed import ORDERS, KeyedLake
from backfill_assets_tests.strategies import examples

AT_SIX = dg.DailyPartitionsDefinition("2024-01-01", hour_offset=6)


@pytest.mark.parametrize(
    ("mapping", "window"),
    [
        (None, (0, 0)),
        (dg.IdentityPartitionMapping(), (0, 0)),
        (dg.TimeWindowPartitionMapping(start_offset=-6), (6, 0)),
        (dg.TimeWindowPartitionMapping(start_offset=0, end_offset=7), (0, 7)),
        (dg.TimeWindowPartitionMapping(start_offset=-7, end_offset=-1), (7, -1)),
        (dg.AllPartitionMapping(), None),
    ],
)
def test_a_window_is_the_days_that_a_mapping_names(
    mapping: dg.PartitionMapping | None, window: tuple[int, int] | None
) -> None:
    assert window_of(mapping, DAYS, DAYS) == window


def test_a_window_reaches_into_the_days_that_begin_at_another_time() -> None:
    assert window_of(None, DAYS, AT_SIX) == (0, 1)
    assert window_of(None, AT_SIX, DAYS) == (1, 0)
    assert window_of(dg.IdentityPartitionMapping(), AT_SIX, DAYS) == (0, 0)


WEEKS = dg.WeeklyPartitionsDefinition("2024-01-01")


def test_between_two_calendars_a_window_is_what_overlaps_and_no_more() -> None:
    assert window_of(None, WEEKS, DAYS) == (0, 0)
    assert window_of(dg.TimeWindowPartitionMapping(-2, 0), WEEKS, WEEKS) == (2, 0)
    assert window_of(dg.TimeWindowPartitionMapping(-2, 0), WEEKS, DAYS) is None
    assert window_of(dg.IdentityPartitionMapping(), WEEKS, DAYS) is None
    assert window_of(None, WEEKS, AT_SIX) is None
    quarters = dg.TimeWindowPartitionsDefinition(
        "2024-01-01", "%Y-%m-%d", cron_schedule="0 6 1 */3 *"
    )
    assert window_of(None, AT_SIX, quarters) == (0, 0)


def test_no_window_is_named_of_definitions_of_no_calendar() -> None:
    assert window_of(None, dg.HourlyPartitionsDefinition("2024-01-01-00:00"), DAYS) is None
    assert window_of(None, None, DAYS) is None


TODAY = utc_today()
HOURS = st.sampled_from([(0, 0), (6, 0), (23, 30)])
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"])
NUMBERS = range(-9, 3)  # days around today


def day(number: int) -> date:
    """The day so many days after today."""
    return TODAY + timedelta(number)


@dataclass(frozen=True)
class Defined:
    """A daily definition by what tests draw of it."""

    zone: str
    cut: tuple[int, int]
    start: int
    left_out: frozenset[int]

    def until(self, end: int | None) -> dg.TimeWindowPartitionsDefinition:
        """The definition with this first day that is no partition any more."""
        hour, minute = self.cut
        begins = time(hour, minute, tzinfo=ZoneInfo(self.zone))
        left_out = [datetime.combine(day(n), begins) for n in sorted(self.left_out)]
        return dg.DailyPartitionsDefinition(
            str(day(self.start)),
            str(day(end)) if end is not None else None,
            hour_offset=hour,
            minute_offset=minute,
            timezone=self.zone,
            exclusions=left_out or None,
        )


MAPPINGS = st.one_of(
    st.just(None),
    st.just(dg.IdentityPartitionMapping()),
    st.just(dg.AllPartitionMapping()),
    st.just(dg.LastPartitionMapping()),
    st.builds(
        lambda first, length: dg.TimeWindowPartitionMapping(first, first + length, True),
        st.integers(-3, 2),
        st.integers(0, 3),
    ),
)
STEPS = st.lists(
    st.tuples(st.just("correct"), st.sampled_from(NUMBERS), st.integers(0, 3))
    | st.tuples(st.just("run"), st.sampled_from(NUMBERS), st.integers(0, 4))
    | st.tuples(st.just("end"), st.integers(-6, 1)),
    min_size=3,
    max_size=14,
)


@st.composite
def pairs_of_definitions(draw: st.DrawFn) -> tuple[Defined, Defined]:
    """Those of an input and of an asset, in one time zone."""
    zone = draw(ZONES)
    defined = st.builds(
        Defined,
        st.just(zone),
        HOURS,
        st.integers(-9, -5),
        st.frozensets(st.integers(-8, -1), max_size=3),
    )
    return draw(defined), draw(defined)


def keys_of(
    mapping: dg.PartitionMapping | None,
    theirs: dg.TimeWindowPartitionsDefinition,
    ours: dg.TimeWindowPartitionsDefinition,
    days: list[date],
) -> list[date]:
    """What Dagster's mapping gives for these days."""
    chosen = dg.TimeWindowPartitionMapping() if mapping is None else mapping
    subset = ours.empty_subset().with_partition_keys(map(str, days))
    found = chosen.get_upstream_mapped_partitions_result_for_partitions(subset, ours, theirs)
    return sorted(map(date.fromisoformat, found.partitions_subset.get_partition_keys()))


@settings(max_examples=examples(200), deadline=None)
@given(pairs_of_definitions(), MAPPINGS, st.integers(-5, NUMBERS.stop), STEPS)
def test_each_day_that_is_called_fresh_is_what_its_mapping_gives_today(
    defined: tuple[Defined, Defined],
    mapping: dg.PartitionMapping | None,
    known: int,
    steps: list[Any],
) -> None:
    """After any corrections, runs and later ends of the definition, in any order; the days before
    `known` have rows at first. Each day of a run has the keys that the mapping gives for it alone,
    where these are all that the run loaded."""
    (upstream, own), lake, end = defined, KeyedLake(), -4
    ours, wanted = own.until(None), None
    for number in range(NUMBERS.start, known):
        lake.correct(day(number), 1)
    for step in steps:
        theirs = upstream.until(end)
        if step[0] == "correct":
            lake.correct(day(step[1]), step[2])
        elif step[0] == "end":
            end = max(end, step[1])
        elif run := [
            d for n in range(step[2] + 1) if ours.has_partition_key(str(d := day(step[1] + n)))
        ]:
            wanted = _run(lake, mapping, theirs, ours, run) or wanted
        if wanted is None:
            continue
        states = lake.states(replace(wanted, keys=()))
        for made in lake.totals:
            keys = keys_of(mapping, upstream.until(end), ours, [made])
            if states.of("total", made) is State.FRESH and all(d in lake.orders for d in keys):
                made_from = lake.made_from[made]
                assert {d: n for d, n in made_from.items() if d in keys} == lake.values(keys)
                assert made_from == lake.values([*made_from])


def _run(
    lake: KeyedLake,
    mapping: dg.PartitionMapping | None,
    theirs: dg.TimeWindowPartitionsDefinition,
    ours: dg.TimeWindowPartitionsDefinition,
    run: list[date],
) -> Any:
    """Make days, as a step does that loads all that the mapping gives for them; None where an input
    was never made."""
    asked = keys_of(mapping, theirs, ours, run)
    read = LoadedInput(dg.AssetKey("orders"), tuple(asked), theirs)
    asked = [*MappedInput(read, mapping, ours).needed_for(run)]
    read = replace(read, days=tuple(asked))
    calendar, first_day = asset_periods(theirs, "orders")
    contract = replace(ORDERS, calendar=calendar, first_day=first_day)
    wanted = MappedInput(read, mapping, ours).input_of(contract, run)
    states = lake.states(wanted, is_being_made=True)
    loaded = {made: input_days_of(wanted, made, states.view) for made in run}
    alone = {made: keys_of(mapping, theirs, ours, [made]) for made in run}
    assert loaded == alone
    if not all(d in lake.orders for d in asked):
        return None
    lake.make(wanted, loaded)
    return wanted


OF_A_CALENDAR = st.sampled_from(
    [*map(parse_calendar, ("day", "week", "week from sunday", "month", "quarter", "year"))]
)
BEGIN = date(2023, 12, 20)  # ten days before a year, ten weeks before a leap day
LENGTH = 140  # days: over four ends of months, and an end of a quarter
LEFT_OUT = st.frozensets(st.integers(0, 4), max_size=2)  # places of keys from the begin on
POSITIONS = st.floats(0, 1, exclude_max=True)  # of a key among those that there are
PERIOD_STEPS = st.lists(
    st.tuples(st.just("correct"), POSITIONS, st.integers(0, 3))
    | st.tuples(st.just("run"), POSITIONS, st.integers(1, 4))
    | st.tuples(st.just("end"), st.integers(30, LENGTH)),
    min_size=3,
    max_size=12,
)


def until(
    calendar: Calendar, end: int, left_out: frozenset[int] = frozenset()
) -> dg.TimeWindowPartitionsDefinition:
    """The partitions of a calendar that are over so many days after the begin, without those of
    some places among them."""
    first = calendar.first_from(BEGIN)
    keys = calendar.keys_around(calendar.span(first), 0, 4)
    return dg.TimeWindowPartitionsDefinition(
        start=str(BEGIN),
        end=str(BEGIN + timedelta(end)),
        cron_schedule=partitions_of(calendar, BEGIN).cron_schedule,
        fmt="%Y-%m-%d",
        exclusions=[datetime.combine(keys[n], time(tzinfo=UTC)) for n in sorted(left_out)] or None,
    )


def keys_among(partitions: dg.TimeWindowPartitionsDefinition) -> list[date]:
    """All keys of a definition."""
    return [*map(date.fromisoformat, partitions.get_partition_keys())]


@settings(max_examples=examples(20), deadline=None)
@given(
    st.tuples(OF_A_CALENDAR, LEFT_OUT), st.tuples(OF_A_CALENDAR, LEFT_OUT), MAPPINGS, PERIOD_STEPS
)
def test_each_period_that_is_called_fresh_is_what_its_mapping_gives_today(
    upstream: tuple[Calendar, frozenset[int]],
    own: tuple[Calendar, frozenset[int]],
    mapping: dg.PartitionMapping | None,
    steps: list[Any],
) -> None:
    """As of days, of any two calendars: a month over days that have come so far, a day over its
    quarter, weeks that begin on other days, months of which some are left out."""
    (calendar, left_out), lake, end, wanted = upstream, KeyedLake(calendar=own[0]), 75, None
    ours = until(own[0], 800, own[1])
    known = keys_among(until(calendar, LENGTH, left_out))
    for key in known:
        lake.correct(key, 1)
    for step in steps:
        theirs = until(calendar, end, left_out)
        if step[0] == "correct":
            lake.correct(known[int(step[1] * len(known))] if known else BEGIN, step[2])
        elif step[0] == "end":
            end = max(end, step[1])
        else:
            begun = [key for key in keys_among(ours) if key < BEGIN + timedelta(end)]
            first = int(step[1] * len(begun))
            if run := begun[first : first + step[2]]:
                wanted = _run(lake, mapping, theirs, ours, run) or wanted
        if wanted is None:
            continue
        states = lake.states(replace(wanted, keys=()))
        for made in lake.totals:
            keys = keys_of(mapping, until(calendar, end, left_out), ours, [made])
            if states.of("total", made) is State.FRESH and all(d in lake.orders for d in keys):
                made_from = lake.made_from[made]
                assert {d: n for d, n in made_from.items() if d in keys} == lake.values(keys)
                assert made_from == lake.values([*made_from])
