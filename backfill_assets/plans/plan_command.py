"""`backfill-assets plan`: makes a plan, and lists, shows, pauses, resumes and cancels plans.

Elsewhere: making a plan (`plans.plan`), its output (`plan_page`), running it (`run`).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import click

from backfill_assets.cli.backfill import require_partitions, tables_to_make
from backfill_assets.cli.common import (
    FILE,
    TEXT,
    Parsed,
    days_options,
    errors_as_usage,
    json_and_lake,
    opened_lake,
    say_cut_periods,
    target_option,
)
from backfill_assets.cli.drawing import TextTable, remark
from backfill_assets.cli.landing_command import observed_lake
from backfill_assets.cli.output import entered_options, options_of, write_answer
from backfill_assets.kernel.core.answers import DaySpan, DayText
from backfill_assets.kernel.core.days import DayRange, parse_span
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.pipeline.own_files import reached_paths
from backfill_assets.plans.code import pin_code, using_code
from backfill_assets.plans.expect import read_expectations
from backfill_assets.plans.files import (
    CANCELLED,
    damaged_plans,
    find_plan,
    keep_plan,
    mark_text,
    plan_state,
    readable_plans,
    set_mark,
)
from backfill_assets.plans.files import resume_plan as resume_plan
from backfill_assets.plans.model import MOST_CHUNK_DAYS
from backfill_assets.plans.plan import TEMPLATES, PlanRequest, make_plan
from backfill_assets.plans.plan_page import PlanForm, runbook_text, show_progress
from backfill_assets.plans.policy import Policy, PolicyOptions, Tolerances
from backfill_assets.plans.preflight import usual_parallel
from backfill_assets.plans.progress import read_progress

MOST_CANARY_DAYS = 31


def _parsed_canary(text: str) -> int | DayRange:
    """Return the number of days, or the days, of `--canary`."""
    if not text.isdigit():
        return parse_span(text)
    if int(text) > MOST_CANARY_DAYS:
        raise ValueError(
            f"{text} days are no canary: 0 to {MOST_CANARY_DAYS}, or which: DAY or A..B."
        )
    return int(text)


class NothingPlanned(TypedDict):
    """Days that need nothing: there is no plan, and no id."""

    id: None
    state: str
    days: tuple[DayText, DayText]
    tables: Sequence[str]


class ListedPlan(DaySpan):
    """A plan among all of a lake; `chunks`: their number."""

    id: str
    state: str
    tables: Sequence[str]
    chunks: int
    user: str
    reason: str
    note: str


class MarkedPlan(TypedDict):
    """A plan that was paused, resumed or cancelled."""

    id: str
    done: str


PlanAnswer = PlanForm | NothingPlanned
PlanListAnswer = list[ListedPlan]


@click.group(invoke_without_command=True)
@days_options()
@click.option("--tables", "named", help="Their names, comma-separated. [default: all]")
@options_of(PolicyOptions, types={"canary": Parsed("N|DAY|A..B", _parsed_canary)})
@options_of(Tolerances)
@click.option(
    "--template",
    type=click.Choice(tuple(TEMPLATES)),
    help="Safe defaults for a kind of correction.",
)
@click.option(
    "--newest-first", "order", flag_value="newest-first", help="The same as --order newest-first."
)
@click.option(
    "--max-chunk-days",
    type=click.IntRange(1),
    default=MOST_CHUNK_DAYS,
    show_default=True,
    help="The cap.",
)
@click.option("--expect-from", type=FILE, help='A TOML file with more of them: expect = ["…"].')
@click.option(
    "--rollback-on-failure", is_flag=True, help="A chunk whose gate refuses is put back at once."
)
@click.option(
    "--look",
    is_flag=True,
    help="Read what landed by today's settings: days that gain or lose rows. Slower.",
)
@click.option(
    "--code",
    metavar="REF",
    default="",
    help="The pipeline's files as git knows them at this commit or tag.",
)
@click.option("--reason", type=TEXT, default="", help="Why, in a word or two.")
@click.option("--note", type=TEXT, default="", help="Why, in full; it is kept in the receipts.")
@target_option
@json_and_lake
def plan(**options: Any) -> None:
    """Plan a backfill: days and why, what follows, chunks, gates, price, pins. Writes the plan's
    file, nothing else.

    Days that need nothing make no plan. Exit code 1 if the preflight failed: such a plan is refused
    when it is run.
    """
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None:
        return
    make_target: Callable[[str | None], None] | None = offered_function("make_target")
    if make_target is not None:
        make_target(options["named"])
    code = pin_code(opened_lake()[0], options["code"], reached_paths) if options["code"] else None
    with using_code(code):
        may_run = _make_and_show({**options, "code": code})
    if not may_run:
        ctx.exit(1)


def _make_and_show(options: dict[str, Any]) -> bool:
    """Make, keep and show the plan; gives whether its preflight passed. A plan without anything to
    do is not kept, and its JSON has no id."""
    if options["days"] is None:
        raise click.UsageError("which days? Say --from DAY --to DAY.")
    lake, pipeline = observed_lake()
    days = require_partitions(options["days"], lake.settings.start_date)
    tables = tables_to_make(lake, pipeline, options["named"])
    rest = {name: options[name] for name in ("reason", "note", "look", "code")}
    rest["usual_canary"] = options["canary"] is None
    if options["max_parallel"] is None and not options["template"]:
        options["max_parallel"], rest["parallel"] = usual_parallel(lake.settings)
    with errors_as_usage():
        if options["expect_from"]:
            options["expect"] += read_expectations(options["expect_from"])
        request = PlanRequest(
            days, tables, _chosen_policy(options), most_days=options["max_chunk_days"], **rest
        )
        new_plan = make_plan(lake, pipeline, request)
    if new_plan.nothing_to_do and not options["look"]:
        span = str(days.start), str(days.last)
        nothing: NothingPlanned = {
            "id": None,
            "state": "nothing to do",
            "days": span,
            "tables": tables,
        }
        write_answer(nothing, [new_plan.nothing_to_do])
        return True
    say_cut_periods([pipeline.table(name).contract for name in tables], days)
    keep_plan(lake, new_plan)
    show_progress(read_progress(lake, pipeline, new_plan))
    return not new_plan.failed_ticks


def _chosen_policy(options: dict[str, Any]) -> Policy:
    """The template's, or the defaults, with the given options on top."""
    base = TEMPLATES[options["template"]] if options["template"] else Policy()
    chosen = entered_options(PolicyOptions, options)
    if isinstance(options["canary"], DayRange):
        chosen |= {"canary": len(options["canary"]), "canary_days": options["canary"]}
    if options["rollback_on_failure"]:
        chosen["on_failure"] = "rollback"
    tolerances = base.tolerances.model_copy(update=entered_options(Tolerances, options))
    return base.model_copy(update={**chosen, "tolerances": tolerances})


