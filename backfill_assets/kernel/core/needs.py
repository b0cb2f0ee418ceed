"""Which days need a rebuild and may be rebuilt now, by states alone, and the requests of runs that
cover them.

Not here: which runs there are (`dagster.adapter.runs`) and Dagster's own requests
(`dagster.adapter.backfill_requests`).

A day needs a rebuild if it is stale; or missing, and deliveries for it are loaded, or a day that is
written or needs a rebuild requires it, or it lies between its table's first receipt and the
frontier; never if held, outdated or pending. A request of a day is identified by its input digest,
the write_id of the day's rows, and the rules (code, settings, gates): a changed input or rule is a
new request, and a run that ended and left the identity as it was is an attempt.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.kernel.core.contracts import Contract, InputKind
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, is_over, newest_over
from backfill_assets.kernel.core.digests import days_of, digest_of, is_required
from backfill_assets.kernel.core.frontier import externals_below
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.states import State, States

# What one more run of five tables costs: 3 s in a command, 8 s in a process of its own.
RUN_SECONDS = 4.0
# What one more settled day costs in such a run: five events a table, which Dagster records.
DAY_SECONDS = 0.03
IDENTITY_CHARS = 12  # of each digest: enough to tell a day's own versions apart
MOST_GAP_DAYS = int(
    RUN_SECONDS / DAY_SECONDS
)  # joining over more settled days than this costs more than a run


@dataclass(frozen=True)
class Needs:
    """Days per table, upstream first."""

    needed: Mapping[str, frozenset[date]]  # days that need a rebuild
    ready: Mapping[str, frozenset[date]]  # of these, days whose inputs are all in place
    # the others, each with an input day that it waits for: (table, day)
    waiting: Mapping[str, Mapping[date, tuple[str, date]]] = field(default_factory=dict)


def needs(states: States, busy: Mapping[str, Set[date]], until: date | None = None) -> Needs:
    """What the lake's tables need. `busy`: days of queued or running runs; `until`: the first day
    without a partition."""
    needed = needed_days(states, until)
    ready: dict[str, frozenset[date]] = {}
    waiting: dict[str, dict[date, tuple[str, date]]] = {}
    for name, days in needed.items():
        blocked = {
            d: input_day
            for d in days
            if (input_day := first_unready(states, name, d, needed, busy))
        }
        waiting[name] = blocked
        ready[name] = frozenset(d for d in days if d not in blocked and d not in busy.get(name, ()))
    return Needs(needed, ready, waiting)


def needed_days(states: States, until: date | None = None) -> dict[str, frozenset[date]]:
    """Per table the days that need a rebuild, whether or not their inputs are in place."""
    days = _days(states, until)
    found: dict[str, frozenset[date]] = {}
    for name in reversed(list(states.contracts)):
        contract = states.contracts[name]
        if contract.external:
            found[name] = frozenset()  # others write it
        elif contract.is_landed:
            found[name] = frozenset(_landed(states, name, days))
        else:
            found[name] = frozenset(_stale_and_missing(states, contract, days, found))
    return {name: found[name] for name in states.contracts}


def _days(states: States, until: date | None) -> list[date]:
    """All days that anything names, from the lake's first day on."""
    view = states.view
    last = max(
        (
            *(d for t in view.tables.values() for d in t.latest),
            *(
                d
                for source in view.sources.values()
                for days in (source.landed, source.arrivals)
                for d in days
            ),
        ),
        default=view.start,
    )
    if states.frontiers.greatest is not None:
        last = max(last, newest_over(states.frontiers.greatest))
    end = last + ONE_DAY if until is None else min(last + ONE_DAY, until)
    return [view.start + ONE_DAY * i for i in range((end - view.start).days)]


def _landed(states: States, name: str, days: Iterable[date]) -> Iterable[date]:
    """Arrival days on which something landed, or that were loaded from files that are gone, and
    that are not loaded."""
    landed = states.view.source(name).landed
    for day in days:
        has_files = states.view.is_due(day) and (day in landed or states.latest(name, day))
        if has_files and states.of(name, day) in (State.MISSING, State.STALE):
            yield day


