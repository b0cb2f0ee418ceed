"""Days that a plan writes and why, source days it reads, days that follow; with `--look` also days whose rows move.

Elsewhere: what the plan costs (`plan`), whether it may run (`plan_preflight`), reading what landed (`load.moves`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date, datetime

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.days import DayRange, contiguous, is_mature
from backfill_assets.core.digests import days_of
from backfill_assets.core.downstream import following, touched
from backfill_assets.core.plans import DayMove
from backfill_assets.core.states import State, States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.session import LakeSession
from backfill_assets.load.moves import moved_rows
from backfill_assets.operations.plan_model import PlanLook, Policy, TableImpact

MISSING, STALE, OUTDATED, MATURED, FOLLOWS, FORCED = "missing", "stale", "outdated", "matured", "follows", "forced"


Frontiers = Mapping[str, Mapping[int, datetime | None]]


def impacts(
    states: States, frontiers: Frontiers, tables: Sequence[str], days: DayRange, policy: Policy | None = None
) -> tuple[TableImpact, ...]:
    """The impact on every table, upstream first; tables that are not planned have only days that follow.

    `frontiers` are those of receipts, per table and version: they show which labels have become mature since.
    """
    how = policy or Policy()
    own = {t: {d: w for d in days if (w := _why(states, frontiers.get(t, {}), t, d, how))} for t in tables}
    found = following(states, {t: frozenset(why) for t, why in own.items()})
    changed: dict[str, Set[date]] = {}
    result = []
    for name, contract in states.contracts.items():
        # Days that are stale already and become stale again follow as well, whichever run makes them.
        again = {d for d in touched(states, states, contract, changed) if states.of(name, d) is State.STALE}
        found[name] |= again - own.get(name, {}).keys()
        changed[name] = found[name] | own.get(name, {}).keys()
        inside = {d for d in found[name] if name in own and d in days}
        why = own.get(name, {}) | dict.fromkeys(inside, FOLLOWS)
        held = [d for d in days if name in own and states.of(name, d) is State.HELD]
        outside = found[name] - inside
        if name in own or outside:
            result.append(
                TableImpact(
                    name, contract.key, _by_why(why), _reads(states, contract, why),
                    tuple(contiguous(outside)), tuple(contiguous(held)),
                )
            )  # fmt: skip
    return tuple(result)


def _why(states: States, frontiers: Mapping[int, datetime | None], table: str, day: date, how: Policy) -> str:
    """The reason to write a day; empty if it is up to date or held."""
    state = states.of(table, day)
    if state is State.HELD:
        return ""
    if state is State.MISSING or (state is State.PENDING and states.stamp(table, day) is None):
        return MISSING
    if state is State.STALE:
        return MATURED if _has_matured(states, frontiers, table, day) else STALE
    if not states.is_settled(table, day, how.merges):
        return OUTDATED
    return FORCED if how.force else ""


def _has_matured(states: States, frontiers: Mapping[int, datetime | None], table: str, day: date) -> bool:
    """Whether a label became mature after the frontier of its receipt."""
    ripe, stamp = states.contracts[table].matures_after_days, states.stamp(table, day)
    if ripe is None or stamp is None or not is_mature(day, ripe, states.frontier(table)):
        return False
    return not is_mature(day, ripe, frontiers.get(stamp.version))


def _by_why(why: Mapping[date, str]) -> dict[str, tuple[DayRange, ...]]:
    found = defaultdict(list)
    for day, reason in why.items():
        found[reason].append(day)
    return {reason: tuple(contiguous(days)) for reason, days in sorted(found.items())}


def _reads(states: States, contract: Contract, written: Iterable[date]) -> dict[str, tuple[DayRange, ...]]:
    """Per input table the days that are read (arrival days of `landing`)."""
    view, days = states.view, sorted(written)
    found: dict[str, Set[date]] = {}
    for wanted in contract.inputs:
        if wanted.basis is Basis.FILES:
            read = set(days)
        elif wanted.basis is Basis.ARRIVALS:
            read = {a for d in days for a, _ in view.source(wanted.table).arrivals.get(d, ())}
        else:
            read = {d for day in days for d in days_of(wanted, day, view)}
        found[wanted.table] = found.get(wanted.table, set()) | read
    return {table: tuple(contiguous(read)) for table, read in found.items()}


def look_ahead(lake: Lake, states: States, days: DayRange) -> PlanLook:
    """Preview the rows that move near the range, and the days that follow. Writes nothing; needs the engine."""
    return look_of(states, moved_rows(LakeSession(lake), states, days))


def look_of(states: States, moves: Iterable[DayMove]) -> PlanLook:
    """The preview of these moves, with the days per downstream table that their windows reach."""
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
