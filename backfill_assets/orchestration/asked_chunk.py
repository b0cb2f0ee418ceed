"""The chunk that a process of its own is asked to make, where the job `backfill_range` makes several at once.

Lives here: finding the lake, its tables and the instance of Dagster by what the parent says. Does not live here: the
process (`chunk_process`), the run (`plan_chunks`) and ending with the parent (`operations.plan_children`).
"""

import importlib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.operations.plan_files import find_plan
from backfill_assets.operations.plan_run import ChunkWork
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.context import LakeContext, TablesOf
from backfill_assets.orchestration.plan_chunks import ChunkRuns, Parent
from backfill_assets.orchestration.runs import REBUILD


def make_chunk(asked: dict[str, Any]) -> str:
    """Make the chunk that is asked for; gives the cause where that failed. Raises BackfillError where there is none."""
    sys.path[:] = asked["path"]
    context = LakeContext(Path(asked["root"]), _found(Path(asked["root"]), asked["tables_of"]))
    lake, _ = context.open()
    plan = find_plan(lake, asked["plan"])
    chunk = plan.chunk(asked["chunk"])

    def rebuild_of(tables: Collection[str]) -> dg.JobDefinition:
        """The job `rebuild` of some tables."""
        return assemble(context.root, context.tables_of, tables).resolve_job_def(REBUILD)

    ref: Any = dg.deserialize_value(asked["instance"])
    with dg.DagsterInstance.from_ref(ref) as instance:
        runs = ChunkRuns(instance, context, rebuild_of, Parent(asked["run"], asked["root_run"]), _tell)
        return runs.make([ChunkWork(plan, chunk, plan.tables, chunk.days)])[0]


def _found(root: Path, name: str) -> TablesOf:
    """What gives the tables: the function of that name, or what it gives for the folder."""
    module, _, function = name.partition(":")
    found: Any = getattr(importlib.import_module(module), function.removesuffix("()"))
    given: TablesOf = found(root) if name.endswith("()") else found
    return given


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
