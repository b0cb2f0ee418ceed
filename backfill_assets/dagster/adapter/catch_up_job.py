"""The job `catch_up`: one click that makes all that is stale, from a launchpad that says what that
is now.

Here: the launchpad, which Dagster fills in anew for each choice of tables (a partition of the job's
configuration: defaults would be those of the moment at which the definitions were loaded), the run,
and what its page shows. Not here: which run comes next (`dagster.catching_up`), and what would be
made (`reading.needed_days`).
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field

from backfill_assets.dagster.adapter.backfill_requests import (
    is_kept_back_failure,
    run_rebuild,
)
from backfill_assets.dagster.adapter.context import LakeContext, ShownLake, table_of_step
from backfill_assets.dagster.adapter.history import cause_of
from backfill_assets.dagster.adapter.io_manager import as_failures
from backfill_assets.dagster.adapter.jobs import one_op_job, show_lines
from backfill_assets.dagster.adapter.runs import CATCH_UP, busy_days, markers_of
from backfill_assets.dagster.adapter.sensors import scan_each_source
from backfill_assets.dagster.adapter.ticks import unscanned_lines
from backfill_assets.dagster.catching_up import (
    CatchUpResult,
    RunMaker,
    TableDay,
    catch_up_lake,
)
from backfill_assets.kernel.core.calendars import Calendar
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import parse_day, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.interrupts import ends_when_interrupted
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.write_mode import OnBadDays, WriteMode
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.needed_days import needed_days_of, needed_lines, with_inputs

MAKE_STALE = "make_what_is_stale"
ALL_TABLES = "all tables"  # no table has a blank in its name
CHOOSE = f"choose `{ALL_TABLES}`, or one of them, in the field Partition: this is then filled in"
# A second one would count days as failed that the first one is making.
NO_RETRY = {"dagster/max_retries": "0"}
# Tags by which Dagster shows which run began which.
PARENT, ROOT = "dagster/parent_run_id", "dagster/root_run_id"


class CatchUpConfig(dg.Config):
    """The fields of the launchpad, with the descriptions that it shows."""

    # The launchpad adds a choice's lists to those that it began with, and replaces texts.
    as_of: str = Field(
        default=CHOOSE, description="When `would_make` was looked up. The run looks again."
    )
    would_make: list[str] = Field(default=[], description="Shown to you; the run does not read it.")
    tables: list[str] = Field(
        default=[], description="They, and what they are made from. Empty: all."
    )
    keep_good_days: bool = Field(
        default=False, description="Write the days that pass where others of a run are refused."
    )
    note: str = Field(default="", description="Why, in your words: it goes into the receipts.")
    act: bool = Field(
        default=False, description="false: only say what would be made. true: make it."
    )


def catch_up_job(shown: ShownLake) -> dg.JobDefinition:
    """The job. Its partitions are the choices of tables; a run without a choice only looks."""

    @dg.op(
        name=shown.lake_context.naming.name(MAKE_STALE),
        description="Load what landed, rebuild each day that needs it. Looks only, unless `act`.",
    )
    def make_what_is_stale(context: dg.OpExecutionContext, config: CatchUpConfig) -> None:
        """One catch-up."""
        with as_failures(), ends_when_interrupted():
            if config.act:
                _catch_up(context, shown, config)
            else:
                lines = stale_lines(shown.lake_context, config.tables)
                show_lines(context, [*lines, "Nothing was done: `act: true` does it"])

    tables = [table.name for table in shown.opened.pipeline.own]
    what = (
        "Makes every day that is stale, or missing and needed, level by level, as `backfill-assets "
        "catch-up` and the sensors do. Choose tables in the launchpad's field Partition: it then "
        "says which days would be made now, why, and about how long it takes."
    )
    filled = _filled_launchpad(shown.lake_context, tables)
    return one_op_job(shown.lake_context, CATCH_UP, make_what_is_stale, filled, what, NO_RETRY)


def _filled_launchpad(
    lake_context: LakeContext, tables: Sequence[str]
) -> "dg.PartitionedConfig[Any]":
    """What the launchpad is filled in with for each choice of tables, by the lake as it is then."""

    @dg.static_partitioned_config(partition_keys=[ALL_TABLES, *tables])
    def filled(choice: str) -> dict[str, Any]:
        """The configuration for a choice."""
        chosen = [] if choice == ALL_TABLES else [choice]
        try:
            lines, may_run = stale_lines(lake_context, chosen), True
        except BackfillError as error:  # raised, Dagster would show it below a trace
            lines, may_run = [str(error)], False
        config = CatchUpConfig(
            as_of=f"{utc_now():%Y-%m-%d %H:%M:%S} UTC",
            would_make=lines,
            tables=chosen,
            act=may_run,
        )
        step = lake_context.naming.name(MAKE_STALE)
        return {"ops": {step: {"config": config.model_dump()}}}

    return filled


def stale_lines(lake_context: LakeContext, tables: Sequence[str]) -> list[str]:
    """What would be made now of these tables (none: of all) and of what they are made from, a line
    each; the error of a folder without a lake. New landed files are told first: only a scan says
    which days they touch."""
    if lake_context.missing is not None:
        return [str(lake_context.missing)]
    lake, pipeline = lake_context.look()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    # Where all are asked for, those of assets are named, too: a person is to know who makes them.
    chosen = _chosen_tables(pipeline, states, tables) if tables else [*states.contracts]
    lines = needed_lines(needed_days_of(lake, states, [n for n in chosen if lake.writes(n)]))
    return [*unscanned_lines(lake), *lines] if lake.shared is None else lines


def _chosen_tables(pipeline: Pipeline, states: States, tables: Sequence[str]) -> list[str]:
    """These tables and what they are made from, without tables that assets of the project make.
    Raises BackfillError for an unknown one."""
    own = [table.name for table in pipeline.own]
    if unknown := sorted({*tables} - {*own}):
        raise BackfillError(
            "the config",
            f"no table {', '.join(unknown)}",
            "Nothing was made",
            f"Correct `tables`: {', '.join(own)}",
        )
    wanted = with_inputs(states, tables or own)
    return [name for name in own if name in wanted]


def _catch_up(context: dg.OpExecutionContext, shown: ShownLake, config: CatchUpConfig) -> None:
    """Scan, make the days, and show what was made. Raises BackfillError where days are left or
    something waits for a person."""
    lake, pipeline = shown.lake_context.open()
    markers_of(context.instance, lake).mark(context.run_id)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    chosen = _chosen_tables(pipeline, states, config.tables)
    blocked, unscanned = frozenset[date](), list[BackfillError]()
    if lake.shared is None:
        blocked, unscanned = scan_each_source(lake, pipeline, context.log.info)
    for line in stale_lines(shown.lake_context, config.tables):
        context.log.info(f"to make: {line}")
    maker = RunMaker(shown.lake_context.open, _run_maker(context, shown), context.log.info, chosen)
    mode = WriteMode(on_bad_days=OnBadDays.KEEP_GOOD if config.keep_good_days else None)
    marks = {"note": config.note, "reason": "catch-up", "tags": mode.tags}
    busy = busy_days(context.instance, lake.address, pipeline.contracts, shown.lake_context.naming)
    done = catch_up_lake(maker, lake, marks, _noted_days(busy, context.log.info))
    done = replace(done, blocked=blocked, unscanned=tuple(map(str, unscanned)))
    lines = [*_made_lines(done), *_left_lines(done)]
    show_lines(context, lines or ["Nothing to do: every day that can be is up to date"])
    if not done.success:
        raise _left_error(done)


def _noted_days(busy: Mapping[str, Set[date]], log: Callable[[str], None]) -> set[TableDay]:
    """The days of queued and running runs, which are left to these; shows a line per table."""
    for name, days in busy.items():
        if days:
            log(f"{name}: {ranges_text(days)} left alone: of a queued or running run")
    return {(name, day) for name, days in busy.items() for day in days}


@dataclass(frozen=True)
class MadeStep:
    """What a run's step did to its table."""

    table: str
    calendar: Calendar  # of the table
    days: frozenset[date]  # materialized
    cause: str = ""  # why it failed
    kept_back: frozenset[date] = frozenset()  # refused, while the others were made


