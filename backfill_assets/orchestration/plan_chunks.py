"""The runs of a plan's chunks for the job `backfill_range`: each a run of the job `rebuild` in the same instance.

Elsewhere: which chunk is next (`operations.plan_run`), several at once (`operations.plan_work`), the job with its
launchpad (`plan_job`).
"""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from backfill_assets.core.plans import PLAN_REASON
from backfill_assets.core.who import whoami
from backfill_assets.operations.plan_model import Plan, PlanChunk
from backfill_assets.operations.plan_progress import Progress
from backfill_assets.operations.plan_work import PARENT, ROOT, ChunkWork, make_all
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.history import cause_of
from backfill_assets.orchestration.runs import (
    BY_TAG,
    LAKE_TAG,
    NOTE_TAG,
    REASON_TAG,
    SILENCE,
    op_name,
    range_tags,
)

JobOf = Callable[[Collection[str]], dg.JobDefinition]


@dataclass(frozen=True)
class Parent:
    """The run that works on the plan, as the runs of its chunks name it."""

    run_id: str
    root: str

    @classmethod
    def of(cls, run: dg.DagsterRun) -> "Parent":
        """The run itself."""
        return cls(run.run_id, run.root_run_id or run.run_id)

    @property
    def tags(self) -> Mapping[str, str]:
        """What the runs of chunks are tagged with."""
        return {PARENT: self.run_id, ROOT: self.root}


@dataclass(frozen=True)
class ChunkRuns:
    """Makes the chunks of a plan. `rebuild_of(tables)` gives the job `rebuild` of these tables; `tell` takes a line."""

    instance: dg.DagsterInstance
    lake_context: LakeContext
    rebuild_of: JobOf
    parent: Parent
    tell: Callable[[str], None]

    def make(self, works: Sequence[ChunkWork]) -> list[str]:
        """Make one chunk in this process, several at once in processes that open the tables of the lake's settings."""
        context, options = self.lake_context, ("--parent", self.parent.run_id, self.parent.root)
        return make_all(context.root, context.open, works, self._make, options)

    def _make(self, work: ChunkWork) -> str:
        plan = work.plan
        config = {op_name(name): {"config": {"force": work.forces(name), "note": plan.note}} for name in work.tables}
        result = self.rebuild_of(work.tables).execute_in_process(
            instance=self.instance,
            run_id=str(uuid.uuid4()),
            tags={**self._tags(plan, work), **self.parent.tags},
            run_config={"loggers": SILENCE, "ops": config},
            raise_on_error=False,
        )
        if result.success:
            return ""
        return next((cause_of(e) for e in result.all_events if e.is_step_failure), "the run failed")

    def _tags(self, plan: Plan, work: ChunkWork) -> Mapping[str, str]:
        return {
            **range_tags(work.days), REASON_TAG: PLAN_REASON, BY_TAG: whoami(), LAKE_TAG: str(self.lake_context.root),
            **({NOTE_TAG: plan.note} if plan.note else {}), **work.tags,
        }  # fmt: skip

    def chunk_began(self, progress: Progress, chunk: PlanChunk) -> None:
        """A line in the run's log."""
        self.tell(f"chunk {chunk.number} of {len(progress.plan.chunks)}: {chunk.days}")

    def gate_passed(self, chunk: PlanChunk) -> None:
        """A line in the run's log."""
        self.tell(f"chunk {chunk.number}: gate passed")
