"""Days and half-open ranges of days: what people type, what code holds, and how ranges are grouped.

Tested here: `kernel.core.days`, cuts and maturity too. Not tested here: windows of contracts
(`test_contracts.py`, `test_digests.py`).
"""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core import days as cuts
from backfill_assets.kernel.core.days import (
    ONE_DAY,
    DayRange,
    SomeDays,
    contiguous_ranges,
    covering_ranges,
    days_text,
    inclusive_range,
    midnight,
    parse_day,
    parse_days,
    parse_span,
    some_days,
)
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets_tests.strategies import day_ranges, near_days

LEAP_DAY = date(2024, 2, 29)
NOT_DAYS = [
    "",
    "yesterday",
    "2024-3-31",
    "20240331",
    "2024-W13-7",
    "2024-091",
    "2024-03-31T00:00:00",
    "2024-03-31 ",
    "2024-03-31\n",
    "2023-02-29",
    "2024-13-01",
    "0000-01-01",
    "+024-03-31",
    "٢٠٢٤-٠٣-٣١",
    "２０２４-03-31",
    "2024‐03‐31",
    "2024-03-31' OR '1'='1",
    "1' OR '1'=",
]


def test_a_range_ends_before_the_last_day_that_a_date_can_be() -> None:
    assert parse_span("9999-12-30").last == date(9999, 12, 30)
    with pytest.raises(BackfillError, match="after 9999-12-31 there is no midnight"):
        parse_span("2024-03-01..9999-12-31")


@pytest.mark.parametrize("text", NOT_DAYS)
def test_text_that_is_not_a_day_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BackfillError, match="YYYY-MM-DD") as caught:
        parse_day(text)
    assert "2024-03-31" in caught.value.fix


@given(st.text(max_size=12))
def test_any_text_is_a_day_or_refused(text: str) -> None:
    try:
        found = parse_day(text)
    except BackfillError:
        return
    assert str(found) == text


@given(day_ranges)
def test_a_range_lists_each_of_its_days_once_ascending(span: DayRange) -> None:
    listed = list(span)
    assert len(listed) == len(span) == (span.end - span.start).days
    assert listed[0] == span.start
    assert listed[-1] == span.last
    assert listed == sorted(set(listed))


@given(day_ranges)
def test_a_range_holds_its_first_day_and_not_its_end(span: DayRange) -> None:
    assert span.start in span
    assert span.last in span
    assert span.end not in span
    assert "2024-02-29" not in span


@given(st.lists(near_days))
def test_ranges_hold_exactly_the_days_they_were_grouped_from(some: list[date]) -> None:
    assert [d for span in contiguous_ranges(some) for d in span] == sorted(set(some))


@pytest.mark.parametrize("end", [LEAP_DAY, LEAP_DAY - ONE_DAY])
def test_a_range_is_never_empty(end: date) -> None:
    with pytest.raises(ValueError, match="ends after it starts"):
        DayRange(LEAP_DAY, end)


@given(day_ranges)
def test_a_range_reads_as_people_type_it(span: DayRange) -> None:
    ends = [parse_day(part) for part in str(span).split("..")]
    assert inclusive_range(ends[0], ends[-1]) == span


@given(st.sets(st.dates(date(2024, 1, 1), date(2024, 3, 1)), min_size=1), st.integers(1, 5))
def test_covering_ranges_are_few_hold_every_day_and_are_contiguous_when_they_may(
    days: set[date], most: int
) -> None:
    found = covering_ranges(days, most)
    assert len(found) <= most
    assert days <= {d for r in found for d in r}
    assert covering_ranges(days, len(days)) == contiguous_ranges(days)
    apart = covering_ranges(days, len(days), apart=most)
    assert all((two.start - one.end).days >= most for one, two in pairwise(apart))
    assert days <= {d for r in apart for d in r}


