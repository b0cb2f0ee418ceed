"""Catching up: one run after the other until no day needs a rebuild, for the command `catch-up` and
the job of that name.

Here: which run comes next, what is tried again in halves, and what is left in the end. Not here:
which days need a rebuild (`kernel.core.needs`), their requests (`run_requests`), how a run is made
(the caller hands that in), and the sensors, which do the same run by run.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Generic, Protocol, TypeVar

from backfill_assets.dagster.run_requests import (
    request_identities,
    requests_with_downstream,
    run_requests,
)
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.errors import CODE_FAULTS
from backfill_assets.kernel.core.needs import Needs, rebuild_needs
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake, unwritable_folder
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.claims import ActivePlan, days_of_active_plans, holding_plans

TableDay = tuple[str, date]
PLANNING_ERROR = re.compile(r"\b(Analysis|Parse)Exception: ")


class MadeTable(Protocol):
    """What a run did to one table."""

    @property
    def table(self) -> str:
        """Its name."""

    @property
    def cause(self) -> str:
        """Why it failed; empty where it did not."""

    @property
    def kept_back(self) -> Collection[date]:
        """Days that its gates refused, and that stayed as they were while the others were made."""


class MadeRun(Protocol):
    """How a run ended."""

    @property
    def success(self) -> bool:
        """Whether nothing failed."""

    @property
    def only_kept_back(self) -> bool:
        """Whether nothing failed but days that were kept back, while the others were made."""

    @property
    def tables(self) -> Sequence[MadeTable]:
        """The tables whose steps ended."""


Outcome = TypeVar("Outcome", bound=MadeRun)


@dataclass(frozen=True)
class RunMaker(Generic[Outcome]):
    """How a catch-up opens the lake, makes a run and shows a line."""

    open_lake: Callable[[], tuple[Lake, Pipeline]]
    make: Callable[[KnownStates, Work], Outcome]
    report: Callable[[str], None]
    # Other tables are left as they are; None: there are none.
    tables: Collection[str] | None = None

    def current_needs(self) -> tuple[KnownStates, Needs]:
        """Open the lake again, and return its states and the days that need a rebuild, of the
        chosen tables only; of a candidate those of its own tables only."""
        # Of one reading: lake.toml may change meanwhile, and what makes rows must sign them.
        lake, pipeline = self.open_lake()
        known = KnownStates(lake, pipeline)
        found = rebuild_needs(known.states, {}, utc_today())
        return known, _needs_of_tables(found, [n for n in found.needed if self._makes(lake, n)])

    def _makes(self, lake: Lake, table: str) -> bool:
        """Whether the table is one of the chosen ones; of a candidate, also one that it writes."""
        if self.tables is not None and table not in self.tables:
            return False
        return lake.shared is None or lake.writes(table)


def _needs_of_tables(found: Needs, chosen: Collection[str]) -> Needs:
    """Return the needs with days of the chosen tables only."""
    needed: dict[str, frozenset[date]] = {}
    for name, days in found.needed.items():
        needed[name] = days if name in chosen else frozenset()
    ready = {name: found.ready[name] & days for name, days in needed.items()}
    return replace(found, needed=needed, ready=ready)


@dataclass
class CatchUpResult(Generic[Outcome]):
    """What a catch-up did, and what it left."""

    runs: list[tuple[Work, Outcome]] = field(default_factory=list)  # in order
    # Per table the days that still need a rebuild.
    left: dict[str, list[str]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)  # per table the reason
    units: dict[str, str] = field(default_factory=dict)  # per table what each is, e.g. `month`
    # Days whose landed files are altered or missing: they wait for a person.
    blocked: Collection[date] = ()
    held_back: Sequence[str] = ()  # a line for each idle plan with days that need a rebuild
    waits: bool = False  # whether all these plans wait as `plan --stop-after` asks
    fruitless: Sequence[str] = ()  # see `Unusable`
    unscanned: Sequence[str] = ()  # why sources could not be scanned

    def left_lines(self) -> Iterator[str]:
        """Yield a line per table with days that still need a rebuild."""
        for name, days in self.left.items():
            why = f": {self.why[name]}" if self.why.get(name) else ""
            counted = f"{len(days)} {self.units.get(name, 'day')}(s) from {days[0]}"
            yield f"{name}: {counted} still need making{why}"

    @property
    def success(self) -> bool:
        """Whether every run succeeded, nothing is left and nothing waits for a person."""
        wrong = self.left or self.blocked or self.held_back or self.fruitless or self.unscanned
        return not wrong and all(outcome.success for _, outcome in self.runs)


@dataclass
class _Runs(Generic[Outcome]):
    """The runs of one catch-up, and the days that it need not try again."""

    maker: RunMaker[Outcome]
    lake: Lake
    marks: Mapping[str, Any]  # note, reason and tags of every request
    done: list[tuple[Work, Outcome]] = field(default_factory=list)  # in order
    in_vain: set[TableDay] = field(default_factory=set)
    rebuilt: Counter[TableDay] = field(default_factory=Counter)  # how often each day succeeded

    def run(self, known: KnownStates, found: Work) -> None:
        """Run a request; after a failure its days in halves. Days that gates kept back, or that
        failed alone, are not tried again."""
        request = replace(found, **self.marks)
        outcome = self.maker.make(known, request)
        self.done.append((request, outcome))
        kept_back = {(made.table, day) for made in outcome.tables for day in made.kept_back}
        self.in_vain |= kept_back
        needed = [(found.table, day) for day in sorted(found.needed_days)]
        tried = [table_day for table_day in needed if table_day not in kept_back]
        if outcome.success or outcome.only_kept_back:
            self._count_rebuilt(tried)
        elif len(tried) == 1 or _is_hopeless(found.table, outcome):
            self.in_vain.update(tried)
        else:
            self._run_halves(found, tried)

    def _count_rebuilt(self, days: Collection[TableDay]) -> None:
        """Count days that succeeded; those that did so often enough are not tried again."""
        self.rebuilt.update(days)
        attempts = self.lake.settings.lateness.attempts
        self.in_vain.update(day for day, times in self.rebuilt.items() if times >= attempts)

    def _run_halves(self, found: Work, days: Sequence[TableDay]) -> None:
        """Run the earlier and the later half of those of `days` that still need a rebuild."""
        known, needs = self.maker.current_needs()
        still = [day for table, day in days if day in needs.needed[table]]
        half = (len(still) + 1) // 2
        for part in (still[:half], still[half:]):
            if not part:
                continue
            needed = {str(day): found.needed[str(day)] for day in part}
            span = inclusive_range(part[0], part[-1])
            self.run(known, replace(found, days=span, needed=needed, tables=(found.table,)))


def catch_up_lake(
    maker: RunMaker[Outcome],
    lake: Lake,
    marks: Mapping[str, Any],
    left_alone: Collection[TableDay] = (),
) -> CatchUpResult[Outcome]:
    """Run one request after the other, reading the states again after each. Days that a run kept
    back are left. Days of a failed run are tried again in halves, down to days that fail alone; a
    day that succeeds and still needs a rebuild, `[lateness] attempts` times.

    `marks`: fields of every request (`Work`): its note, reason and tags. `left_alone`: days that no
    request is made for; those of active plans are always left to these plans. Nothing is scanned:
    the caller does that before. Raises BackfillError of a lake that cannot be read or written."""
    runs = _Runs(maker, lake, marks)
    known, still = maker.current_needs()
    left_alone = {*left_alone, *_days_of_plans(lake, known.states, maker.report)}
    while requests := _next_requests(
        known.states, still, {*left_alone, *runs.in_vain}, maker.tables
    ):
        runs.run(known, requests[0])  # only the first: what it writes may change the others
        known, still = maker.current_needs()
    if unwritable_folder(lake) is None:
        record_versions(lake, known.pipeline.contracts, marks["reason"])  # also of a killed run
    done = CatchUpResult(runs.done)
    for name, needed in still.needed.items():
        left = sorted(day for day in needed if (name, day) not in left_alone)
        if left:
            tried = [day for day in left if (name, day) in runs.in_vain]
            done.left[name] = list(map(str, left))
            done.why[name] = _why_remaining(still, name, tried)
            done.units[name] = known.states.contracts[name].calendar.unit
    done.held_back, done.waits = _idle_plans(lake, still)
    return done


def _is_hopeless(table: str, outcome: MadeRun) -> bool:
    """Whether the table's code or contract was refused whatever the rows: fewer days would fail
    alike."""
    return any(_is_refusal(made.cause) for made in outcome.tables if made.table == table)


def _is_refusal(cause: str) -> bool:
    """Whether a run failed of the code or the contract, and not of rows: `cause` is a refusal by
    this package, or Spark could not plan the transform."""
    if any(text in cause for text in CODE_FAULTS):
        return True
    return "the transform of" in cause and PLANNING_ERROR.search(cause) is not None


def _idle_plans(lake: Lake, still: Needs) -> tuple[list[str], bool]:
    """Return a line per idle plan with days that need a rebuild, and whether all of them wait at
    their `stop_after`."""
    found = [
        held for held in holding_plans(lake, also_idle=True) if _needs_rebuild(held.plan, still)
    ]
    only_wait = bool(found) and all(held.state == "waiting" for held in found)
    return [held.line for held in found], only_wait


def _needs_rebuild(plan: ActivePlan, still: Needs) -> bool:
    """Whether a day of the plan needs a rebuild."""
    for table in plan.tables:
        if still.needed.get(table) and not still.needed[table].isdisjoint(plan.keys_of(table)):
            return True
    return False


def _why_remaining(remaining: Needs, name: str, tried: Collection[date]) -> str:
    """Return why days of a table are left: how many of them failed, and how many wait for which
    input, e.g. `2 wait for their inputs, 2024-03-01 for raw 2024-03-01`."""
    waiting = remaining.waiting[name]
    reasons = [f"{len(tried)} tried in vain, the first {min(tried)}"] if tried else []
    if waiting:
        day = min(waiting)
        reasons.append(
            f"{len(waiting)} wait for their inputs, {day} for {' '.join(map(str, waiting[day]))}"
        )
    return "; ".join(reasons)


def _days_of_plans(lake: Lake, states: States, report: Callable[[str], None]) -> set[TableDay]:
    """Return the days of active plans, which are left to these plans."""
    planned = days_of_active_plans(lake)
    for name, days in planned.items():
        unit = states.contracts[name].calendar.unit if name in states.contracts else "day"
        report(
            f"{name}: {len(days)} {unit}(s) from {min(days)} are left alone: of an active plan "
            "(see `plan list`)"
        )
    return {(name, day) for name, days in planned.items() for day in days}


def _next_requests(
    states: States,
    found: Needs,
    left_alone: Collection[TableDay],
    tables: Collection[str] | None = None,
) -> list[Work]:
    """Return the requests, upstream first; the first with its downstream days of `tables` (None: of
    all) in the same run."""
    skipped: dict[str, set[date]] = {name: set() for name in found.needed}
    for name, day in left_alone:
        if name in skipped:
            skipped[name].add(day)
    requests: list[Work] = []
    for name, days in found.ready.items():
        known = request_identities(states, name, days - skipped[name])
        # A catch-up counts failures itself (`_Runs`), so that no day was tried before.
        of_table, _ = run_requests(states, name, known, tried={}, most=1, busy=frozenset())
        requests += of_table
    return requests_with_downstream(states, requests, found, skipped, tables)
