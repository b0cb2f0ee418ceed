"""Which days a look at the lake need not judge again, because nothing that decides their state has moved.

Lives here: comparing two views. Does not live here: what decides a state (`core.states`, `core.digests`). Where it is
not plain what a difference reaches, every day is judged again: the frontier, releases, other programs' writes of raw.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from backfill_assets.core.contracts import Basis, Contract, Input
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.view import LakeView, Source, TableView


def moved_days(contracts: Iterable[Contract], before: LakeView, now: LakeView) -> Mapping[str, set[date]] | None:
    """Per table (upstream first) the days that may be in another state now; None: any may be. The frontiers, the code
    and the settings of both views are the same; a day was made with today's parameters.

    The cost follows what was written, but for one comparison of objects per day.
    """
    if (before.start, before.as_of, before.grace) != (now.start, now.as_of, now.grace):
        return None
    written, moved = dict[str, set[date]](), dict[str, set[date]]()
    for contract in contracts:
        name = contract.name
        days = _written(before.table(name), now.table(name))
        if contract.is_landed:
            landed = _landed(before.source(name), now.source(name))
            if landed is None:
                return None
            days |= landed
        written[name] = set(days)
        for wanted in contract.inputs:
            if wanted.basis is Basis.ARRIVALS:
                sources = before.source(wanted.table), now.source(wanted.table)
                days |= _differing(*(s.arrivals for s in sources))
            else:
                # What was known at a cut also asks whether a day of the input is as its own inputs say.
                of = moved if wanted.basis is Basis.KNOWN_AT_CUT else written
                days |= _reached(wanted, of.get(wanted.table, ()))
        moved[name] = days
    return moved


def _written(before: TableView, now: TableView) -> set[date]:
    return _differing(before.stamps, now.stamps) | (before.foreign ^ now.foreign)


def _landed(before: Source, now: Source) -> set[date] | None:
    if before.loaded.foreign != now.loaded.foreign or before.releases != now.releases:
        return None
    days = _differing(before.landed, now.landed) | (before.doubted ^ now.doubted)
    if before.loaded_version != now.loaded_version:
        known = min(before.loaded_version, now.loaded_version)
        days |= {d for d, s in now.loaded.stamps.items() if s.version > known}
    return days


def _differing(before: Mapping[date, Any], now: Mapping[date, Any]) -> set[date]:
    if before is now:
        return set()
    gone = {d for d in before if d not in now}
    return gone | {d for d, said in now.items() if (known := before.get(d)) is not said and known != said}


def _reached(wanted: Input, days: Iterable[date]) -> set[date]:
    """The days whose window of this input holds one of these."""
    return {d + ONE_DAY * n for d in days for n in range(-wanted.after, wanted.before + 1)}
