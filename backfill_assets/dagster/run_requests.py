"""Requests of runs: which days one run makes together, upstream first, and what tells one request
from the next.

A request of a day is identified by its input digest, the write_id of the day's rows, and the rules
(code, settings, gates): a changed input or rule is a new request, and a run that ended and left the
identity as it was is an attempt. Here: plain values, for sensors and for `catch-up`, which ask for
the same. Not here: which days need a rebuild (`kernel.core.needs`), which runs there are, and
requests in the words of Dagster (`dagster.adapter`: `runs`, `backfill_requests`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import date

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.needs import Needs
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.states import Codes, State, States
from backfill_assets.reading.downstream import days_made_from, stale_after_needed

# What one more run of five tables costs: 3 s in a command, 8 s in a process of its own.
RUN_SECONDS = 4.0
# What one more settled day costs in such a run: five events a table, which Dagster records.
DAY_SECONDS = 0.03
IDENTITY_CHARS = 12  # of each digest: enough to tell a day's own versions apart
# Joining over more settled days than this costs more than a run.
MOST_GAP_DAYS = int(RUN_SECONDS / DAY_SECONDS)


def request_identities(
    states: States, table: str, days: Iterable[date], rules: str = ""
) -> dict[date, str]:
    """Per day its input digest, the write_id of its rows, and the digest of code, settings and
    `rules` (whatever else decides how a run ends: the table's gates, the lake)."""
    codes = states.codes.get(table) or Codes("", "")
    rules_digest = digest_of([codes.code_digest, codes.settings_digest, rules])
    by_day = {}
    for day in sorted(days):
        receipt = states.latest(table, day)
        write = digest_of(receipt.write_id)[:IDENTITY_CHARS] if receipt else "nothing"
        as_made = states.digests.as_made(table, day)[:IDENTITY_CHARS]
        by_day[day] = f"{as_made}.{write}.{rules_digest[:IDENTITY_CHARS]}"
    return by_day


def run_requests(
    states: States,
    table: str,
    known: Mapping[date, str],
    tried: Mapping[date, int],
    most: int,
    busy: Set[date],
) -> tuple[list[Work], list[date]]:
    """Requests for the days of `known` (with their identities), and the days that were `tried`
    `most` times as they are and need a person. First days never tried, ascending, in ranges that
    lead over no `busy` day; then each day that failed, alone, so that it holds no other day
    back."""
    given_up = [day for day in known if tried.get(day, 0) >= most]
    first_time = {day for day in known if not tried.get(day, 0)}
    requests = []
    for span in joined_ranges(states, table, first_time, busy):
        needed = {str(day): known[day] for day in span if day in first_time}
        requests.append(Work(span, (table,), needed=needed))
    for day in known:
        if 0 < tried.get(day, 0) < most:
            span, needed = DayRange(day, day + ONE_DAY), {str(day): known[day]}
            requests.append(Work(span, (table,), needed=needed, attempt=tried[day]))
    return requests, given_up


def joined_ranges(
    states: States, name: str, days: Collection[date], busy: Set[date] = frozenset()
) -> list[DayRange]:
    """The days as ranges, ascending; neighbours are joined over settled days (of a landed table
    also days on which nothing landed) where that is cheaper than another run, never over busy
    days."""
    ranges: list[DayRange] = []
    for day in sorted(days):
        if ranges and _may_join_over(states, name, ranges[-1].end, day, busy):
            ranges[-1] = DayRange(ranges[-1].start, day + ONE_DAY)
        else:
            ranges.append(DayRange(day, day + ONE_DAY))
    return ranges


def _may_join_over(states: States, name: str, start: date, end: date, busy: Set[date]) -> bool:
    """Whether a run of days before `start`, and from `end` on, may also cover the days between."""
    if start == end:
        return True
    gap = DayRange(start, end)
    if len(gap) > MOST_GAP_DAYS or not busy.isdisjoint(gap):
        return False
    between = [day for day in states.keys_in(name, gap) if day in gap]
    return all(may_lie_between(states, name, day) for day in between)


def may_lie_between(states: States, name: str, day: date) -> bool:
    """Whether a run of other days may also cover this day: the day is settled, or nothing landed on
    it. A closed day may not: what the run makes first can change its inputs, and a write of it
    is refused."""
    contract = states.contracts[name]
    if states.of(name, day).is_left_alone:
        return False
    if states.is_settled(name, day):
        return not states.is_pending(contract, day)
    if not contract.is_landed or day in states.view.source(name).landed:
        return False
    return states.of(name, day) is State.MISSING


def requests_with_downstream(
    states: States,
    requests: Sequence[Work],
    found: Needs,
    busy: Mapping[str, Set[date]],
    chosen: Collection[str] | None = None,
) -> list[Work]:
    """Add downstream tables (of the `chosen` ones; None: of all) to the run of the first request,
    and leave out the requests that this run covers.

    Tables are added upstream first while every day in the joint range is up to date or rebuilt by
    that run, in each table, and its inputs exist or are rebuilt by it. A request that was tried
    before stays alone. Downstream days are not requested by this: a day that the run does not
    rebuild is stale afterwards and is requested by itself, with attempts of its own.
    """
    if not requests or requests[0].attempt:
        return list(requests)
    first = requests[0]
    reached = _days_downstream(states, first, found)
    if chosen is not None:
        reached = {name: days for name, days in reached.items() if name in chosen}
    while reached:
        days = first.needed_days.union(*reached.values())
        covered = DayRange(min(days), max(days) + ONE_DAY)
        tables = (first.table, *reached)
        inside = [r for r in requests if _is_inside(r, tables, covered)]
        rebuilt = {name: set(reached.get(name, ())) for name in tables}
        for request in inside:
            rebuilt[request.table] |= request.needed_days
        if all(_may_run_cover(states, name, covered, rebuilt, busy) for name in tables):
            others = [r for r in requests if not _is_inside(r, tables, covered)]
            joint = replace(
                first, needed=_needed_of(first.table, inside), tables=tables, days=covered
            )
            return [joint, *others]
        reached.popitem()  # else without the last table, as far as one run can cover the others
    return list(requests)


def _needed_of(table: str, requests: Iterable[Work]) -> dict[str, str]:
    """The days of the table that these requests are for, with their identities."""
    needed = dict[str, str]()
    for request in requests:
        if request.table == table:
            needed.update(request.needed)
    return needed


def _days_downstream(states: States, first: Work, found: Needs) -> dict[str, Set[date]]:
    """Per table downstream of the request the days that follow from its days, and that need a
    rebuild afterwards; not of assets, whose days Dagster alone makes, and not of tables with other
    partitions, which have runs of their own."""
    forecast = stale_after_needed(states)
    changed: dict[str, Set[date]] = {first.table: first.needed_days}
    calendar = states.contracts[first.table].calendar
    for name, contract in states.contracts.items():
        is_of_own_runs = contract.made_by or contract.calendar != calendar
        if name == first.table or is_of_own_runs:
            continue
        needed = forecast[name].union(found.waiting[name])
        follows = days_made_from(states, contract, changed) & needed
        if follows:
            changed[name] = follows
    del changed[first.table]
    return changed


def _is_inside(request: Work, tables: Collection[str], covered: DayRange) -> bool:
    """Whether a run of these tables and days does all that the request asks for."""
    if request.attempt or request.table not in tables:
        return False
    return covered.start <= request.days.start and request.days.end <= covered.end


def _may_run_cover(
    states: States,
    name: str,
    covered: DayRange,
    rebuilt: Mapping[str, Set[date]],
    busy: Mapping[str, Set[date]],
) -> bool:
    """Whether a run that makes the days `rebuilt` of each table may cover all days `covered` of
    this one: none is `busy`, the input days exist that it does not make itself, and what it does
    not rebuild is settled."""
    busy_days = busy.get(name, frozenset())
    inputs = [i.table for i in states.contracts[name].inputs if i.reads_days]
    present = [states.view.table(table).latest for table in inputs if table not in rebuilt]
    for day in covered:
        if day in busy_days or any(day not in days for days in present):
            return False
        if day not in rebuilt[name] and not may_lie_between(states, name, day):
            return False
    return True