@dataclass(frozen=True)
class Rebuilt:
    """How a run of the job `rebuild` ended."""

    success: bool
    tables: Sequence[MadeStep]

    @property
    def only_kept_back(self) -> bool:
        """Whether nothing failed but days that were kept back, while the others were made."""
        return any(t.kept_back for t in self.tables) and not any(t.cause for t in self.tables)


def _run_maker(
    context: dg.OpExecutionContext, shown: ShownLake
) -> Callable[[KnownStates, Work], Rebuilt]:
    """How a run is made: of the job `rebuild`, in this process, as a child of this run."""

    def make(known: KnownStates, work: Work) -> Rebuilt:
        """Run the job, and read from its events what it did."""
        run = context.run
        tags = {**work.tags, PARENT: run.run_id, ROOT: run.root_run_id or run.run_id}
        context.log.info(f"making {', '.join(work.tables)} {work.days}")
        job, asked = shown.rebuild_of(work.tables), replace(work, tags=tags)
        result = run_rebuild(job, context.instance, str(uuid.uuid4()), asked)
        return Rebuilt(result.success, [*_made_steps(known.states, result.all_events, work)])

    return make


def _made_steps(
    states: States, events: Sequence[dg.DagsterEvent], work: Work
) -> Iterator[MadeStep]:
    """Yield what each table's step did, by its events."""
    made, failures = defaultdict[str, set[date]](set), dict[str, dg.DagsterEvent]()
    for event in events:
        name = table_of_step(event.step_key or "")
        if name is None:
            continue
        if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION and event.partition:
            made[name].add(parse_day(event.partition))
        elif event.is_step_failure:
            failures[name] = event
    for name in work.tables:
        days, failure = frozenset(made[name]), failures.get(name)
        step = MadeStep(name, states.contracts[name].calendar, days)
        if failure is None:
            yield step
        elif is_kept_back_failure(failure):
            yield replace(step, kept_back=frozenset(states.keys_in(name, work.days)) - days)
        else:
            yield replace(step, cause=cause_of(failure))


