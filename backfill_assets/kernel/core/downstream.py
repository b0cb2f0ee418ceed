"""Downstream impact: days that become stale once others are rebuilt or put back, and downstream
partitions of a run.

Elsewhere: partitions that need a rebuild now, and requests of runs (`kernel.core.needs`). The
forecast takes it that every rebuilt day gets other content. Fewer days may change in fact: a
rebuild that changes nothing makes no day stale. Deliveries not loaded yet count for the event day
on which they arrived.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import date

from backfill_assets.kernel.core.contracts import Contract, InputKind
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.ledgers import ARRIVALS, named
from backfill_assets.kernel.core.needs import Needs, may_lie_between, needed_days
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import DayReceipt, Deliveries, LakeView, Source

COMING = "coming"  # stands for unknown content: equal to no fingerprint
NEVER_WRITTEN = DayReceipt(DayEntry(0, COMING, ""), 0, COMING, "", "", "")
MAY_FOLLOW = (State.FRESH, State.OUTDATED, State.UNPINNED, State.INCOMPLETE)


def will_change(states: States) -> dict[str, frozenset[date]]:
    """Per table the days that become stale once all partitions to rebuild are rebuilt; empty if
    there are none.

    Leaves out days that are held, pending, stale or missing today.
    """
    return following(states, needed_days(states))


def following(states: States, rebuilt: Mapping[str, Set[date]]) -> dict[str, frozenset[date]]:
    """Per table the days that become stale once the days `rebuilt` have other content.

    Leaves out `rebuilt` itself and days that are held, pending, stale or missing today.
    """
    rebuilt_days = {name: rebuilt.get(name, frozenset()) for name in states.contracts}
    forecast, stale = states, {name: frozenset[date]() for name in states.contracts}
    if not any(rebuilt_days.values()):
        return stale
    changed: dict[str, Set[date]] = {}
    for name, contract in states.contracts.items():
        made_again = {**changed, name: rebuilt_days[name]}
        reached = touched(states, forecast, contract, made_again) & set(
            states.view.table(name).latest
        )
        others = {d for d in reached - rebuilt_days[name] if states.of(name, d) in MAY_FOLLOW}
        if not contract.reads_itself:  # else each of these days makes the next one stale
            others = {d for d in others if forecast.of(name, d) is State.STALE}
        stale[name] = frozenset(others)
        changed[name] = stale[name] | rebuilt_days[name]
        if changed[name]:
            forecast = States(
                states.contracts.values(), _rebuilt(forecast, contract, changed[name]), states.codes
            )
    return stale


def stale_after(
    states: States, entries: Mapping[str, Mapping[date, DayEntry]]
) -> dict[str, frozenset[date]]:
    """Per table the days that become stale once receipts hold these `entries` of a table's days.

    Days that the rollback itself puts back are held, and never among them; tables without stale
    days are left out.
    """
    view = states.view
    for name, days in entries.items():
        view = _with_entries(view, name, days)
    forecast = States(states.contracts.values(), view, states.codes)
    stale = {
        name: frozenset(
            d
            for d in states.view.table(name).latest
            if forecast.of(name, d) is State.STALE and states.of(name, d) is not State.STALE
        )
        for name in states.contracts
    }
    return {name: days for name, days in stale.items() if days}


def touched(
    states: States, forecast: States, contract: Contract, changed: Mapping[str, Set[date]]
) -> Set[date]:
    """The days whose input digest can differ in the states `forecast`: their windows reach a
    `changed` day (per table), or the frontier moved."""
    if forecast.frontier(contract.name) != states.frontier(contract.name):
        return set(states.view.table(contract.name).latest)
    days_reached = _reached(states, contract, changed)
    for wanted in contract.inputs:
        if wanted.kind is InputKind.ARRIVALS:
            days, arrivals = (
                changed.get(wanted.table, frozenset()),
                forecast.view.source(wanted.table).arrivals,
            )
            days_reached |= {d for d, rows in arrivals.items() if any(a in days for a, _ in rows)}
    return days_reached


def _reached(states: States, contract: Contract, changed: Mapping[str, Set[date]]) -> set[date]:
    """The days that are made from a `changed` day of other tables; of a table that is made from its
    own days also what follows from these."""
    found, own = set[date](), dict(changed)
    while True:
        reached = set[date]().union(
            *(
                states.reading(contract.name, wanted, own.get(wanted.table, frozenset()))
                for wanted in contract.inputs
                if wanted.kind not in (InputKind.ARRIVALS, InputKind.FILES)
            )
        )
        if reached <= found or not contract.reads_itself:
            return found | reached
        found |= reached
        own[contract.name] = {
            *own.get(contract.name, ()),
            *(reached & states.view.table(contract.name).latest.keys()),
        }


def _rebuilt(states: States, contract: Contract, days: Set[date]) -> LakeView:
    """The view after a rebuild of these days of a table that gave other rows."""
    name = contract.name
    view = _with_entries(states.view, name, {d: _entry(states, contract, d) for d in days})
    if not contract.is_landed:
        return view
    source = states.view.source(name)
    version = max(states.view.table(name).version, source.loaded_version)
    ledger, loaded = source.ledger, {**source.ledger.inputs, name: version}
    new_ledger = replace(ledger, version=max(ledger.version, 0), inputs=loaded)
    deliveries = replace(view.delivered.get(name, Deliveries()), arrivals=_arrivals(source, days))
    return replace(
        view,
        tables={**view.tables, named(ARRIVALS, source.name): new_ledger},
        delivered={**view.delivered, name: deliveries},
    )


def _with_entries(view: LakeView, table: str, entries: Mapping[date, DayEntry]) -> LakeView:
    """The view with these entries of a table's days in place of the present ones."""
    before = view.table(table)
    latest = {
        d: replace(before.latest.get(d, NEVER_WRITTEN), entry=e, write_id=COMING)
        for d, e in entries.items()
    }
    after = replace(
        before, latest={**before.latest, **latest}, foreign=before.foreign - entries.keys()
    )
    return replace(view, tables={**view.tables, table: after})


