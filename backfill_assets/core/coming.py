"""What will follow: days that are right today and must be made again once the days they are made from have been.

Lives here: the forecast, from states alone. Does not live here: what needs making now (`core.needs`). It asks the rule
itself: the days that need making are taken as made, with other content, and whatever is stale then will follow. So
windows, cuts and maturity are those of the contracts.

It gives the most that can follow from what the ledgers name. A day that is made again and comes out as it was ends its
cascade; deliveries that were never loaded count for the event day on which they arrived, until they are.
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import date

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.ledgers import ARRIVALS, named
from backfill_assets.core.needs import needed_days
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.states import State, States
from backfill_assets.core.view import LakeView, Source, Stamp

COMING = "coming"  # stands for content that nobody knows yet: equal to no fingerprint
MAY_FOLLOW = (State.FRESH, State.OUTDATED, State.INCOMPLETE)


def will_change(states: States) -> dict[str, frozenset[date]]:
    """Per table the days that will be stale once everything that needs making has been made; not those that are.

    Empty where nothing needs making. Held, pending, stale and missing days are never among them.
    """
    return following(states, needed_days(states))


def following(states: States, made: Mapping[str, Set[date]]) -> dict[str, frozenset[date]]:
    """Per table the days that will be stale once the days `made` have been, with other content; not those themselves,
    nor days that are stale, missing, pending or held today."""
    needed = {name: made.get(name, frozenset()) for name in states.contracts}
    then, found = states, {name: frozenset[date]() for name in states.contracts}
    if not any(needed.values()):
        return found
    changed: dict[str, Set[date]] = {}
    for name, contract in states.contracts.items():
        reached = touched(states, then, contract, changed) & set(states.view.table(name).stamps)
        found[name] = frozenset(
            d for d in reached - needed[name] if states.of(name, d) in MAY_FOLLOW and then.of(name, d) is State.STALE
        )
        changed[name] = found[name] | needed[name]
        if changed[name]:
            then = States(states.contracts.values(), _made(then, contract, changed[name]), states.codes)
    return found


def touched(states: States, then: States, contract: Contract, changed: Mapping[str, Set[date]]) -> Set[date]:
    """The days whose digest can differ then: what a window reaches from changed days; all where the frontier moved."""
    if then.frontier(contract.name) != states.frontier(contract.name):
        return set(states.view.table(contract.name).stamps)
    found: set[date] = set()
    for wanted in contract.inputs:
        days = changed.get(wanted.table, frozenset())
        if wanted.basis is Basis.ARRIVALS:
            found |= {
                d for d, rows in then.view.source(wanted.table).arrivals.items() if any(a in days for a, _ in rows)
            }
        else:
            reach = range(-wanted.after, wanted.before + 1)
            found |= {day + ONE_DAY * offset for day in days for offset in reach}
    return found


def _made(states: States, contract: Contract, days: Set[date]) -> LakeView:
    """The view as it would be with these days of a table made, their content another one."""
    view, name = states.view, contract.name
    before = view.table(name)
    stamps = {**before.stamps, **{d: _stamp(states, contract, d) for d in days}}
    tables = {**view.tables, name: replace(before, stamps=stamps, foreign=before.foreign - days)}
    if not contract.is_landed:
        return replace(view, tables=tables)
    source = view.source(name)
    ledger, loaded = source.ledger, {**source.ledger.inputs, name: max(before.version, source.loaded_version)}
    tables[named(ARRIVALS, source.name)] = replace(ledger, version=max(ledger.version, 0), inputs=loaded)
    arrived = replace(source.delivered, arrivals=_arrivals(source, days))
    return replace(view, tables=tables, delivered={**view.delivered, name: arrived})


def _stamp(states: States, contract: Contract, day: date) -> Stamp:
    before, digest = states.stamp(contract.name, day), states.digests.of(contract.name, day)
    rows = max(before.entry.rows if before else 0, 1)
    if contract.is_landed:
        rows = landed.usable_rows if (landed := states.view.source(contract.name).landed.get(day)) else 0
    entry = DayEntry(rows, COMING, digest, states.built_as(contract.name, day))
    return replace(before, entry=entry) if before else Stamp(entry, 0, COMING, "", "", "")


def _arrivals(source: Source, days: Set[date]) -> Mapping[date, tuple[tuple[date, str], ...]]:
    """The ledger with the deliveries of these arrival days changed; of those never loaded, as if of that event day."""
    known = {a for rows in source.arrivals.values() for a, _ in rows}
    told = {d: tuple((a, COMING if a in days else f) for a, f in rows) for d, rows in source.arrivals.items()}
    for day in days - known:
        told[day] = tuple(sorted((*told.get(day, ()), (day, COMING))))
    return told
