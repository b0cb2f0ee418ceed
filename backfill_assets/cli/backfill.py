"""`backfill-assets backfill`: any days of any tables again, as one run of Dagster.

Not here: the run itself (`runner`).
"""

import time
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import (
    TEXT,
    days_options,
    inclusive,
    json_option,
    lake_option,
    opened,
    overrides,
    print_json,
    say_unusable,
)
from backfill_assets.cli.drawing import aside, draw_table, number, say
from backfill_assets.cli.progress import BackfillRequest, Lines, RunOutcome, TableOutcome
from backfill_assets.core.clock import utc_today
from backfill_assets.core.days import ONE_DAY, DayRange, contiguous

if TYPE_CHECKING:
    from backfill_assets.lake.home import Lake
    from backfill_assets.lake.model import Pipeline


PROFILE = __name__ + ".profile"


@click.command()
@days_options(required=True)
@click.option("--tables", "named", help="Their names, comma-separated. [default: all]")
@click.option("--force", is_flag=True, help="Compute and write even what is known to be right.")
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the receipts.")
@click.option(
    "--profile",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, wanted: context.meta.update({PROFILE: wanted}),
    help="Say where the time of each table went.",
)
@json_option
@lake_option
def backfill(first: date, last: date, named: str | None, force: bool, note: str, as_json: bool) -> None:
    """Make the days --from through --to (both included) of the tables again. Exit code 1 if the run fails.

    Where all of them are as their inputs say, no run is made.
    """
    lake, pipeline = opened()
    days = allowed(inclusive(first, last), lake.settings.start_date)
    asked = BackfillRequest(days, chosen(named, [t.name for t in pipeline.tables]), force, note)
    outcome = made(lake, pipeline, asked)
    if as_json:
        print_json({"from": str(days.start), "to": str(days.last), **outcome.to_dict()})
    else:
        draw(lake, outcome)
        if click.get_current_context().meta[PROFILE]:
            draw_phases(outcome)
    say_unusable(lake)
    if not outcome.success:
        aside(f"Error: {outcome.cause}")
        click.get_current_context().exit(1)


def allowed(days: DayRange, start: date) -> DayRange:
    """Return the days, if all are partitions: from the lake's first day through yesterday (UTC)."""
    newest = utc_today() - ONE_DAY
    if start > newest:
        raise click.UsageError(
            f"the days {days}: the lake's first day, {start}, is not over yet (UTC), so that no day can be made. "
            "Nothing was done. Correct start_date in lake.toml, or wait until that day is over."
        )
    if days.start < start:
        raise click.UsageError(
            f"the days {days}: {days.start} lies before the lake's first day, {start}. Nothing was done. "
            f"Start with --from {start}."
        )
    if days.last > newest:
        raise click.UsageError(
            f"the days {days}: {days.last} is not over yet (UTC). Nothing was done. End with --to {newest}, "
            "and build the others once they are over."
        )
    return days


def chosen(named: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """Return the named tables in the lake's order; raise click's error for an unknown one."""
    wanted = {n.strip() for n in named.split(",") if n.strip()} if named is not None else set(known)
    unknown = sorted(wanted - set(known))
    if unknown or not wanted:
        raise click.BadParameter(
            f"no table {', '.join(unknown) or 'is named'}; this lake has {', '.join(known)}", param_hint="--tables"
        )
    return tuple(n for n in known if n in wanted)


def made(lake: "Lake", pipeline: "Pipeline", asked: BackfillRequest) -> RunOutcome:
    """The outcome of the run; where every day is as a run would leave it, known without one: neither Dagster nor Spark
    is asked then."""
    if overrides().work is not None:
        return work(lake, asked)
    from backfill_assets.operations.unchanged import foreseen

    began = time.perf_counter()
    found = foreseen(lake, pipeline, asked.tables, asked.days, asked.force)
    if found.rows is None:
        return work(lake, asked, begin=found.needs_engine)
    tables = tuple(TableOutcome(name, len(asked.days), 0, n, 0.0) for name, n in found.rows.items())
    return RunOutcome("", True, tables, "", time.perf_counter() - began)


def work(lake: "Lake", asked: BackfillRequest, begin: bool = False) -> RunOutcome:
    """The run, with its progress on stderr. `begin`: the engine starts meanwhile, for a run that is sure to need it."""
    if (instead := overrides().work) is not None:
        return instead(lake, asked)
    if begin:
        from backfill_assets.lake.home import refuse_unwritable
        from backfill_assets.lake.session import LakeSession

        refuse_unwritable(lake)
        LakeSession(lake).begin()
    with Lines(asked.days) as lines:
        from backfill_assets.cli.runner import run_backfill

        return run_backfill(lake, asked, lines)


def draw_phases(outcome: RunOutcome) -> None:
    """Seconds per table and phase; `Dagster` is the rest: its events, and looking up what it knew."""
    names = list(dict.fromkeys(name for t in outcome.tables for name in t.phases))
    rows = []
    for t in outcome.tables:
        left = max(t.seconds - sum(t.phases.values()), 0.0)
        seconds = [*(t.phases.get(n, 0.0) for n in names), left, t.seconds]
        rows.append([t.table, *(f"{s:.1f}" for s in seconds)])
    draw_table(["seconds of", *names, "Dagster", "all"], rows)


def draw(lake: "Lake", outcome: RunOutcome) -> None:
    """Draw what the run did to each table, and how to see it in the UI."""
    rows = [
        [t.table, str(t.days), str(t.changed), str(t.days - t.changed), number(t.rows), f"{t.seconds:.1f} s"]
        for t in outcome.tables
        if not t.cause
    ]
    if rows:
        draw_table(["table", "days", "changed", "unchanged", "rows", "took"], rows)
    for t in (t for t in outcome.tables if t.unlike):
        days = ", ".join(map(str, contiguous(t.unlike)))
        say(f"{t.table} {days}: other rows than the same inputs, code and settings gave before: see `status`")
    if not outcome.run_id:
        say("Nothing changed: every day is as its inputs say, so that no run was made (--force makes one).")
        return
    from backfill_assets.cli.dagster_home import ui_command

    verdict = "succeeded" if outcome.success else "failed"
    click.echo(f"run {outcome.run_id} {verdict} after {outcome.seconds:.1f} s; see it with: {ui_command(lake)}")
