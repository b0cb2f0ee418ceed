"""`backfill-assets run`: the chunks of a plan in order, a gate after each, from wherever it stood.

Lives here: the command and what it tells while it works. Does not live here: the order and the gates
(`operations.plan_run`) and the runs of Dagster (`runner`).
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.backfill import work
from backfill_assets.cli.common import json_option, lake_option, opened, print_json
from backfill_assets.cli.drawing import aside
from backfill_assets.cli.progress import BackfillRequest
from backfill_assets.core.errors import GateRefused
from backfill_assets.core.plan_states import ChunkState
from backfill_assets.core.plans import PLAN_REASON, Plan, PlanChunk

if TYPE_CHECKING:
    from backfill_assets.lake.home import Lake
    from backfill_assets.operations.plan_progress import Progress
    from backfill_assets.operations.plan_run import ChunkWork


@click.command()
@click.argument("plan_id", metavar="PLAN")
@click.option("--accept", type=click.IntRange(1), help="Pass over this chunk's gate: someone has looked.")
@click.option("--only", type=click.IntRange(1), hidden=True, help="For `run` itself: this chunk, without its gate.")
@json_option
@lake_option
def run(plan_id: str, accept: int | None, only: int | None, as_json: bool) -> None:
    """Run a plan, or what is left of it. Exit code 1 where it is refused, a run fails, or a gate stops it."""
    from backfill_assets.cli.plan_page import show_progress
    from backfill_assets.operations.plan_files import find_plan
    from backfill_assets.operations.plan_run import make_chunk, run_plan

    lake, _ = opened()
    plan = find_plan(lake, plan_id)
    if accept is not None:
        plan.chunk(accept)
    if only is not None:
        print_json({"cause": make_chunk(opened, plan, plan.chunk(only), CommandWorker(lake, plan))})
        return
    try:
        now = run_plan(opened, plan, CommandWorker(lake, plan), accept or 0)
    except GateRefused as refused:
        _tell(lake, refused)
        raise
    show_progress(now, "json" if as_json else "")


def _tell(lake: "Lake", refused: GateRefused) -> None:
    """An alert of the gate, as the same plan sends it from the browser."""
    from backfill_assets.cli.dagster_home import instance_of, silenced
    from backfill_assets.orchestration.gate_alerts import tell_gate

    with silenced(), instance_of(lake) as instance:
        tell_gate(lake.root, instance, refused)


class CommandWorker:
    """Makes days by runs of Dagster in this process, and tells of it on stderr."""

    def __init__(self, lake: "Lake", plan: Plan) -> None:
        self.lake, self.plan = lake, plan
        self.began, self.rows, self.expected = time.monotonic(), 0, 0.0

    def make(self, works: "Sequence[ChunkWork]") -> list[str]:
        """One run here, or several at once in processes of their own; the causes where they failed."""
        return [self._make(works[0])] if len(works) == 1 else self._make_at_once(works)

    def _make_at_once(self, works: "Sequence[ChunkWork]") -> list[str]:
        plan, begun = self.plan, []
        lake = (sys.executable, "-m", "backfill_assets", "--lake", str(self.lake.root))
        try:
            for work_asked in works:
                command = [*lake, "run", plan.id, "--only", str(work_asked.chunk.number), "--json"]
                begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            return [_cause(process.communicate()[0], process.returncode) for process in begun]
        finally:
            for process in begun:
                if process.poll() is None:
                    process.terminate()
                    process.wait()

    def _make(self, work_asked: "ChunkWork") -> str:
        plan = self.plan
        note = "; ".join(t for t in (plan.reason, plan.note) if t)
        outcome = work(
            self.lake,
            BackfillRequest(
                work_asked.days, work_asked.tables, plan.policy.force, note, PLAN_REASON, dict(work_asked.tags)
            ),
        )
        self.rows += sum(t.rows for t in outcome.tables)
        return "" if outcome.success else outcome.cause or "the run failed"

    def chunk_began(self, progress: "Progress", chunk: PlanChunk) -> None:
        """E.g. `chunk 3 of 7 (2024-03-09..2024-03-15): 120 rows/s so far, about 40 s left`."""
        left = [c for c in progress.chunks if c.state is not ChunkState.DONE and c.price]
        seconds = sum(c.price.seconds for c in left if c.price)
        spent = time.monotonic() - self.began
        rate = f"{self.rows / spent:.0f} rows/s so far, " if self.rows and spent > 1 else ""
        of = len(self.plan.chunks)
        aside(f"chunk {chunk.number} of {of} ({chunk.kind.value} {chunk.days}): {rate}about {seconds:.0f} s left")

    def gate_passed(self, chunk: PlanChunk) -> None:
        """Say so."""
        aside(f"chunk {chunk.number}: gate passed")


def _cause(told: str, code: int) -> str:
    """What a process that made one chunk says; empty where it went well."""
    try:
        return str(json.loads(told)["cause"])
    except (ValueError, KeyError, TypeError):
        return f"its process ended with exit code {code}; what it said stands above"
