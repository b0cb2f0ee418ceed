"""`backfill-assets rollback` and `release`: the commands, their options, and their output.

Elsewhere: the rollback itself (`operations.rollback`). Needs neither JVM nor Dagster, which shows the days after the
next tick of `late_data`.
"""

from collections.abc import Callable
from typing import Any

import click

from backfill_assets.cli.common import TEXT, answer, days_options, json_and_lake, opened
from backfill_assets.core.days import DayRange, contiguous
from backfill_assets.core.ownership import BY, whoami
from backfill_assets.lake.replace import Provenance
from backfill_assets.operations.rollback import RollbackRequest, preview, roll_back, spans
from backfill_assets.operations.rollback import release as release_days
from backfill_assets.operations.show import Hold
from backfill_assets.plans.files import plan_ids

UNDONE = "Nothing was done. Add --yes to do it."
Command = Callable[..., None]


def which_options(command: Command) -> Command:
    """The options that rollback and release share."""
    for option in (
        click.option("--note", type=TEXT, default="", help="Why; it is kept in the receipts."),
        click.option("--yes", is_flag=True, help="Do it. Without it, what would be done is shown."),
        days_options(),
        click.option("--chunk", default="", help="Only this chunk of the plan."),
        click.option("--plan", default="", metavar="ID", help="All that this plan wrote, through all its tables."),
    ):
        command = option(command)
    return command


@click.command()
@which_options
@click.option("--table", default="", help="One table, instead of a plan.")
@click.option("--to-version", type=click.IntRange(min=0), help="The version of the table whose content they get.")
@click.option("--over-newer", is_flag=True, help="Also days that another run wrote since.")
@json_and_lake
def rollback(as_json: bool, yes: bool, to_version: int | None, over_newer: bool, **options: Any) -> None:
    """Put days back to what they held: all that a plan (or one chunk of it) wrote, or days of a table to a version.

    They are held from then on: nothing makes them again until `release`. What landed (raw) is never put back. Exit
    code 1 where it is refused; then nothing was written.
    """
    _check(**options)
    if options["table"] and (to_version is None or options["days"] is None):
        raise click.UsageError("--table needs --from, --to and --to-version N. `backfill-assets show` lists versions.")
    if options["plan"] and to_version is not None:
        raise click.UsageError("a plan's days go back to what they held before it: leave out --to-version.")
    lake, pipeline = opened()
    request = RollbackRequest(**options, to_version=to_version, over_newer=over_newer)
    report = roll_back(lake, pipeline, request, provenance()) if yes else preview(lake, pipeline, request)
    hold = Hold({request.table: tuple(request.days or ())}, request.plan, request.chunk)
    then = [f"Held until: {hold.release}"] if report.is_done else [UNDONE] if report.tables else []
    answer(report, as_json, [*report.lines(), *then])


@click.command()
@click.argument("table", default="")
@which_options
@json_and_lake
def release(as_json: bool, yes: bool, **options: Any) -> None:
    """Allow rebuilds of days that a rollback holds: of a plan (or one chunk of it), or of TABLE. Their own inputs then
    decide which are fresh and which are stale and rebuilt."""
    _check(**options)
    lake, pipeline = opened()
    found = release_days(lake, pipeline, RollbackRequest(**options), provenance(), act=yes)
    verb = "released" if yes else "would be released"
    lines = [f"{name}: {', '.join(map(str, contiguous(days)))} {verb}" for name, days in found.items()]
    lines += [] if yes else [UNDONE]
    if yes and options["plan"] in plan_ids(lake):  # a publication has no plan of its own
        lines.append(f"Make them again with: backfill-assets run {options['plan']}")
    answer({"done": yes, "tables": spans(found)}, as_json, lines)


def provenance() -> Provenance:
    """The provenance of a command: the current user."""
    from backfill_assets.lake.replace import Provenance

    return Provenance("", tags={BY: whoami()})


def _check(plan: str, chunk: str, table: str, days: DayRange | None, note: str) -> None:
    if bool(plan) == bool(table):
        what = "`rollback --table NAME --from DAY --to DAY --to-version N`, `release NAME`"
        raise click.UsageError(f"say what: --plan ID (see `plan list`), or a table: {what}. Nothing was done.")
    if chunk and not plan:
        raise click.UsageError("--chunk is one of a plan: name the plan, too.")
    if plan and days is not None:
        raise click.UsageError("days go with a table; a plan knows its own.")
