"""What follows from a request in the same run: the days downstream that will be stale once its days were made.

Lives here: which tables may ride along with a request and over which days, from states alone. Does not live here: what
is asked for (`core.requests`), and the forecast itself (`core.coming`).

Riders are never requested by this: a day that does not come out of such a run is stale and ready afterwards, and is
requested by itself, with attempts of its own. Whatever the run covers without need is settled, and costs next to
nothing.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import date

from backfill_assets.core.coming import will_change
from backfill_assets.core.contracts import Basis
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.needs import Needs, may_lie_between
from backfill_assets.core.requests import RunRequest
from backfill_assets.core.states import States


def with_riders(
    states: States, requests: Sequence[RunRequest], found: Needs, busy: Mapping[str, Set[date]]
) -> list[RunRequest]:
    """The requests, the first of them together with what follows from it; those that it then makes are left out.

    As many tables ride along, upstream first, as the range of all their days allows: every day of it is settled or to
    be made, in each of the tables, and its own inputs exist or are made in the same run. A request that was tried
    before stays alone.
    """
    if not requests or requests[0].attempt:
        return list(requests)
    first = requests[0]
    forecast = will_change(states)
    follow = {name: forecast[name] | set(found.waiting[name]) for name in states.contracts}
    reached = _reached(states, first, follow)
    fresh = {name: [r for r in requests if r.table == name and not r.attempt] for name in states.contracts}
    while reached:
        days = _days_of(first).union(*reached.values())
        covered = DayRange(min(days), max(days) + ONE_DAY)
        inside = {n: [r for r in fresh[n] if _is_within(r, covered)] for n in (first.table, *reached)}
        made = {n: reached.get(n, set()).union(*map(_days_of, asked)) for n, asked in inside.items()}
        if all(_may_be_covered(states, name, covered, made, busy) for name in made):
            asked = {day: known for r in inside[first.table] for day, known in r.asked.items()}
            whole = replace(first, asked=asked, riders=tuple(reached), covered=covered)
            others = [r for r in requests if not any(r is other for found in inside.values() for other in found)]
            return [whole, *others]
        reached.popitem()
    return list(requests)


def _days_of(request: RunRequest) -> set[date]:
    return set(map(date.fromisoformat, request.asked))


def _is_within(request: RunRequest, covered: DayRange) -> bool:
    return covered.start <= request.days.start and request.days.end <= covered.end


def _reached(states: States, first: RunRequest, follow: Mapping[str, Set[date]]) -> dict[str, set[date]]:
    """Per table downstream, upstream first, the days that follow from the request by the windows of the contracts."""
    changed: dict[str, set[date]] = {first.table: _days_of(first)}
    for name, contract in states.contracts.items():
        found = set[date]()
        for wanted in contract.inputs:
            if wanted.basis not in (Basis.ARRIVALS, Basis.FILES):
                reach = [ONE_DAY * n for n in range(-wanted.after, wanted.before + 1)]
                found |= {day + offset for day in changed.get(wanted.table, ()) for offset in reach}
        if found & follow[name] and name != first.table:
            changed[name] = found & follow[name]
    return {name: days for name, days in changed.items() if name != first.table}


def _may_be_covered(
    states: States, name: str, covered: DayRange, made: Mapping[str, Set[date]], busy: Mapping[str, Set[date]]
) -> bool:
    taken = busy.get(name, frozenset())
    inputs = [i.table for i in states.contracts[name].inputs if i.basis not in (Basis.ARRIVALS, Basis.FILES)]
    stamps = [states.view.table(table).stamps for table in inputs if table not in made]
    return all(
        day not in taken
        and (day in made[name] or may_lie_between(states, name, day))
        and all(day in of_input for of_input in stamps)
        for day in covered
    )
