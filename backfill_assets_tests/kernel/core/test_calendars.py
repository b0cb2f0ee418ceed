"""Calendars: partitions of weeks, months, quarters and years, and days of which some are left out.

Tested here: `kernel.core.calendars` against a plain count of days, windows of inputs between two
calendars, and what a corrected day makes stale. Not tested here: a lake with such a table
(`end_to_end.test_periods`), and Dagster's partitions (`dagster.adapter.test_partitions`).
"""

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.calendars import DAILY, Calendar, Unit, parse_calendar
from backfill_assets.kernel.core.contracts import Contract, Input
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, inclusive_range
from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.core.readings import Parameters, parse_parameters
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.write.model import Table, make_pipeline
from backfill_assets_tests.builders import RAW, STAGING, Story, contract
from backfill_assets_tests.strategies import examples

FIRST, LAST = date(2023, 12, 20), date(2024, 4, 10)  # over the turn of a year, and a leap day
EVERY_WEEKDAY = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HOLIDAYS = frozenset({date(2023, 12, 25), date(2024, 1, 1), date(2024, 2, 29)})
CALENDARS = [
    DAILY,
    Calendar(Unit.WEEK),
    Calendar(Unit.WEEK, first_weekday=6),
    Calendar(Unit.WEEK, first_weekday=2),
    Calendar(Unit.MONTH),
    Calendar(Unit.QUARTER),
    Calendar(Unit.YEAR),
    Calendar(left_out_weekdays=frozenset({5, 6})),
    Calendar(left_out_weekdays=frozenset({5, 6}), left_out_dates=HOLIDAYS),
]
calendars = st.sampled_from(CALENDARS)
MARCH = (date(2024, 3, 1), date(2024, 3, 31))
some_days = st.dates(date(2023, 12, 1), date(2024, 12, 31))
loaded_days = st.dates(FIRST, LAST)


def plain_key(calendar: Calendar, day: date) -> date | None:
    """The key of the partition that covers a day, counted back day by day; None of a day left
    out."""
    is_left_out = day.weekday() in calendar.left_out_weekdays or day in calendar.left_out_dates
    if is_left_out:
        return None
    while not _begins(calendar, day):
        day -= ONE_DAY
    return day


def _begins(calendar: Calendar, day: date) -> bool:
    match calendar.unit:
        case Unit.WEEK:
            return day.weekday() == calendar.first_weekday
        case Unit.MONTH:
            return day.day == 1
        case Unit.QUARTER:
            return day.day == 1 and day.month in (1, 4, 7, 10)
        case Unit.YEAR:
            return (day.month, day.day) == (1, 1)
    return True


@cache
def plain_keys(calendar: Calendar) -> list[date]:
    """All keys of some years, ascending."""
    found = {
        plain_key(calendar, day) for day in inclusive_range(date(2020, 1, 1), date(2028, 1, 1))
    }
    return sorted(key for key in found if key is not None)


@cache
def plain_span(calendar: Calendar, key: date) -> list[date]:
    """The days of a partition, one after another."""
    days = itertools.count()
    following = (key + timedelta(days=n) for n in days)
    return [*itertools.takewhile(lambda day: plain_key(calendar, day) == key, following)]


@cache
def plain_ends(calendar: Calendar) -> list[date]:
    """The last days of all partitions, in the order of their keys."""
    return [plain_span(calendar, key)[-1] for key in plain_keys(calendar)]


def plain_window(own: Calendar, read: Calendar, key: date, before: int, after: int) -> list[date]:
    """The keys of `read` that a partition is made from, by their places in the list of all."""
    keys = plain_keys(read)
    span = plain_span(own, key)
    first = bisect_left(plain_ends(read), span[0]) - before
    last = bisect_right(keys, span[-1]) - 1 + after
    return keys[first : last + 1] if first <= last else []


def test_the_names_of_calendars_are_read_as_they_are_written() -> None:
    for calendar in CALENDARS:
        assert parse_calendar(str(calendar)) == calendar
    assert str(CALENDARS[2]) == "week from sunday"
    assert parse_calendar("day", ("saturday", "sunday")) == CALENDARS[7]


