"""Downstream impact: days that become stale once others are rebuilt or put back.

Elsewhere: days that need a rebuild now (`kernel.core.needs`), and requests of runs with downstream
days (`dagster.run_requests`). The forecast takes it that every rebuilt day gets other content.
Fewer days may change in fact: a rebuild that changes nothing makes no day stale. Deliveries not
loaded yet count for the event day on which they arrived.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from datetime import date

from backfill_assets.kernel.core.contracts import Contract, InputKind
from backfill_assets.kernel.core.ledgers import ARRIVALS, source_table_name
from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import DayReceipt, Deliveries, LakeView, Source

COMING = "coming"  # stands for unknown content: equal to no fingerprint
NEVER_WRITTEN = DayReceipt(
    entry=DayEntry(0, COMING, ""),
    version=0,
    write_id=COMING,
    code_digest="",
    settings_digest="",
    run_id="",
)
MAY_FOLLOW = (
    State.FRESH,
    State.PROVISIONAL,
    State.OUTDATED,
    State.UNPINNED,
    State.INCOMPLETE,
)


def stale_after_needed(states: States) -> dict[str, frozenset[date]]:
    """Per table the days that become stale once all partitions to rebuild are rebuilt; empty if
    there are none.

    Leaves out days that are held, pending, stale or missing today.
    """
    return stale_after_rebuild(states, needed_days(states))


def stale_after_rebuild(
    states: States, rebuilt: Mapping[str, Set[date]]
) -> dict[str, frozenset[date]]:
    """Per table the days that become stale once the days `rebuilt` have other content.

    Leaves out `rebuilt` itself and days that are held, pending, stale or missing today.
    """
    rebuilt_days = {name: rebuilt.get(name, frozenset()) for name in states.contracts}
    stale = {name: frozenset[date]() for name in states.contracts}
    if not any(rebuilt_days.values()):
        return stale
    forecast, changed = states, dict[str, Set[date]]()
    for name, contract in states.contracts.items():  # upstream first
        # Its own days, too: a table may be made from earlier ones of itself.
        made_again = {**changed, name: rebuilt_days[name]}
        reached = days_maybe_changed(states, forecast, contract, made_again) - rebuilt_days[name]
        stale[name] = frozenset(_become_stale(states, forecast, contract, reached))
        changed[name] = stale[name] | rebuilt_days[name]
        if changed[name]:
            view = _view_after_rebuild(forecast, contract, changed[name])
            forecast = States(states.contracts.values(), view, states.codes)
    return stale


def _become_stale(
    states: States, forecast: States, contract: Contract, reached: Set[date]
) -> Iterator[date]:
    """Yield the written days of a table among the `reached` ones that are stale in `forecast`, or
    will be: in a table that is made from its own days each of them makes the next one stale."""
    for day in reached & states.view.table(contract.name).latest.keys():
        may_follow = states.of(contract.name, day) in MAY_FOLLOW
        if not may_follow:
            continue
        if contract.reads_itself or forecast.of(contract.name, day) is State.STALE:
            yield day


def stale_after_entries(
    states: States, entries: Mapping[str, Mapping[date, DayEntry]]
) -> dict[str, frozenset[date]]:
    """Per table the days that become stale once receipts hold these `entries` of a table's days.

    Days that the rollback itself puts back are held, and never among them; tables without stale
    days are left out.
    """
    view = states.view
    for name, days in entries.items():
        view = _view_with_entries(view, name, days)
    forecast = States(states.contracts.values(), view, states.codes)
    stale = {}
    for name in states.contracts:
        found = _stale_days(forecast, name) - _stale_days(states, name)
        if found:
            stale[name] = frozenset(found)
    return stale


def _stale_days(states: States, name: str) -> set[date]:
    """The written days of a table that are stale."""
    return {d for d in states.view.table(name).latest if states.of(name, d) is State.STALE}


def days_maybe_changed(
    states: States, forecast: States, contract: Contract, changed: Mapping[str, Set[date]]
) -> Set[date]:
    """The days whose input digest can differ in the states `forecast`: their windows reach a
    `changed` day (per table), or the frontier moved."""
    if forecast.frontier(contract.name) != states.frontier(contract.name):
        return set(states.view.table(contract.name).latest)
    found = days_made_from(states, contract, changed)
    for wanted in contract.inputs:
        if wanted.kind is InputKind.ARRIVALS:
            arrival_days = changed.get(wanted.table, frozenset())
            found |= _days_of_arrivals(forecast.view.source(wanted.table), arrival_days)
    return found


def _days_of_arrivals(source: Source, arrival_days: Set[date]) -> set[date]:
    """The event days of deliveries that came on these days."""
    found = set[date]()
    for event_day, rows in source.arrivals.items():
        if any(arrival_day in arrival_days for arrival_day, _ in rows):
            found.add(event_day)
    return found


def days_made_from(
    states: States, contract: Contract, changed: Mapping[str, Set[date]]
) -> set[date]:
    """The days that are made from a `changed` day of other tables; of a table that is made from its
    own days also what follows from these."""
    found = set[date]()
    own = dict(changed)
    while True:
        reached = set[date]()
        for wanted in contract.inputs:
            if wanted.reads_days:
                reached |= states.days_made_from(
                    contract.name, wanted, own.get(wanted.table, frozenset())
                )
        if reached <= found or not contract.reads_itself:
            return found | reached
        found |= reached
        written = reached & states.view.table(contract.name).latest.keys()
        own[contract.name] = written.union(own.get(contract.name, ()))


def _view_after_rebuild(states: States, contract: Contract, days: Set[date]) -> LakeView:
    """The view after a rebuild of these days of a table that gave other rows."""
    name = contract.name
    view = _view_with_entries(
        states.view, name, {d: _rebuilt_entry(states, contract, d) for d in days}
    )
    if not contract.is_landed:
        return view
    source = states.view.source(name)
    version = max(states.view.table(name).version, source.loaded_version)
    ledger = source.ledger
    loaded = {**ledger.inputs, name: version}
    # A load also makes the ledger that did not exist: any version says so.
    new_ledger = replace(ledger, version=max(ledger.version, 0), inputs=loaded)
    deliveries = replace(
        view.delivered.get(name, Deliveries()), arrivals=_arrivals_after_load(source, days)
    )
    return replace(
        view,
        tables={**view.tables, source_table_name(ARRIVALS, source.name): new_ledger},
        delivered={**view.delivered, name: deliveries},
    )


def _view_with_entries(view: LakeView, table: str, entries: Mapping[date, DayEntry]) -> LakeView:
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


def _rebuilt_entry(states: States, contract: Contract, day: date) -> DayEntry:
    """The entry of a rebuild of this day that gave other rows."""
    name = contract.name
    before = states.latest(name, day)
    landed = states.view.source(name).landed.get(day)
    rows = 1
    if contract.is_landed:
        rows = 0 if landed is None else landed.usable_rows
    elif before is not None:
        rows = max(before.entry.rows, 1)
    return DayEntry(rows, COMING, states.digests.of(name, day), states.built_as(name, day))


def _arrivals_after_load(
    source: Source, days: Set[date]
) -> Mapping[date, tuple[tuple[date, str], ...]]:
    """The ledger `arrivals` after a load of these arrival days; a day that was never loaded counts
    as its own event day."""
    arrivals = dict[date, tuple[tuple[date, str], ...]]()
    known = set[date]()
    for event_day, rows in source.arrivals.items():
        arrivals[event_day] = tuple((a, COMING if a in days else text) for a, text in rows)
        known.update(a for a, _ in rows)
    for day in days - known:
        arrivals[day] = tuple(sorted((*arrivals.get(day, ()), (day, COMING))))
    return arrivals
