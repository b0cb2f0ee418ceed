"""`backfill-assets run`: runs a plan, or what is left of it, and reports on stderr.

Elsewhere: the order of chunks and the gates (`plans.run`), the runs of Dagster (`runner`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import click

from backfill_assets.cli.backfill import run_work, say_warnings
from backfill_assets.cli.common import (
    errors_as_usage,
    json_and_lake,
    opened_lake,
    say_unusable,
    target_option,
)
from backfill_assets.cli.drawing import remark
from backfill_assets.kernel.core.errors import ALSO, BackfillError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.code import using_code
from backfill_assets.plans.files import find_plan, record_acceptance
from backfill_assets.plans.gates import refuse_bound
from backfill_assets.plans.model import Plan, PlanChunk
from backfill_assets.plans.pace import Pace, sleep_briefly
from backfill_assets.plans.plan_page import show_progress
from backfill_assets.plans.progress import Progress, read_progress
from backfill_assets.plans.run import activate_plan, run_plan
from backfill_assets.plans.work import PARENT, ROOT, ChunkMaker, ChunkWork

WAITS = 3  # the exit code of a plan that waits as it was told to


@click.command()
@click.argument("plan_id", metavar="PLAN")
@click.option(
    "--accept",
    "accepts",
    multiple=True,
    help="Pass over the gate of this chunk (a number), or lift a bound for all chunks, as the "
    "refusal names it.",
)
@click.option(
    "--reason", default="", help="With --accept: why; `plan show` and the receipts keep it."
)
@click.option(
    "--daemon",
    is_flag=True,
    help="Let Dagster's daemon run it: the sensor `plans` begins within seconds.",
)
@click.option(
    "--only",
    type=click.IntRange(1),
    hidden=True,
    help="For `run` itself: this chunk, without its gate.",
)
@click.option(
    "--parent",
    nargs=2,
    hidden=True,
    help="With --only: ids of the run that asks for it, and of its root.",
)
@target_option
@json_and_lake
def run(
    plan_id: str,
    accepts: tuple[str, ...],
    reason: str,
    daemon: bool,
    only: int | None,
    parent: tuple[str, str] | None,
) -> None:
    """Run a plan, or what is left of it. Exit code 1 where it is refused, a run fails, or a gate
    stops it; 3 where it waits for a person, as `plan --stop-after` chunk.

    Dagster's daemon takes up a plan whose runner was killed; one that stopped and said why waits
    for this command.
    """
    lake, pipeline = opened_lake()
    plan = find_plan(lake, plan_id)
    if daemon and accepts:
        raise click.UsageError("--accept is for the person who looked: leave --daemon away.")
    accepted = _record_accepted(lake, pipeline, plan, accepts, reason)
    if only is not None:  # the runner's environment names the code
        _run_chunk(lake, plan, plan.chunk(only), parent)
        return
    with using_code(plan.code):
        current = _run_plan(lake, plan, accepted, daemon)
        show_progress(current, outcome=True)
    say_unusable(lake)
    say_warnings(KnownStates(lake, pipeline), dict.fromkeys(plan.tables, plan.days))
    if current.state == "waiting":
        click.get_current_context().exit(WAITS)


def _record_accepted(
    lake: Lake, pipeline: Pipeline, plan: Plan, accepts: Sequence[str], reason: str
) -> int:
    """Record what this person accepts; return the number of the chunk among it, or 0. Raises
    click's error for a bound without a reason, and for what is neither a chunk nor a bound of the
    plan."""
    bounds = [accept for accept in accepts if not accept.isdigit()]
    chunks = [int(accept) for accept in accepts if accept.isdigit()]
    with errors_as_usage():
        for number in chunks:
            plan.chunk(number)
        for bound in bounds:
            refuse_bound(plan, pipeline.contracts, bound)
    if bounds and not reason.strip():
        raise click.UsageError(
            f"why may {', '.join(bounds)} be lifted? Nothing was run. Add --reason WHY."
        )
    if len(chunks) > 1:
        raise click.UsageError("--accept takes one chunk at a time: look at each. Nothing was run.")
    if accepts:
        record_acceptance(
            lake, plan, [*bounds, *(f"chunk {number}" for number in chunks)], reason.strip()
        )
    return chunks[0] if chunks else 0


def _run_chunk(lake: Lake, plan: Plan, chunk: PlanChunk, parent: tuple[str, str] | None) -> None:
    """Make one chunk, without its gate; print the cause and exit with 1 where that fails."""
    tags = dict(zip((PARENT, ROOT), parent, strict=True)) if parent else {}
    try:
        cause = chunk_maker(lake, tags).make([ChunkWork(plan, chunk, plan.tables, chunk.days)])[0]
    except BackfillError as error:
        cause = str(error)
    if cause:
        click.echo(cause)
        click.get_current_context().exit(1)


def _run_plan(lake: Lake, plan: Plan, accepted: int, daemon: bool) -> Progress:
    """Run the plan here, or leave it to the daemon; return its progress afterwards."""
    from backfill_assets.cli.dagster_home import instance_of, silence_dagster

    if daemon:
        activate_plan(*opened_lake(), plan)
        return read_progress(*opened_lake(), plan)
    if (
        plan.policy.max_parallel > 1
    ):  # processes that all make the tables of a new home get into each other's way
        with silence_dagster(), instance_of(lake):
            pass
    return run_plan(opened_lake, plan, chunk_maker(lake), accepted, pace_here(lake))


def pace_here(lake: Lake) -> Pace:
    """How a plan waits in a terminal: here, while Dagster's records name a run that goes first."""
    from backfill_assets.cli.dagster_home import instance_of, silence_dagster
    from backfill_assets.plans.plan_job import find_run_ahead

    def find_ahead() -> str:
        """Ask the instance that shows the lake."""
        with silence_dagster(), instance_of(lake) as instance:
            return find_run_ahead(instance, lake)

    return Pace(sleep_briefly, find_ahead)


def chunk_maker(lake: Lake, tags: Mapping[str, str] | None = None) -> ChunkMaker:
    """Makes chunks by runs of Dagster with these further tags, and reports on stderr."""

    def make_one(asked: Work) -> str:
        """Run the job; gives the cause of a failure."""
        outcome = run_work(
            KnownStates(*opened_lake()), replace(asked, tags={**asked.tags, **(tags or {})})
        )
        return "" if outcome.success else ALSO.join(outcome.causes) or "the run failed"

    return ChunkMaker(lake.root, opened_lake, make_one, remark)