@plan.command("list", short_help="All plans of the lake.")
@target_option
@json_and_lake
def list_plans() -> None:
    """All plans of the lake, oldest first."""
    lake, _ = opened_lake()
    for error in damaged_plans(lake):
        remark(f"Note: {error}")
    states = [(p, plan_state(lake, p)) for p in readable_plans(lake)]
    document: PlanListAnswer = [
        {
            "id": p.id,
            "state": s,
            "from": str(p.days.start),
            "to": str(p.days.last),
            "tables": p.tables,
            "chunks": len(p.chunks),
            "user": p.user,
            "reason": p.reason,
            "note": p.note,
        }
        for p, s in states
    ]
    rows = [
        [p.id, s, str(p.days), str(len(p.chunks)), p.user, p.reason or p.note or "-"]
        for p, s in states
    ]
    table = TextTable(["plan", "state", "days", "chunks", "by", "why"], rows)
    write_answer(
        document,
        [table] if rows else [],
        "No plans yet. Make one with: backfill-assets plan --from DAY --to DAY",
    )


@plan.command("show", short_help="A plan and how far it is.")
@click.argument("plan_id", metavar="ID")
@click.option("--markdown", is_flag=True, help="As a runbook.")
@target_option
@json_and_lake
def show_plan(plan_id: str, markdown: bool) -> None:
    """A plan and how far it is. ID may be shortened to what only one plan begins with."""
    shown = find_plan(opened_lake()[0], plan_id)
    with using_code(shown.code):
        current = read_progress(*opened_lake(), shown)
    click.echo(runbook_text(current)) if markdown else show_progress(current)


@plan.command("pause", short_help="Stop after the current chunk.")
@click.argument("plan_id", metavar="ID")
@click.option("--note", type=TEXT, default="", help="Why.")
@target_option
@json_and_lake
def pause(plan_id: str, note: str) -> None:
    """Let a plan stop after the chunk that it is at."""
    lake, _ = opened_lake()
    found = find_plan(lake, plan_id)
    set_mark(lake, found.id, "paused", note or "no note")
    line = f"plan {found.id} is paused; go on with: backfill-assets plan resume {found.id}"
    write_answer({"id": found.id, "done": "paused"}, [line])


@plan.command("resume", short_help="Take a pause or a stop back.")
@click.argument("plan_id", metavar="ID")
@click.option(
    "--reason",
    type=TEXT,
    default="",
    help="Why; needed after --stop-after. It is kept with your name.",
)
@target_option
@json_and_lake
def resume(plan_id: str, reason: str) -> None:
    """Take a pause, or the stop that --stop-after asked for, back; `run` goes on where the plan
    stood."""
    lake, _ = opened_lake()
    found = find_plan(lake, plan_id)
    resume_plan(lake, found, reason)
    write_answer(
        {"id": found.id, "done": "resumed"},
        [f"plan {found.id} may run again: backfill-assets run {found.id}"],
    )


@plan.command("cancel", short_help="End it; what is written stays.")
@click.argument("plan_id", metavar="ID")
@click.option("--note", type=TEXT, default="", help="Why.")
@target_option
@json_and_lake
def cancel(plan_id: str, note: str) -> None:
    """End a plan after the chunk that it is at; what is written stays, and its days are free for
    others."""
    lake, _ = opened_lake()
    found = find_plan(lake, plan_id)
    set_mark(lake, found.id, "ended", f"{CANCELLED}: {note}" if note else CANCELLED)
    write_answer(
        {"id": found.id, "done": "cancelled"},
        [f"plan {found.id}: {mark_text(lake, found.id, 'ended')}"],
    )