@pytest.mark.parametrize(
    ("text", "without", "told"),
    [
        ("fortnight", (), "'fortnight' is none of day, week, month, quarter, year"),
        ("month from monday", (), "a month begins on no weekday"),
        ("week from moonday", (), "'moonday' is none of monday"),
        ("month", ("saturday",), "only days can be left out"),
        ("day", ("holidays",), "'holidays' is none of monday"),
        ("day", ("2024-02-30",), "day is out of range"),
        ("day", EVERY_WEEKDAY, "every day"),
    ],
)
def test_what_is_no_calendar_is_refused_by_name(
    text: str, without: tuple[str, ...], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        parse_calendar(text, without)


@pytest.mark.parametrize(
    ("text", "day", "first", "last"),
    [
        ("month", "2024-02-29", "2024-02-01", "2024-02-29"),
        ("month", "2023-02-28", "2023-02-01", "2023-02-28"),
        ("month", "2024-12-31", "2024-12-01", "2024-12-31"),
        ("quarter", "2024-05-31", "2024-04-01", "2024-06-30"),
        ("year", "2024-12-31", "2024-01-01", "2024-12-31"),
        ("week", "2024-12-31", "2024-12-30", "2025-01-05"),  # week 1 of the year after
        ("week", "2021-01-01", "2020-12-28", "2021-01-03"),  # week 53 of the year before
        ("week from sunday", "2024-02-29", "2024-02-25", "2024-03-02"),
    ],
)
def test_ends_of_months_leap_days_and_week_53(text: str, day: str, first: str, last: str) -> None:
    calendar, inside = parse_calendar(text), date.fromisoformat(day)
    key = calendar.key_at(inside)
    assert calendar.span(key) == inclusive_range(
        date.fromisoformat(first), date.fromisoformat(last)
    )
    assert calendar.count_text(3) == f"3 {text.split(' ')[0]}(s)"


def test_the_partition_before_monday_is_friday_and_a_holiday_is_none() -> None:
    calendar = CALENDARS[8]
    monday = DayRange(date(2024, 3, 4), date(2024, 3, 5))
    assert calendar.keys_around(monday, 1, -1) == [date(2024, 3, 1)]
    assert calendar.keys_around(monday, 2, -1) == [date(2024, 2, 28), date(2024, 3, 1)]
    assert calendar.keys_in([date(2024, 2, 29), date(2024, 3, 2)]) == []


def test_what_is_left_out_of_a_table_is_no_partition_and_windows_count_it() -> None:
    august = [[1], [8], [*range(7)]]
    plain = replace(contract("periods", "period", Input("staging")), calendar=Calendar(Unit.MONTH))
    made = plain.leaving_out(["2024-12-01", august])
    year = inclusive_range(date(2024, 1, 1), date(2024, 12, 31))
    kept = [date(2024, n, 1) for n in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11)]
    assert made.keys_in(year) == kept == [day for day in year if made.has_partition(day)]
    assert made.leaving_out(made.left_out.to_list()) == made
    assert made.calendar.keys_around(DayRange(date(2024, 9, 1), date(2024, 9, 2)), 1, -1) == [
        date(2024, 8, 1)
    ]


@given(calendars, some_days)
@settings(deadline=None)
def test_a_partition_covers_its_days_and_no_others(calendar: Calendar, day: date) -> None:
    key = plain_key(calendar, day)
    assert calendar.keys_in([day]) == ([] if key is None else [key])
    assert calendar.is_key(day) == (key == day)
    if key is not None:
        assert [*calendar.span(key)] == plain_span(calendar, key)
        assert calendar.last_of(key) == plain_span(calendar, key)[-1]
    assert calendar.first_from(day) == next(k for k in plain_keys(calendar) if k >= day)


@given(calendars, calendars, some_days, st.integers(0, 4), st.integers(-2, 3))
@settings(max_examples=examples(100), deadline=None)
def test_a_window_counts_partitions_of_the_input(
    own: Calendar, read: Calendar, day: date, before: int, after: int
) -> None:
    key = plain_key(own, day)
    wanted = Input("staging", before, after, calendar=read, made_in=own)
    if key is None:
        return
    expected = plain_window(own, read, key, before, after)
    assert wanted.window_days(key, date(2020, 1, 1)) == expected
    # and the days that read one are those whose windows hold it
    place = plain_keys(own).index(key)
    near = plain_keys(own)[place - 9 : place + 9]
    for read_key in expected[:1] + expected[-1:]:
        found = set(wanted.days_reading(read_key))
        assert key in found
        assert {k for k in near if read_key in _window(wanted, k)} == found & {*near}


def _window(wanted: Input, key: date) -> list[date]:
    return wanted.window_days(key, date(2020, 1, 1))


