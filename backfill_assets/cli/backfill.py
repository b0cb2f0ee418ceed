"""`backfill-assets backfill`: any days of any tables again, as one run of Dagster, or as none where
receipts, ledgers and the landing folder say that nothing will change. In doubt there is a run.

Not here: the run itself (`runner`), the states (`kernel.core.states`) and the gates
(`kernel.write.judging`).
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import NotRequired

import click

from backfill_assets.cli.common import (
    TEXT,
    caller_overrides,
    good_days_tags,
    json_and_lake,
    keep_good_option,
    say_cut_periods,
    say_unusable,
    some_days_options,
    split_names,
    target_option,
)
from backfill_assets.cli.drawing import draw_table, remark, say
from backfill_assets.cli.landing_command import observed_lake, rough_rows
from backfill_assets.cli.output import write_answer
from backfill_assets.cli.progress import ProgressLines, RunForm, RunOutcome, TableOutcome
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.landed_changes import compare_sources
from backfill_assets.kernel.core.answers import DaySpan
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.contracts import refuse_external
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, contiguous_ranges, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.frontier import is_as_of_lowered
from backfill_assets.kernel.core.plans import Work, forced_tables
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.texts import known_names_advice
from backfill_assets.kernel.tables.home import Lake, refuse_unwritable, unwritable_folder
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.write.computing import input_rows
from backfill_assets.kernel.write.derived import refuse_unbuildable
from backfill_assets.kernel.write.judging import judge_by_receipts
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.check_history import warning_line


class BackfillAnswer(RunForm, DaySpan):
    """A run of days, both ends included."""

    days: NotRequired[str]  # where they have gaps


@click.command()
@some_days_options
@click.option("--tables", "named", help="Their names, comma-separated. [default: all]")
@click.option("--force", is_flag=True, help="Compute and write even what is known to be right.")
@keep_good_option
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the receipts.")
@click.option("--profile", is_flag=True, help="Say where the time of each table went.")
@target_option
@json_and_lake
def backfill(
    days: DayRange, named: str | None, force: bool, keep_good_days: bool, note: str, profile: bool
) -> None:
    """Make the days --from through --to (both included) of the tables again. Exit code 1 if the run
    fails.

    Where all of them are as their inputs say, no run is made.
    """
    lake, pipeline = observed_lake()
    days = require_partitions(days, lake.settings.start_date)
    tables = tables_to_make(lake, pipeline, named)
    request = Work(
        days,
        tables,
        note=note,
        tags=good_days_tags(keep_good_days),
        force=forced_tables(tables, force),
    )
    say_cut_periods([pipeline.table(name).contract for name in tables], days)
    known = KnownStates(lake, pipeline)
    outcome = run_if_needed(known, request)
    phases = [partial(draw_phases, outcome)] if profile else []
    write_answer(
        {**days.to_dict(), **outcome.to_dict()},
        [partial(_draw_outcome, lake, request, outcome), *phases],
    )
    say_unusable(lake)
    if outcome.success:
        say_warnings(known, dict.fromkeys(tables, days))
    else:
        for cause in outcome.causes or ("the run failed",):
            remark(f"Error: {cause}")
        click.get_current_context().exit(1)


def say_warnings(known: KnownStates, days: Mapping[str, Collection[date]]) -> None:
    """Name on stderr what the checks find on these days of tables, in one line; nothing where all
    pass."""
    if days and (line := warning_line(known.lake, known.states, days)):
        remark(line)


def require_partitions(days: DayRange, start: date) -> DayRange:
    """Return the days, if all are partitions: from the lake's first day `start` through yesterday
    (UTC). Raises click's error if not."""
    newest = utc_today() - ONE_DAY
    if start > newest:
        wrong = f"the lake's first day, {start}, is not over yet (UTC), so that no day can be made"
        fix = "Correct start_date in lake.toml, or wait until that day is over"
    elif days.start < start:
        wrong = f"{days.start} lies before the lake's first day, {start}"
        fix = f"Start with --from {start}"
    elif days.last > newest:
        wrong = f"{days.last} is not over yet (UTC)"
        fix = f"End with --to {newest}, and build the others once they are over"
    else:
        return days
    raise click.UsageError(f"the days {days}: {wrong}. Nothing was done. {fix}.")