def _made_lines(done: CatchUpResult[Rebuilt]) -> Iterator[str]:
    """Yield a line per run and table."""
    for work, outcome in done.runs:
        for made in outcome.tables:
            if made.cause:
                yield f"{made.table} {work.days}: failed: {made.cause}"
            elif made.days:
                counted = made.calendar.count_text(len(made.days))
                yield f"{made.table}: {counted} made, {ranges_text(made.days)}"
            if made.kept_back:
                yield f"{made.table}: {ranges_text(made.kept_back)} refused: stayed as they were"


def _left_lines(done: CatchUpResult[Rebuilt]) -> Iterator[str]:
    """Yield what was left, and what waits for a person."""
    yield from done.left_lines()
    if done.blocked:
        files = "landed files of theirs are altered or missing (`backfill-assets scan`)"
        yield f"{ranges_text(done.blocked)} wait for a person: {files}"
    yield from (*done.held_back, *done.unscanned)


def _left_error(done: CatchUpResult[Rebuilt]) -> BackfillError:
    """The error of a catch-up that left days or failed: it names the first cause."""
    causes = [line for line in _made_lines(done) if ": failed: " in line]
    first = next(iter([*causes, *_left_lines(done)]), "a run failed: see its page")
    return BackfillError(
        "the catch-up",
        first,
        "All that could be made was made, and this was not",
        "The log of this run has a line for each; `backfill-assets status --stale --why` says more",
    )