def _entry(states: States, contract: Contract, day: date) -> DayEntry:
    """The entry of a rebuild of this day that gave other rows."""
    name, before = contract.name, states.latest(contract.name, day)
    rows = max(before.entry.rows if before else 0, 1)
    if contract.is_landed:
        rows = landed.usable_rows if (landed := states.view.source(name).landed.get(day)) else 0
    return DayEntry(rows, COMING, states.digests.of(name, day), states.built_as(name, day))


def _arrivals(source: Source, days: Set[date]) -> Mapping[date, tuple[tuple[date, str], ...]]:
    """The ledger `arrivals` after a load of these arrival days; a day that was never loaded counts
    as its own event day."""
    known = {a for rows in source.arrivals.values() for a, _ in rows}
    arrivals = {
        d: tuple((a, COMING if a in days else f) for a, f in rows)
        for d, rows in source.arrivals.items()
    }
    for day in days - known:
        arrivals[day] = tuple(sorted((*arrivals.get(day, ()), (day, COMING))))
    return arrivals


def with_downstream(
    states: States, requests: Sequence[Work], found: Needs, busy: Mapping[str, Set[date]]
) -> list[Work]:
    """Add downstream tables to the run of the first request, and leave out the requests that this
    run covers.

    Tables are added upstream first while every day in the joint range is up to date or rebuilt by
    that run, in each table, and its inputs exist or are rebuilt by it. A request that was tried
    before stays alone. Downstream days are not requested by this: a day that the run does not
    rebuild is stale afterwards and is requested by itself, with attempts of its own.
    """
    if not requests or requests[0].attempt:
        return list(requests)
    first = requests[0]
    forecast = will_change(states)
    changed: dict[str, Set[date]] = {first.table: first.needed_days}
    for name, contract in states.contracts.items():
        follows = _reached(states, contract, changed) & (forecast[name] | set(found.waiting[name]))
        if follows and name != first.table and not contract.made_by:
            changed[name] = follows
    reached = {name: days for name, days in changed.items() if name != first.table}
    fresh = {
        name: [r for r in requests if r.table == name and not r.attempt]
        for name in states.contracts
    }
    while reached:
        days = first.needed_days.union(*reached.values())
        covered = DayRange(min(days), max(days) + ONE_DAY)
        inside = {
            n: [r for r in fresh[n] if covered.start <= r.days.start and r.days.end <= covered.end]
            for n in (first.table, *reached)
        }
        rebuilt = {
            n: {*reached.get(n, ())}.union(*(own.needed_days for own in inside[n])) for n in inside
        }
        if all(_may_be_covered(states, name, covered, rebuilt, busy) for name in rebuilt):
            identities = {
                day: identity for r in inside[first.table] for day, identity in r.needed.items()
            }
            joint = replace(first, needed=identities, tables=(first.table, *reached), days=covered)
            others = [
                r
                for r in requests
                if not any(r is other for own in inside.values() for other in own)
            ]
            return [joint, *others]
        reached.popitem()  # else without the last table, as far as one run can cover the others
    return list(requests)


def _may_be_covered(
    states: States,
    name: str,
    covered: DayRange,
    rebuilt: Mapping[str, Set[date]],
    busy: Mapping[str, Set[date]],
) -> bool:
    busy_days = busy.get(name, frozenset())
    inputs = [
        i.table
        for i in states.contracts[name].inputs
        if i.kind not in (InputKind.ARRIVALS, InputKind.FILES)
    ]
    latest = [states.view.table(table).latest for table in inputs if table not in rebuilt]
    return all(
        day not in busy_days
        and (day in rebuilt[name] or may_lie_between(states, name, day))
        and all(day in of_input for of_input in latest)
        for day in covered
    )
