"""The frontier: the instant up to which all that landed is loaded. It decides cuts and maturity.

Lives here: the frontier, what is loaded. Does not live here: the cut of a day and maturity (`core.cuts`), and the
clock, which never decides content.
"""

from datetime import date, datetime

from backfill_assets.core.cuts import end_of
from backfill_assets.core.days import midnight
from backfill_assets.core.digests import raw_digest
from backfill_assets.core.view import LakeView


def is_loaded(day: date, view: LakeView) -> bool:
    """Whether the arrival day is in the landed table, from today's files, the ledger `arrivals` has named its version,
    and no other program has touched its ledgers since."""
    stamp = view.loaded.stamps.get(day)
    if stamp is None or stamp.version > view.loaded_version or view.is_doubted(day):
        return False
    return stamp.entry.input_digest == raw_digest(day, view)


def frontier_of(view: LakeView) -> datetime | None:
    """The frontier of the lake (aware, UTC), or None before anything was loaded.

    Midnight after the newest loaded arrival day that holds a delivery, but not past the start of the oldest arrival
    day with usable landed rows that is not loaded; `as_of` itself once nothing before it waits. Never less than any
    frontier that a receipt names, so that late files only stop it rising: of whichever table, because a withdrawn file
    or a later `as_of` lets it rise, and days be built, without a load that would record it.
    """
    waiting = [
        d for d, landed in view.landed.items() if landed.usable_rows and view.is_due(d) and not is_loaded(d, view)
    ]
    loaded = [d for d, stamp in view.loaded.stamps.items() if stamp.entry.rows and is_loaded(d, view)]
    recorded = [t.frontier for t in view.tables.values() if t.frontier is not None]
    candidates = list(recorded)
    if waiting and loaded:
        candidates.append(min(midnight(min(waiting)), end_of(max(loaded))))
    elif view.as_of is not None and not waiting and view.ledger.version >= 0:
        candidates.append(view.as_of)
    elif loaded:
        candidates.append(end_of(max(loaded)))
    if not candidates:
        return None
    newest = max(candidates)
    return newest if view.as_of is None else min(newest, view.as_of)