def _story(own: Calendar, before: int, after: int, between: Contract | None = None) -> Story:
    """A lake with a table over days of staging, loaded and built from `FIRST` through `LAST`; or
    over periods of a table between them."""
    read = Input("staging", before, after)
    if between is not None:
        read = Input(between.name, before, after, calendar=between.calendar)
    made = contract("periods", "period", read)
    periods = replace(made, calendar=own, first_day=own.first_from(FIRST))
    more = () if between is None else (between,)
    story = Story(start=FIRST, contracts=(RAW, STAGING, *more, periods))
    days = [*inclusive_range(FIRST, LAST)]
    for day in days:
        story.land(day, f"file of {day}")
    story.load(*days).build("staging", *days)
    for one in more:
        story.build(one.name, *one.keys_in(days))
    return story.build("periods", *periods.keys_in(days))


def _stale(story: Story) -> set[date]:
    states = story.states()
    return {d for d in story.tables["periods"].latest if states.of("periods", d) is State.STALE}


@given(calendars, loaded_days, st.integers(0, 3), st.integers(-1, 2))
@settings(max_examples=examples(20), deadline=None)
def test_a_corrected_day_makes_exactly_its_periods_stale(
    own: Calendar, day: date, before: int, after: int
) -> None:
    story = _story(own, before, after)
    assert _stale(story) == set()
    same = story.tables["staging"].latest[day].entry.fingerprint
    made = story.tables["periods"].latest
    expected = {k for k in made if day in plain_window(own, DAILY, k, before, after)}
    story.build("staging", day, content="corrected")
    assert _stale(story) == expected
    needed = needed_days(story.states(), LAST + ONE_DAY)
    assert needed["periods"] == expected
    story.build("staging", day, content=same)
    assert _stale(story) == set()  # the same rows again: nothing to be made


@given(calendars, calendars, st.integers(0, 200), st.integers(0, 3), st.integers(-1, 2))
@settings(max_examples=examples(15), deadline=None)
def test_a_corrected_period_makes_exactly_the_periods_stale_that_read_it(
    own: Calendar, read: Calendar, place: int, before: int, after: int
) -> None:
    """Months over months, quarters over months, days over their month, weeks over trading days."""
    between = replace(contract("between", "period", Input("staging")), calendar=read)
    between = replace(between, first_day=read.first_from(FIRST))
    story = _story(own, before, after, between)
    assert _stale(story) == set()
    known = [*story.tables["between"].latest]
    if not known:
        return
    key = known[place % len(known)]
    same = story.tables["between"].latest[key].entry.fingerprint
    made = story.tables["periods"].latest
    expected = {k for k in made if key in plain_window(own, read, k, before, after)}
    story.build("between", key, content="corrected")
    assert _stale(story) == expected
    assert needed_days(story.states(), LAST + ONE_DAY)["periods"] == expected
    story.build("between", key, content=same)
    assert _stale(story) == set()
    days = story.tables["staging"].latest.keys() & {*read.span(key)}
    story.build("staging", min(days), content="corrected")
    assert _stale(story) == set(), "what it reads has not changed yet"
    assert needed_days(story.states(), LAST + ONE_DAY)["between"] == {key}


def february_until(last: int) -> tuple[Story, list[date]]:
    """A table of months over staging, and the days of February that are loaded."""
    month = replace(contract("periods", "period", Input("staging")), calendar=Calendar(Unit.MONTH))
    story = Story(start=date(2024, 2, 1), contracts=(RAW, STAGING, month))
    days = [*inclusive_range(date(2024, 2, 1), date(2024, 2, last))]
    for day in days:
        story.land(day, f"file of {day}")
    return story.load(*days), days


def test_a_month_whose_last_day_has_not_come_is_made_and_ripens_with_it() -> None:
    story, days = february_until(28)
    story.build("staging", *days)
    assert needed_days(story.states())["periods"] == {date(2024, 2, 1)}
    story.build("periods", date(2024, 2, 1))
    assert story.state("periods", date(2024, 2, 1)) is State.PROVISIONAL
    leap_day = date(2024, 2, 29)
    story.land(leap_day, "the last").load(leap_day)
    assert story.state("periods", date(2024, 2, 1)) is State.STALE
    story.build("staging", leap_day).build("periods", date(2024, 2, 1))
    assert story.state("periods", date(2024, 2, 1)) is State.FRESH
    march = date(2024, 3, 1)
    story.land(march, "of the next").load(march).build("staging", march)
    assert story.state("periods", date(2024, 2, 1)) is State.FRESH
    assert needed_days(story.states())["periods"] == {march}


@dataclass
class OthersStory(Story):
    """A lake that loads no files: others write its `orders`."""

    def view(self) -> LakeView:
        return LakeView(self.start, None, timedelta(), dict(self.tables), {})