def _stale_and_missing(
    states: States, contract: Contract, days: Iterable[date], below: Mapping[str, Set[date]]
) -> Iterable[date]:
    latest, theirs = (
        states.view.table(contract.name).latest,
        states.view.awaits_others(contract.name),
    )
    first = min(latest, default=None)
    missing = []
    for day in (d for d in days if d not in theirs):
        state = states.of(contract.name, day)
        if state is State.STALE:
            yield day
        elif state is State.MISSING:
            missing.append(day)
    if not missing:
        return
    required = _required(states, contract.name, set(missing), below)
    arrived: list[Collection[date]] = [
        states.view.source(s).arrivals for s in states.frontiers.sources_of(contract.name)
    ]
    arrived += [
        states.view.table(name).latest for name in externals_below(states.contracts, contract.name)
    ]
    frontier = states.frontier(contract.name)
    for day in missing:
        if (
            any(day in arrivals for arrivals in arrived)
            or day in required
            or (first is not None and first <= day and is_over(day, frontier))
        ):
            yield day


def _required(
    states: States, name: str, missing: Set[date], below: Mapping[str, Set[date]]
) -> set[date]:
    """The missing days of a table that downstream days require, both written ones and ones that
    need a rebuild."""
    found: set[date] = set()
    for contract in states.contracts.values():
        frontier = states.frontier(contract.name)
        for wanted in (
            i for i in contract.inputs if i.table == name and i.kind is not InputKind.ARRIVALS
        ):
            users = set(states.view.table(contract.name).latest) | set(below.get(contract.name, ()))
            for day in missing - found:
                reading = states.reading(contract.name, wanted, {day})
                if any(user in users and is_required(day, user, frontier) for user in reading):
                    found.add(day)
    return found


def first_unready(
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
            # Until these are loaded, the ledger `arrivals` cannot say which deliveries a day is
            # made from.
            unknown = source.doubted_arrivals() if source.ledger.version >= 0 else coming
            if unknown:
                return wanted.table, min(unknown)
            days = [arrival for arrival, _ in source.arrivals.get(day, ())]
        else:
            days = days_of(wanted, day, states.view) if coming else []
        for input_day in days:
            if input_day in coming:
                return wanted.table, input_day
    return None


def joined_ranges(
    states: States, name: str, days: Collection[date], busy: Set[date] = frozenset()
) -> list[DayRange]:
    """The days as ranges, ascending; neighbours are joined over settled days (of a landed table
    also days on which nothing landed) where that is cheaper than another run, never over busy
    days."""
    ranges: list[DayRange] = []
    for day in sorted(days):
        if ranges and _joins(states, name, ranges[-1].end, day, busy):
            ranges[-1] = DayRange(ranges[-1].start, day + ONE_DAY)
        else:
            ranges.append(DayRange(day, day + ONE_DAY))
    return ranges


def _joins(states: States, name: str, start: date, end: date, busy: Set[date]) -> bool:
    if (end - start).days > MOST_GAP_DAYS:
        return False
    between = (start + ONE_DAY * i for i in range((end - start).days))
    return all(d not in busy and may_lie_between(states, name, d) for d in between)


def may_lie_between(states: States, name: str, day: date) -> bool:
    """Whether a run of other days may also cover this day: the day is settled, or nothing landed on
    it."""
    if states.is_settled(name, day):
        return not states.is_pending(states.contracts[name], day)
    landed = states.view.source(name).landed
    return (
        states.contracts[name].is_landed
        and states.of(name, day) is State.MISSING
        and day not in landed
    )


def identities(
    states: States, table: str, days: Iterable[date], rules: str = ""
) -> dict[date, str]:
    """Per day its input digest, the write_id of its rows, and the digest of code, settings and
    `rules` (whatever else decides how a run ends: the table's gates, the lake)."""
    codes = states.codes.get(table)
    rules_digest = digest_of(
        [codes.code_digest if codes else "", codes.settings_digest if codes else "", rules]
    )
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
    `most` times as they are and need a person. First days never tried, ascending; then each day
    that failed, alone, so that it holds no other day back."""
    given_up = [day for day in known if tried.get(day, 0) >= most]
    again = [day for day in known if 0 < tried.get(day, 0) < most]
    first_time = [day for day in known if not tried.get(day, 0)]
    wanted = set(first_time)
    fresh = [
        Work(span, (table,), needed={str(d): known[d] for d in span if d in wanted})
        for span in joined_ranges(states, table, first_time, busy)
    ]
    alone = [
        Work(
            DayRange(day, day + ONE_DAY),
            (table,),
            needed={str(day): known[day]},
            attempt=tried[day],
        )
        for day in again
    ]
    return fresh + alone, given_up
