"""`backfill-assets rollback` and `release`: the commands, their options, and their output.

Elsewhere: the rollback itself (`plans.rollback`). Needs neither JVM nor Dagster, which shows
the days after the next tick of `late_data`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import click

from backfill_assets.cli.common import (
    TEXT,
    command_provenance,
    days_options,
    json_and_lake,
    opened_lake,
    say_cut_periods,
)
from backfill_assets.cli.output import entered_options, options_of, write_answer
from backfill_assets.kernel.core.answers import DaySpan
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges
from backfill_assets.plans.files import plan_ids
from backfill_assets.plans.policy import ReleaseOptions, RollbackOptions
from backfill_assets.plans.rollback import (
    RollbackRequest,
    days_as_json,
    named_contracts,
    preview_rollback,
    roll_back,
)
from backfill_assets.plans.rollback import release_days as release_days
from backfill_assets.reading.claims import Hold

UNDONE = "Nothing was done. Add --yes to do it."
Command = Callable[..., None]


def shared_options(command: Command) -> Command:
    """The options that rollback and release share, besides the fields of their models."""
    yes = click.option(
        "--yes", is_flag=True, help="Do it. Without it, what would be done is shown."
    )
    return days_options()(yes(command))


@click.command()
@options_of(RollbackOptions, types={"note": TEXT})
@shared_options
@json_and_lake
def rollback(yes: bool, days: DayRange | None, **options: Any) -> None:
    """Put days back to what they held: all that a plan (or one chunk of it) wrote, or days of a
    table to a version.

    They are held from then on: nothing makes them again until `release`. What landed (raw) is never
    put back. Exit code 1 where it is refused; then nothing was written.
    """
    asked = RollbackRequest(**entered_options(RollbackOptions, options), days=days)
    _refuse_contradictions(asked)
    if asked.table and (asked.to_version is None or days is None):
        raise click.UsageError(
            "--table needs --from, --to and --to-version N. `backfill-assets show` lists versions."
        )
    if asked.plan and asked.to_version is not None:
        raise click.UsageError(
            "a plan's days go back to what they held before it: leave out --to-version."
        )
    lake, pipeline = opened_lake()
    say_cut_periods(named_contracts(pipeline, asked), days)
    if yes:
        report = roll_back(lake, pipeline, asked, command_provenance())
    else:
        report = preview_rollback(lake, pipeline, asked)
    hold = Hold({asked.table: tuple(days or ())}, asked.plan, asked.chunk)
    lines = [*report.lines()]
    if report.is_done:
        lines.append(f"Held until: {hold.release}")
    elif report.tables:
        lines.append(UNDONE)
    write_answer(report, lines)


class ReleaseAnswer(TypedDict):
    """The days per table that were released, or would be."""

    done: bool
    tables: Mapping[str, Sequence[DaySpan]]


@click.command()
@click.argument("table", default="")
@options_of(ReleaseOptions, types={"note": TEXT}, without=["table"])
@shared_options
@json_and_lake
def release(yes: bool, days: DayRange | None, **options: Any) -> None:
    """Allow rebuilds of days that a rollback holds: of a plan (or one chunk of it), or of TABLE.
    Their own inputs then decide which are fresh and which are stale and rebuilt."""
    asked = RollbackRequest(**entered_options(ReleaseOptions, options), days=days)
    _refuse_contradictions(asked)
    lake, pipeline = opened_lake()
    say_cut_periods(named_contracts(pipeline, asked), days)
    found = release_days(lake, pipeline, asked, command_provenance(), act=yes)
    verb = "released" if yes else "would be released"
    lines = [
        f"{name}: {', '.join(map(str, contiguous_ranges(days)))} {verb}"
        for name, days in found.items()
    ]
    lines += [] if yes else [UNDONE]
    if yes and asked.plan in plan_ids(lake):  # a publication has no plan of its own
        lines.append(f"Make them again with: backfill-assets run {asked.plan}")
    document: ReleaseAnswer = {"done": yes, "tables": days_as_json(found)}
    write_answer(document, lines)


def _refuse_contradictions(asked: RollbackRequest) -> None:
    """Raise click's error unless either a plan or a table is named, and only options of it."""
    if bool(asked.plan) == bool(asked.table):
        what = "`rollback --table NAME --from DAY --to DAY --to-version N`, `release NAME`"
        raise click.UsageError(
            f"say what: --plan ID (see `plan list`), or a table: {what}. Nothing was done."
        )
    if asked.chunk and not asked.plan:
        raise click.UsageError("--chunk is one of a plan: name the plan, too.")
    if asked.plan and asked.days is not None:
        raise click.UsageError("days go with a table; a plan knows its own.")