def others_story(*more: Contract, orders: Calendar = DAILY) -> OthersStory:
    """A month of somebody's orders, and the tables that are made from it."""
    seen = replace(contract("orders", "day"), external="there", calendar=orders)
    made = contract("periods", "period", Input("orders", calendar=orders))
    month = replace(made, calendar=Calendar(Unit.MONTH))
    return OthersStory(start=date(2024, 1, 1), contracts=(seen, month, *more))


@pytest.mark.parametrize(
    ("newest", "state"),
    [
        (date(2024, 2, 28), State.PROVISIONAL),  # the leap day is still to come
        (date(2024, 2, 29), State.FRESH),
        (date(2024, 3, 4), State.FRESH),  # over without a row on its last day
    ],
)
def test_without_landed_files_a_month_is_over_once_an_input_has_its_last_day_or_a_later_one(
    newest: date, state: State
) -> None:
    story = others_story().build("orders", date(2024, 2, 1), newest)
    story.build("periods", date(2024, 2, 1))
    assert story.state("periods", date(2024, 2, 1)) is state
    assert needed_days(story.states())["periods"] <= {date(2024, 3, 1)}


def test_without_landed_files_a_month_of_trading_days_is_over_with_the_last_of_them() -> None:
    story = others_story(orders=CALENDARS[8])  # the leap day is left out
    story.build("orders", date(2024, 2, 1), date(2024, 2, 28)).build("periods", date(2024, 2, 1))
    assert story.state("periods", date(2024, 2, 1)) is State.FRESH


def test_without_landed_files_a_quarter_is_over_with_its_last_month() -> None:
    made = contract("quarters", "period", Input("periods", calendar=Calendar(Unit.MONTH)))
    story = others_story(replace(made, calendar=Calendar(Unit.QUARTER)))
    months = [date(2024, 1, 1), date(2024, 2, 1), date(2024, 3, 1)]
    story.build("orders", *months, date(2024, 3, 30)).build("periods", *months)
    story.build("quarters", months[0])
    assert story.state("quarters", months[0]) is State.PROVISIONAL
    story.build("orders", date(2024, 3, 31)).build("periods", months[2])
    assert story.state("periods", months[2]) is State.FRESH
    story.build("quarters", months[0])
    assert story.state("quarters", months[0]) is State.FRESH


def test_a_month_with_a_missing_day_is_incomplete() -> None:
    story, days = february_until(10)
    story.build("staging", *days[:4], *days[5:])
    story.build("periods", date(2024, 2, 1))
    states = story.states()
    assert states.of("periods", date(2024, 2, 1)) is State.INCOMPLETE
    assert states.missing_inputs("periods", date(2024, 2, 1)) == [("staging", date(2024, 2, 5))]


def test_parameters_of_a_receipt_name_both_calendars_and_daily_ones_none() -> None:
    month = replace(contract("periods", "period", Input("staging")), calendar=CALENDARS[2])
    wanted = replace(month.inputs[0], calendar=CALENDARS[8])
    made = Parameters((wanted,), False, 0, timedelta(), FIRST)
    assert parse_parameters(made.to_json()) == made
    assert made.calendar == CALENDARS[2]
    plain = Parameters((Input("staging"),), False, None, timedelta(), FIRST)
    assert '"inputs":[["staging",0,0,"content"]]' in plain.to_json()


def test_holidays_of_another_year_outdate_no_code_and_other_periods_do() -> None:
    def code(calendar: Calendar) -> str:
        own = contract("periods", "period", Input("staging"))
        tables = [Table(RAW), Table(STAGING), Table(replace(own, calendar=calendar))]
        return make_pipeline(tables).codes["periods"].code_digest

    assert code(DAILY) == code(CALENDARS[7]) == code(CALENDARS[8])
    assert len({code(c) for c in CALENDARS[:7]}) == 7


def test_a_day_reads_the_month_that_covers_it_or_the_one_before() -> None:
    month = Calendar(Unit.MONTH)
    start = date(2024, 1, 15)
    same, earlier = Input("months", calendar=month), Input("months", 1, -1, calendar=month)
    assert same.window_days(date(2024, 3, 31), start) == [date(2024, 3, 1)]
    assert earlier.window_days(date(2024, 3, 31), start) == [date(2024, 2, 1)]
    assert earlier.window_days(date(2024, 2, 1), start) == []  # January began before the lake
    assert earlier.days_reading(date(2024, 2, 1)) == [*inclusive_range(*MARCH)]


def test_a_day_that_is_no_partition_waits_for_nothing() -> None:
    story = _story(CALENDARS[4], 0, 0)
    inside, before = date(2024, 1, 15), date(2023, 12, 1)
    assert story.state("periods", date(2024, 1, 1)) is State.FRESH
    assert {story.state("periods", day) for day in (inside, before)} == {State.PENDING}