def chosen_tables(named: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """Return the named tables (None: all) in the lake's order; raise click's error for an unknown
    one, and where there is none."""
    listed = split_names(named)
    wanted = set(known if listed is None else listed)
    unknown = sorted(wanted - {*known})
    if wanted and not unknown:
        return tuple(name for name in known if name in wanted)
    culprit, mistyped = "no table is named", ""
    if unknown:
        culprit, mistyped = f"no table {', '.join(unknown)}", unknown[0]
    advice = known_names_advice(mistyped, known)
    raise click.BadParameter(f"{culprit}. {advice}", param_hint="--tables")


def tables_to_make(lake: Lake, pipeline: Pipeline, named: str | None) -> tuple[str, ...]:
    """Return the named tables in the lake's order (None: all that are made); raise click's error
    for an unknown one, BackfillError for one that others write."""
    known = [table for table in pipeline.tables if lake.writes(table.name)]
    if named is None:
        known = [table for table in known if not table.contract.external]
    tables = chosen_tables(named, [table.name for table in known])
    for name in tables:
        refuse_external(pipeline.table(name).contract)
    return tables


def run_if_needed(known: KnownStates, request: Work) -> RunOutcome:
    """Run the request; if every day is as a run would leave it, return that outcome without Dagster
    and Spark. Readers then see what stands together, also what a killed run left."""
    outcome = _run_or_foresee(known, request)
    if unwritable_folder(known.lake) is None:
        record_versions(known.lake, known.pipeline.contracts, request.reason)
    return outcome


def _run_or_foresee(known: KnownStates, request: Work) -> RunOutcome:
    """Return the outcome that is foreseen without a run, else run the request. A caller that runs
    requests in its own way (`Overrides`) gets them all."""
    if caller_overrides().work is not None:
        return run_work(known, request, begin=False)
    began = time.perf_counter()
    forecast = foresee_run(known, request.tables, request.days, bool(request.force))
    if forecast.rows is None:  # a run is needed
        return run_work(known, request, forecast.needs_engine, forecast.rows_to_read)
    tables = []
    for name, rows in forecast.rows.items():
        days = len(known.states.keys_in(name, request.days))
        unit = known.states.contracts[name].calendar.unit
        tables.append(TableOutcome(name, days=days, changed=0, rows=rows, seconds=0.0, unit=unit))
    seconds = time.perf_counter() - began
    return RunOutcome(run_id="", success=True, tables=tuple(tables), cause="", seconds=seconds)


def run_work(
    known: KnownStates, request: Work, begin: bool = True, rows_to_read: int = 0
) -> RunOutcome:
    """Run the request, with its progress on stderr. `begin`: start the engine while Dagster is
    imported, as it is sure to be needed, for so many rows at first; rows that assets of a project
    return need none."""
    if (instead := caller_overrides().work) is not None:
        return instead(known, request)
    if begin and is_computed(known.pipeline, request):
        refuse_unwritable(known.lake)
        LakeSession(known.lake).begin(rows_to_read)
    with ProgressLines(request.days) as lines:
        from backfill_assets.cli.runner import run_backfill

        return run_backfill(known, request, lines)


def is_computed(pipeline: Pipeline, request: Work) -> bool:
    """Whether the lake's engine computes any of the tables: not where assets of a project return
    all of them."""
    return not {*request.tables}.isdisjoint(table.name for table in pipeline.own)


def draw_phases(outcome: RunOutcome) -> None:
    """Draw seconds per table and phase; `Dagster` is the rest: its events, and looking up what it
    knew."""
    names = list(dict.fromkeys(name for t in outcome.tables for name in t.phases))
    rows = []
    for t in outcome.tables:
        rest = max(t.seconds - sum(t.phases.values()), 0.0)
        seconds = [*(t.phases.get(n, 0.0) for n in names), rest, t.seconds]
        rows.append([t.table, *(f"{s:.1f}" for s in seconds)])
    draw_table(["seconds of", *names, "Dagster", "all"], rows)


def draw_outcomes(runs: Sequence[tuple[Work, RunOutcome]], with_span: bool = True) -> None:
    """Draw what the runs did to each table that did not fail, with the days of the request
    (`with_span`) or only their number; then name the days that were refused or made incomplete."""
    rows = []
    for request, outcome in runs:
        for t in outcome.tables:
            if t.cause:
                continue
            days = request.days if with_span else t.days
            took = f"{t.seconds:.1f} s"
            rows.append((t.table, days, t.changed, t.days - t.changed, t.rows, took))
    if rows:
        draw_table(["table", "days", "changed", "unchanged", "rows", "took"], rows)
    made = [table for _, outcome in runs for table in outcome.tables]
    for table in made:
        _note_kept_back(table)
    for table in made:
        _note_incomplete(table)


def _note_kept_back(made: TableOutcome) -> None:
    """Name on stderr the days of a table that its gates refused, if there are any."""
    if made.kept_back:
        remark(
            f"Note: {made.table} {ranges_text(made.kept_back)} refused: stayed as they were, the "
            "others were made"
        )


def _note_incomplete(made: TableOutcome) -> None:
    """Name on stderr the days of a table that were made incomplete, if there are any."""
    if made.incomplete:
        why = "input days are missing, or were made without a column that is read"
        remark(
            f"Note: {made.table} {ranges_text(made.incomplete)} incomplete: {why}; "
            "`backfill-assets status --why`"
        )


def _draw_outcome(lake: Lake, request: Work, outcome: RunOutcome) -> None:
    """Draw what the run did to each table, the days that came out otherwise than before, and how to
    see the run; or that none was needed."""
    draw_outcomes([(request, outcome)], with_span=False)
    for made in outcome.tables:
        if made.irreproducible:
            days = ", ".join(map(str, contiguous_ranges(made.irreproducible)))
            say(
                f"{made.table} {days}: other rows than the same inputs, code and settings gave "
                "before: see `status`"
            )
    if not outcome.run_id:
        say(
            "Nothing changed: every day is as its inputs say, so that no run was made (--force "
            "makes one)."
        )
        return
    from backfill_assets.cli.dagster_home import lake_option_text

    verdict = "succeeded" if outcome.success else "failed"
    command = f"backfill-assets {lake_option_text(lake)}ui"
    click.echo(
        f"run {outcome.run_id} {verdict} after {outcome.seconds:.1f} s; see it with: {command}"
    )


@dataclass(frozen=True)
class Forecast:
    """The outcome of a backfill: `rows` per table where a run would compute, write and refuse
    nothing; else None, whether the run surely needs the engine, and about how many rows it reads
    first: its first table by receipts, and new files by their sizes."""

    rows: Mapping[str, int] | None
    needs_engine: bool = False
    rows_to_read: int = 0


def foresee_run(
    known: KnownStates, names: Sequence[str], days: DayRange, force: bool = False
) -> Forecast:
    """Foresee a run of these tables, upstream first; `force`: it computes every day. Reads only;
    holds no lock."""
    lake, states = known.lake, known.states
    lands_files = any(states.contracts[name].is_landed for name in names)
    comparison = compare_sources(LakeSession(lake)) if lands_files else None
    has_disputed_files = comparison is not None and bool(comparison.disputed)
    # Such a run may end before it computes anything.
    if has_disputed_files or _refuses_or_repairs(states, names):
        return Forecast(None, needs_engine=False)
    to_compute = [name for name in names if force or not _is_all_settled(states, name, days)]
    needs_a_scan = comparison is not None and not comparison.is_scanned
    if to_compute or needs_a_scan:
        counts_landed_rows = comparison is not None and comparison.counts_rows
        # The first table decides: where its days are refused, nothing is computed.
        computes_rows = bool(to_compute) and _is_buildable(states, to_compute[0], days)
        rows = _rows_to_read(states, to_compute[0], days, force) if computes_rows else 0
        rows += 0 if comparison is None else rough_rows(comparison)
        return Forecast(None, counts_landed_rows or computes_rows, rows)
    if not all(_would_pass_gates(lake, states, name, days) for name in names):
        return Forecast(None)  # the run refuses days, and shows why
    return Forecast({name: _rows_by_receipts(states, name, days) for name in names})


def _is_all_settled(states: States, name: str, days: DayRange) -> bool:
    """Whether every one of these days of a table is as its inputs say."""
    return all(states.is_settled(name, day) for day in states.keys_in(name, days))


def _rows_to_read(states: States, name: str, days: DayRange, force: bool) -> int:
    """Return about how many rows a run would read to compute these days of a table, by receipts."""
    own = states.keys_in(name, days)
    todo = [day for day in own if force or not states.is_settled(name, day)]
    return input_rows(states.view, states.contracts[name], todo)


def _rows_by_receipts(states: States, name: str, days: DayRange) -> int:
    """Return the rows of these written days of a table."""
    latest = states.view.table(name).latest
    return sum(latest[day].entry.rows for day in states.keys_in(name, days))


def _refuses_or_repairs(states: States, names: Sequence[str]) -> bool:
    """Whether a run of these tables refuses days, or repairs a ledger, though every day is as its
    inputs say."""
    if states.before_start():
        return True
    for source in states.view.sources.values():
        if source.doubted_arrivals() or is_as_of_lowered(source):
            return True
    return any(states.awaits_repair(name) for name in names if states.contracts[name].is_landed)


def _is_buildable(states: States, name: str, days: DayRange) -> bool:
    """Whether no rule forbids to build these days of a table, whatever their rows."""
    own = states.keys_in(name, days)
    try:
        refuse_unbuildable(states, states.contracts[name], own)
    except BackfillError:
        return False
    return True


def _would_pass_gates(lake: Lake, states: States, name: str, days: DayRange) -> bool:
    """Whether today's gates would let these written days of a table pass again."""
    if not _is_buildable(states, name, days):
        return False
    gates = lake.settings.gates
    moves_a_gate = name in gates.tables or gates.incomplete == "refuse"
    if not moves_a_gate:  # what was written passed all that no setting moves
        return True
    own = states.keys_in(name, days)
    judged = judge_by_receipts(lake.settings, states, states.contracts[name], own)
    return not any(finding.refuses for findings in judged.values() for finding in findings)
