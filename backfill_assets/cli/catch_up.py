"""`backfill-assets catch-up` and `replay-late`: load and rebuild every day that needs it, one run
per request.

Not here: which days need it (`kernel.core.needs`), which run comes next (`dagster.catching_up`),
and the job and the sensors, which do the same.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import TypedDict

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
from backfill_assets.cli.progress import RunForm, RunOutcome
from backfill_assets.dagster.catching_up import CatchUpResult, RunMaker, TableDay, catch_up_lake
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.too_late import release_late_rows
from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.known import KnownStates


class CaughtUpRun(RunForm):
    """A run of a catch-up."""

    days: str
    reason: str


class CatchUpAnswer(TypedDict):
    """The runs of a catch-up in their order, and what it left."""

    runs: Sequence[CaughtUpRun]
    left: Mapping[str, Sequence[DayText]]  # per table
    why: Mapping[str, str]  # per table
    blocked: Sequence[DayText]
    held_back: Sequence[str]
    waits: bool
    fruitless: Sequence[str]
    unscanned: Sequence[str]


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


def rebuild_until_settled(
    lake: Lake,
    note: str,
    reason: str,
    left_alone: Collection[TableDay] = (),
    tags: Mapping[str, str] | None = None,
) -> CatchUpResult[RunOutcome]:
    """Run requests as `catch_up_lake` does, with these `tags`, each as the command `backfill` runs
    one."""
    marks = {"note": note, "reason": reason, "tags": tags or {}}
    return catch_up_lake(RunMaker(opened_lake, run_work, remark), lake, marks, left_alone)


def report_catch_up(done: CatchUpResult[RunOutcome]) -> None:
    """Draw the runs, what the checks find on their days, and the days that are left. Ends with exit
    code 1 if a run failed or a day is left."""
    runs = [{"days": str(a.days), "reason": a.reason, **o.to_dict()} for a, o in done.runs]
    is_idle = not (done.runs or done.held_back or done.unscanned)
    drawn = [] if is_idle else [partial(draw_outcomes, done.runs)]
    document = {**vars(done), "runs": runs, "blocked": sorted(done.blocked)}
    del document["units"]
    write_answer(
        document, drawn, "Nothing to do: every day before today (UTC) that can be is up to date."
    )
    for request, outcome in done.runs:
        for cause in outcome.causes:
            remark(f"Error: {', '.join(request.tables)} {request.days}: {cause}")
    for line in (*done.left_lines(), *done.held_back, *done.unscanned):
        remark(f"Error: {line}")
    _warn_of_written_days(done)
    if not done.success:
        only_waits = done.waits and replace(done, held_back=()).success
        click.get_current_context().exit(3 if only_waits else 1)


def _warn_of_written_days(done: CatchUpResult[RunOutcome]) -> None:
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
    needs = rebuild_needs(KnownStates(*opened_lake()).states, {}, utc_today())
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
