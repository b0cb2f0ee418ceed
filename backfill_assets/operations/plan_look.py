"""A plan's look ahead: days that gain or lose rows under today's settings, and the days that follow from these.

Lives here: asking for the moves and carrying them through the windows. Does not live here: reading what landed
(`load.moves`). Only where it is asked for (`--look`): it needs the engine; all else of a plan needs none.
"""

from collections.abc import Iterable, Set
from datetime import date

from backfill_assets.core.coming import touched
from backfill_assets.core.days import DayRange, contiguous
from backfill_assets.core.plan_looks import DayMove, PlanLook
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.session import LakeSession
from backfill_assets.load.moves import moved_rows


def look_ahead(lake: Lake, states: States, days: DayRange) -> PlanLook:
    """What moves near the range, and what follows. Nothing is written."""
    return look_of(states, moved_rows(LakeSession(lake), states, days))


def look_of(states: States, moves: Iterable[DayMove]) -> PlanLook:
    """The look that these moves give: per table downstream of them the days that their windows reach."""
    found = tuple(moves)
    changed: dict[str, Set[date]] = {}
    for move in found:
        changed[move.table] = {*changed.get(move.table, ()), move.day}
    moved = set(changed) | set(states.view.sources)
    follows = {}
    for name, contract in states.contracts.items():
        if name not in moved:
            reached = touched(states, states, contract, changed) & set(states.view.table(name).stamps)
            changed[name] = reached
            follows[name] = tuple(contiguous(reached))
    return PlanLook(found, {name: spans for name, spans in follows.items() if spans})
