"""`backfill-assets catch-up` and `replay-late`: load and rebuild every day that needs it, one run
per request.

Not here: which days need it (`kernel.core.needs`), their requests (`dagster.run_requests`), and the
sensors, which do the same.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import Any

import click

from backfill_assets.cli.backfill import draw_outcomes, run_work, say_warnings
from backfill_assets.cli.common import (
    TEXT,
    days_options,
    good_days_tags,
    json_and_lake,
    keep_good_option,
    named_lake,
    opened_lake,
    say_unusable,
    wants_json,
)
from backfill_assets.cli.drawing import TextTable, number_text, remark
from backfill_assets.cli.landing_command import scan_each_source
from backfill_assets.cli.output import Part, draw_parts, write_answer
from backfill_assets.cli.progress import RunOutcome
from backfill_assets.dagster.run_requests import (
    request_identities,
    requests_with_downstream,
    run_requests,
)
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.too_late import release_late_rows
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.errors import (
    NOT_RUN,
    OTHER_ROWS_AGAIN,
    OTHER_ROWS_ALONE,
    OTHER_TYPE,
)
from backfill_assets.kernel.core.needs import Needs, rebuild_needs
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake, unwritable_folder
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.reading.claims import ActivePlan, days_of_active_plans, holding_plans

TableDay = tuple[str, date]
PLANNING_ERROR = re.compile(r"\b(Analysis|Parse)Exception: ")


@dataclass
class CatchUpResult:
    """What a catch-up did, and what it left."""

    runs: list[tuple[Work, RunOutcome]] = field(default_factory=list)  # in order
    # Per table the days that still need a rebuild.
    left: dict[str, list[str]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)  # per table the reason
    # Days whose landed files are altered or missing: they wait for a person.
    blocked: Collection[date] = ()
    held_back: Sequence[str] = ()  # a line for each idle plan with days that need a rebuild
    waits: bool = False  # whether all these plans wait as `plan --stop-after` asks
    fruitless: Sequence[str] = ()  # see `Unusable`
    unscanned: Sequence[str] = ()  # why sources could not be scanned

    @property
    def success(self) -> bool:
        """Whether every run succeeded, nothing is left and nothing waits for a person."""
        wrong = self.left or self.blocked or self.held_back or self.fruitless or self.unscanned
        return not wrong and all(outcome.success for _, outcome in self.runs)


@click.command("catch-up")
@keep_good_option
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the receipts.")
@json_and_lake
def catch_up(keep_good_days: bool, note: str) -> None:
    """Load what landed and rebuild every day that needs it, level by level: what the sensors do by
    themselves.

    Exit code 1 if a run fails, a day still needs making afterwards, altered or missing files hold
    days back, a source cannot be scanned (the others are loaded), or not one row of a source is
    usable; 3 if only plans that wait at their `--stop-after` hold days back.
    """
    lake = named_lake()
    blocked, failed = scan_each_source(lake) if lake.shared is None else ((), [])
    done = replace(
        rebuild_until_settled(lake, note, "catch-up", tags=good_days_tags(keep_good_days)),
        blocked=blocked,
        unscanned=tuple(map(str, failed)),
    )
    report_catch_up(replace(done, fruitless=say_unusable(lake).fruitless))


def _current_needs() -> tuple[KnownStates, Needs]:
    """Open the lake again, and return its states and the days that need a rebuild; of a candidate
    those of its own tables only."""
    # Of one reading: lake.toml may change meanwhile, and what makes rows must sign them.
    lake, pipeline = opened_lake()
    known = KnownStates(lake, pipeline)
    found = rebuild_needs(known.states, {}, utc_today())
    is_candidate = lake.shared is not None
    return known, _needs_of_candidate(lake, found) if is_candidate else found


def _needs_of_candidate(lake: Lake, found: Needs) -> Needs:
    """Return the needs of the tables that a candidate writes: its other tables are the lake's
    beside it."""
    needed: dict[str, frozenset[date]] = {}
    for name, days in found.needed.items():
        needed[name] = days if lake.writes(name) else frozenset()
    ready = {name: found.ready[name] & days for name, days in needed.items()}
    return replace(found, needed=needed, ready=ready)


@dataclass
class _Runs:
    """The runs of one catch-up, and the days that it need not try again."""

    lake: Lake
    marks: Mapping[str, Any]  # note, reason and tags of every request
    done: list[tuple[Work, RunOutcome]] = field(default_factory=list)  # in order
    in_vain: set[TableDay] = field(default_factory=set)
    rebuilt: Counter[TableDay] = field(default_factory=Counter)  # how often each day succeeded

    def run(self, known: KnownStates, found: Work) -> None:
        """Run a request; after a failure its days in halves. Days that gates kept back, or that
        failed alone, are not tried again."""
        request = replace(found, **self.marks)
        outcome = run_work(known, request)
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
        known, needs = _current_needs()
        still = [day for table, day in days if day in needs.needed[table]]
        half = (len(still) + 1) // 2
        for part in (still[:half], still[half:]):
            if not part:
                continue
            needed = {str(day): found.needed[str(day)] for day in part}
            span = inclusive_range(part[0], part[-1])
            self.run(known, replace(found, days=span, needed=needed, tables=(found.table,)))


def rebuild_until_settled(
    lake: Lake,
    note: str,
    reason: str,
    left_alone: Collection[TableDay] = (),
    tags: Mapping[str, str] | None = None,
) -> CatchUpResult:
    """Run one request after the other, with these `tags`, reading the states again after each. Days
    that a run kept back are left. Days of a failed run are tried again in halves, down to days that
    fail alone; a day that succeeds and still needs a rebuild, `[lateness] attempts` times.

    `left_alone`: days that no request is made for, as those of active plans."""
    runs = _Runs(lake, {"note": note, "reason": reason, "tags": tags or {}})
    left_alone = {*left_alone, *_days_of_plans(lake)}
    known, still = _current_needs()
    while requests := _next_requests(known.states, still, {*left_alone, *runs.in_vain}):
        runs.run(known, requests[0])  # only the first: what it writes may change the others
        known, still = _current_needs()
    if unwritable_folder(lake) is None:
        record_versions(lake, known.pipeline.contracts, reason)  # also what a killed run left
    done = CatchUpResult(runs.done)
    for name, needed in still.needed.items():
        left = sorted(day for day in needed if (name, day) not in left_alone)
        if left:
            tried = [day for day in left if (name, day) in runs.in_vain]
            done.left[name] = list(map(str, left))
            done.why[name] = _why_remaining(still, name, tried)
    done.held_back, done.waits = _idle_plans(lake, still)
    return done


def _is_hopeless(table: str, outcome: RunOutcome) -> bool:
    """Whether the table's code or contract was refused whatever the rows: fewer days would fail
    alike."""
    return any(_is_refusal(made.cause) for made in outcome.tables if made.table == table)


def _is_refusal(cause: str) -> bool:
    """Whether a run failed of the code or the contract, and not of rows: `cause` is a refusal by
    this package, or Spark could not plan the transform."""
    refusals = (NOT_RUN, OTHER_ROWS_AGAIN, OTHER_ROWS_ALONE, OTHER_TYPE)
    if any(text in cause for text in refusals):
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
    return any({*plan.days} & still.needed.get(table, set()) for table in plan.tables)


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


def _days_of_plans(lake: Lake) -> set[TableDay]:
    """Return the days of active plans, which are left to these plans."""
    planned = days_of_active_plans(lake)
    for name, days in planned.items():
        remark(
            f"{name}: {len(days)} day(s) from {min(days)} are left alone: of an active plan (see "
            "`plan list`)"
        )
    return {(name, day) for name, days in planned.items() for day in days}


def _next_requests(states: States, found: Needs, left_alone: Collection[TableDay]) -> list[Work]:
    """Return the requests, upstream first; the first with its downstream days in the same run."""
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
    return requests_with_downstream(states, requests, found, skipped)


def report_catch_up(done: CatchUpResult) -> None:
    """Draw the runs, what the checks find on their days, and the days that are left. Ends with exit
    code 1 if a run failed or a day is left."""
    runs = [{"days": str(a.days), "reason": a.reason, **o.to_dict()} for a, o in done.runs]
    is_idle = not (done.runs or done.held_back or done.unscanned)
    drawn = [] if is_idle else [partial(draw_outcomes, done.runs)]
    document = {**vars(done), "runs": runs, "blocked": sorted(done.blocked)}
    write_answer(
        document, drawn, "Nothing to do: every day before today (UTC) that can be is up to date."
    )
    for request, outcome in done.runs:
        for cause in outcome.causes:
            remark(f"Error: {', '.join(request.tables)} {request.days}: {cause}")
    for name, days in done.left.items():
        why = f": {done.why[name]}" if done.why.get(name) else ""
        remark(f"Error: {name}: {len(days)} day(s) from {days[0]} still need making{why}")
    for line in (*done.held_back, *done.unscanned):
        remark(f"Error: {line}")
    _warn_of_written_days(done)
    if not done.success:
        only_waits = done.waits and replace(done, held_back=()).success
        click.get_current_context().exit(3 if only_waits else 1)


def _warn_of_written_days(done: CatchUpResult) -> None:
    """Name on stderr what the checks find on the days of all runs, of every table at once."""
    made = defaultdict[str, set[date]](set)
    for request, _ in done.runs:
        for name in request.tables:
            made[name].update(request.days)
    if made:
        say_warnings(KnownStates(*opened_lake()), made)


@click.command("replay-late")
@days_options(required=True)
@click.option(
    "--note",
    type=TEXT,
    required=True,
    help="Why these rows count after all; it is kept in the receipts.",
)
@json_and_lake
def replay_late(days: DayRange, note: str) -> None:
    """Let rows of `too_late` count whose event days lie in --from .. --to (both included), and
    rebuild those days only.

    Exit code 1 if a run fails or a day still needs making afterwards.
    """
    if not note.strip():
        raise click.BadParameter("say why, in a few words", param_hint="--note")
    lake = named_lake()
    _, needs = _current_needs()
    needed_before = {(name, day) for name, found in needs.needed.items() for day in found}
    released = release_late_rows(LakeSession(lake), days, note.strip())
    if not wants_json():
        draw_parts(_late_rows(released))
    done = rebuild_until_settled(lake, note.strip(), "replay-late", left_alone=needed_before)
    say_unusable(lake)
    report_catch_up(done)


def _late_rows(found: Mapping[tuple[date, date], int]) -> Iterator[Part]:
    """Yield how many late rows count now; `found` has them by (day of arrival, event day)."""
    if not found:
        yield "Nothing is kept in too_late for these days."
        return
    rows = [(event, arrived, rows) for (arrived, event), rows in found.items()]
    yield TextTable(["event day", "arrived", "rows"], sorted(rows))
    yield f"{number_text(sum(found.values()))} row(s) that came too late count now."
