"""Which days need a rebuild and may be rebuilt now, by states alone.

Not here: requests of runs that make these days (`dagster.run_requests`), which runs there are
(`dagster.adapter.runs`), and what follows from a rebuild (`reading.downstream`).

A day needs a rebuild if it is stale; or missing, and deliveries for it are loaded, or a day that is
written or needs a rebuild requires it, or it lies between the frontier and the first day of its
table that is written or needed so; never if held, outdated or pending.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.kernel.core.contracts import Contract, Input, InputKind
from backfill_assets.kernel.core.days import ONE_DAY, is_day_over, newest_day_over
from backfill_assets.kernel.core.digests import input_days_of, is_required
from backfill_assets.kernel.core.frontier import external_tables_upstream
from backfill_assets.kernel.core.states import State, States


@dataclass(frozen=True)
class Needs:
    """Days per table, upstream first."""

    needed: Mapping[str, frozenset[date]]  # days that need a rebuild
    ready: Mapping[str, frozenset[date]]  # of these, days whose inputs are all in place
    # the others, each with an input day that it waits for: (table, day)
    waiting: Mapping[str, Mapping[date, tuple[str, date]]] = field(default_factory=dict)


def rebuild_needs(
    states: States, busy: Mapping[str, Set[date]], until: date | None = None
) -> Needs:
    """What the lake's tables need. `busy`: days of queued or running runs; `until`: the first day
    without a partition."""
    needed = needed_days(states, until)
    ready: dict[str, frozenset[date]] = {}
    waiting: dict[str, dict[date, tuple[str, date]]] = {}
    for name, days in needed.items():
        waiting[name] = {}
        for day in days:
            input_day = first_unready_input(states, name, day, needed, busy)
            if input_day is not None:
                waiting[name][day] = input_day
        ready[name] = days.difference(waiting[name], busy.get(name, ()))
    return Needs(needed, ready, waiting)


def needed_days(states: States, until: date | None = None) -> dict[str, frozenset[date]]:
    """Per table the days that need a rebuild, whether or not their inputs are in place."""
    days = _named_days(states, until)
    found: dict[str, frozenset[date]] = {}
    # Downstream first: a missing day is needed where a needed day downstream requires it.
    for name in reversed(list(states.contracts)):
        contract = states.contracts[name]
        if contract.external:
            found[name] = frozenset()  # others write it
        elif contract.is_landed:
            found[name] = frozenset(_unloaded_days(states, name, days))
        else:
            own = states.keys_in(name, days)
            found[name] = frozenset(_stale_and_missing_days(states, contract, own, found))
    return {name: found[name] for name in states.contracts}


def _named_days(states: States, until: date | None) -> list[date]:
    """All days that anything names, from the lake's first day on."""
    view = states.view
    named = set[date]()
    for table in view.tables.values():
        named.update(table.latest)
    for source in view.sources.values():
        named.update(source.landed, source.arrivals)
    last = max(named, default=view.start)
    if states.frontiers.greatest is not None:
        last = max(last, newest_day_over(states.frontiers.greatest))
    end = last + ONE_DAY
    if until is not None:
        end = min(end, until)
    return [view.start + ONE_DAY * i for i in range((end - view.start).days)]


def _unloaded_days(states: States, name: str, days: Iterable[date]) -> Iterator[date]:
    """Yield arrival days on which something landed, or that were loaded from files that are gone,
    and that are not loaded."""
    landed = states.view.source(name).landed
    for day in days:
        if day not in landed and states.latest(name, day) is None:
            continue
        is_loaded = states.of(name, day) not in (State.MISSING, State.STALE)
        if states.view.is_due(day) and not is_loaded:
            yield day


def _stale_and_missing_days(
    states: States, contract: Contract, days: Iterable[date], below: Mapping[str, Set[date]]
) -> Iterator[date]:
    """Yield the days of a table that need a rebuild. `below`: those of the tables made from it."""
    theirs = states.view.awaits_others(contract.name)
    missing = []
    for day, state in states.of_days(contract.name, days):
        if day in theirs:
            continue
        if state is State.STALE:
            yield day
        elif state is State.MISSING:
            missing.append(day)
    if missing:
        yield from _needed_of_missing(states, contract, missing, below)


def _needed_of_missing(
    states: States, contract: Contract, missing: Collection[date], below: Mapping[str, Set[date]]
) -> Iterator[date]:
    """Yield the missing days that downstream days require, for which something arrived, or that lie
    between the first day of the table and the frontier. A wanted day before all others will be the
    first one: what lies behind it is asked for at once, not by a run of its own."""
    frontier = states.frontier(contract.name)
    wanted = _required_days(states, contract.name, set(missing), below)
    for source in states.frontiers.sources_of(contract.name):
        wanted.update(states.keys_in(contract.name, states.view.source(source).arrivals))
    for name in external_tables_upstream(states.contracts, contract.name):
        wanted.update(states.keys_in(contract.name, states.view.table(name).latest))
    written = states.view.table(contract.name).latest
    begins = min([*written, *wanted.intersection(missing)], default=date.max)
    for day in missing:
        is_gap = begins <= day and is_day_over(day, frontier)
        if is_gap or day in wanted:
            yield day


def _required_days(
    states: States, name: str, missing: Set[date], below: Mapping[str, Set[date]]
) -> set[date]:
    """The missing days of a table that downstream days require, both written ones and ones that
    need a rebuild."""
    found: set[date] = set()
    for contract in states.contracts.values():
        for wanted in contract.inputs:
            if wanted.table != name or wanted.kind is InputKind.ARRIVALS:
                continue
            users = {*states.view.table(contract.name).latest, *below.get(contract.name, ())}
            for day in missing - found:
                if _is_required_by(states, contract, wanted, day, users):
                    found.add(day)
    return found


def _is_required_by(
    states: States, contract: Contract, wanted: Input, day: date, users: Set[date]
) -> bool:
    """Whether one of these days of a table (`users`) requires a day of its input."""
    frontier = states.frontier(contract.name)
    reading = users & states.days_made_from(contract.name, wanted, {day})
    return any(is_required(day, user, frontier) for user in reading)


def first_unready_input(
    states: States,
    name: str,
    day: date,
    needed: Mapping[str, Set[date]],
    busy: Mapping[str, Set[date]],
) -> tuple[str, date] | None:
    """The first input day that the day waits for, as (table, day); None where all its inputs are in
    place."""
    for wanted in states.digests.inputs_of(name, day):
        if wanted.kind is InputKind.FILES:
            continue
        coming = needed.get(wanted.table, frozenset()) | busy.get(wanted.table, frozenset())
        coming |= states.view.awaits_others(wanted.table)
        if wanted.kind is InputKind.ARRIVALS:
            source = states.view.source(wanted.table)
            # Until these arrival days are loaded, the ledger `arrivals` cannot say which deliveries
            # a day is made from.
            to_load_first = source.doubted_arrivals() if source.ledger.exists else coming
            if to_load_first:
                return wanted.table, min(to_load_first)
            days = [arrival for arrival, _ in source.arrivals.get(day, ())]
        elif coming:
            days = input_days_of(wanted, day, states.view)
        else:
            continue
        for input_day in days:
            if input_day in coming:
                return wanted.table, input_day
    return None