@given(st.sets(near_days, min_size=1))
def test_days_that_are_no_range_are_held_as_if_they_were_one_without_the_others(
    chosen: set[date],
) -> None:
    held = some_days(chosen)
    assert list(held) == sorted(chosen)
    assert len(held) == len(chosen)
    assert [d for d in DayRange(min(chosen), max(chosen) + ONE_DAY * 2) if d in held] == sorted(
        chosen
    )
    assert isinstance(held, SomeDays) == (len(contiguous_ranges(chosen)) > 1)
    assert parse_days(days_text(held)) == held
    assert (held.start, held.last) == (min(chosen), max(chosen))


def test_a_list_of_days_names_days_and_spans_with_whole_or_short_last_days() -> None:
    days = [
        date(2024, 3, 1),
        *DayRange(date(2024, 3, 5), date(2024, 3, 8)),
        date(2024, 3, 31),
        date(2024, 4, 1),
    ]
    held = parse_days("2024-03-05..07, 2024-03-01,2024-03-31..04-01,")
    assert list(held) == days
    assert parse_days("2024-03-01,2024-03-05..2024-03-07,2024-03-31..2024-04-01") == held
    assert held.to_dict() == {
        "from": "2024-03-01",
        "to": "2024-04-01",
        "days": "2024-03-01,2024-03-05..2024-03-07,2024-03-31..2024-04-01",
    }
    assert str(held) == "2024-03-01, 2024-03-05..2024-03-07, 2024-03-31..2024-04-01"
    assert parse_days("2024-03-01..31") == DayRange(date(2024, 3, 1), date(2024, 4, 1))
    for wrong, told in (
        ("2024-03-05..04", "before it starts"),
        ("", "names no day"),
        ("2024-03-05..7", "not a date"),
    ):
        with pytest.raises(BackfillError, match=told):
            parse_days(wrong)
    with pytest.raises(ValueError, match="at least one day"):
        some_days([])


DAYS = st.dates(date(2023, 1, 1), date(2025, 12, 31))
INSTANTS = st.datetimes(datetime(2023, 1, 1), datetime(2025, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
GRACE = st.integers(0, 72).map(lambda hours: timedelta(hours=hours))
SPANS = st.integers(0, 120)


@given(DAYS, INSTANTS)
def test_a_day_is_over_when_no_later_instant_lies_in_it(day: date, frontier: datetime) -> None:
    assert cuts.is_day_over(day, frontier) == (frontier.date() > day)
    assert not cuts.is_day_over(day, None)


@given(DAYS, GRACE, INSTANTS)
def test_a_cut_is_midnight_after_the_day_plus_the_grace(
    day: date, grace: timedelta, frontier: datetime
) -> None:
    cut = cuts.cut_of(day, grace)
    assert cut == midnight(day) + ONE_DAY + grace
    assert cuts.cut_has_passed(day, grace, cut)
    assert not cuts.cut_has_passed(day, grace, cut - cuts.LEAST)
    assert cuts.cut_has_passed(day, grace, frontier) == (cut <= frontier)
    assert not cuts.cut_has_passed(day, grace, None)


@given(DAYS, GRACE)
def test_the_last_known_day_begins_before_the_cut_and_the_next_does_not(
    day: date, grace: timedelta
) -> None:
    last, cut = cuts.last_known_day(day, grace), cuts.cut_of(day, grace)
    assert midnight(last) < cut <= midnight(last + ONE_DAY)


@given(DAYS, SPANS, SPANS, INSTANTS)
def test_a_label_is_mature_once_horizon_and_maturity_have_passed(
    day: date, h: int, m: int, frontier: datetime
) -> None:
    after = cuts.days_until_mature(h, m)
    assert cuts.is_mature(day, after, frontier) == (
        midnight(day) + timedelta(days=1 + h + m) <= frontier
    )
    assert not cuts.is_mature(day, after, None)


@given(INSTANTS, SPANS)
def test_the_newest_mature_day_is_mature_and_the_next_is_not(
    frontier: datetime, after: int
) -> None:
    newest = cuts.newest_mature_day(frontier, after)
    assert cuts.is_mature(newest, after, frontier)
    assert not cuts.is_mature(newest + ONE_DAY, after, frontier)


def test_the_newest_day_that_is_over_is_one_of_utc() -> None:
    assert cuts.newest_day_over(datetime.fromisoformat("2024-03-01T00:30:00+01:00")) == date(
        2024, 2, 28
    )
