"""The runs of a plan's chunks, each a run of the job `rebuild` in the same instance of Dagster.

Lives here: their tags and settings, one after another in this process, or several at once in processes of their own.
Does not live here: which chunk is next (`operations.plan_run`), the job with a launchpad (`plan_job`), and what such a
process does (`chunk_process`).
"""

import json
import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.interpreter import python_command
from backfill_assets.core.plans import PLAN_REASON, Plan, PlanChunk
from backfill_assets.core.who import whoami
from backfill_assets.operations.plan_children import Child
from backfill_assets.operations.plan_progress import Progress
from backfill_assets.operations.plan_run import ChunkWork, make_all
from backfill_assets.orchestration.context import LakeContext, TablesOf
from backfill_assets.orchestration.history import cause_of
from backfill_assets.orchestration.runs import (
    BY_TAG,
    LAKE_TAG,
    NOTE_TAG,
    OWN_EVENTS,
    REASON_TAG,
    SILENCE,
    op_name,
    range_tags,
)

PARENT, ROOT = "dagster/parent_run_id", "dagster/root_run_id"  # by these the runs list shows which run began which
PROGRAM = python_command("backfill_assets.orchestration.chunk_process")
BY_SETTINGS = "backfill_assets.pipeline.chosen:tables_at"  # the front doors' way to the tables of a lake
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
        """One here, several at once in processes of their own; the causes where they failed."""
        return make_all(self.lake_context.open, works, self._make, self._child)

    def _child(self, work: ChunkWork) -> Child:
        """The process of one chunk, with what `chunk_process` reads."""
        return Child(PROGRAM, json.dumps({
            "root": str(self.lake_context.root), "tables_of": name_of(self.lake_context.tables_of),
            "instance": dg.serialize_value(self.instance.get_ref()), "path": [p or str(Path.cwd()) for p in sys.path],
            "plan": work.plan.id, "chunk": work.chunk.number, "run": self.parent.run_id, "root_run": self.parent.root,
        }))  # fmt: skip

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
            **({NOTE_TAG: plan.note} if plan.note else {}), **OWN_EVENTS, **work.tags,
        }  # fmt: skip

    def chunk_began(self, progress: Progress, chunk: PlanChunk) -> None:
        """A line in the run's log."""
        self.tell(f"chunk {chunk.number} of {len(progress.plan.chunks)}: {chunk.days}")

    def gate_passed(self, chunk: PlanChunk) -> None:
        """A line in the run's log."""
        self.tell(f"chunk {chunk.number}: gate passed")


def name_of(tables_of: TablesOf) -> str:
    """`module:name`, by which another process finds the function, or `module:name()` where the function of that name
    gives it for the lake's folder; raises BackfillError for one that has no name."""
    module, name = getattr(tables_of, "__module__", ""), getattr(tables_of, "__qualname__", "")
    if f"{module}:{name}".startswith(BY_SETTINGS + "."):
        return BY_SETTINGS + "()"
    if not name.isidentifier() or module in ("", "__main__"):
        raise BackfillError(
            f"the tables made by {name or tables_of!r}", "other processes cannot import it", "No chunk was run",
            "Name it in a module, e.g. `def own_tables(settings)`, or use max_parallel 1",
        )  # fmt: skip
    return f"{module}:{name}"
