"""Chunks of the job `backfill_range` made at once: each in a process of the command `run`, which opens the lake itself.

Tested here: `orchestration.plan_job.chunk_maker` on a lake without an engine. Not tested here: runs of Dagster
(`end_to_end/test_plan_at_once.py`).
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.backfill.work import ChunkWork
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.plan_job import chunk_maker
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.planning import planned
from backfill_assets_tests.orchestration.ticking import Made

pytestmark = pytest.mark.usefixtures("storages")


def at_once(lake: Made, home: Path) -> list[str]:
    """The causes of two chunks of right days, each made in a process of its own."""
    plan = planned(*lake, force=False, max_parallel=2)
    works = [ChunkWork(plan, chunk, plan.tables, chunk.days) for chunk in plan.chunks[1:3]]

    def rebuild_of(_: Collection[str]) -> dg.JobDefinition:
        raise AssertionError("nothing is to be made")

    with dg.DagsterInstance.local_temp(str(home)) as instance:
        run = dg.DagsterRun("backfill_range", run_id="run")
        return chunk_maker(instance, LakeContext(lake[0].root, tables), rebuild_of, run, print).make(works)


@pytest.mark.usefixtures("processes")
def test_processes_find_lake_tables_and_plan_by_what_the_parent_says(lake: Made, tmp_path: Path) -> None:
    assert at_once(lake, tmp_path) == ["", ""]


@pytest.mark.usefixtures("processes")
def test_processes_that_find_other_tables_than_those_planned_are_refused_by_their_pins(
    lake: Made, tmp_path: Path
) -> None:
    there, pipeline = lake
    other = replace(pipeline.codes["staging"], code_digest="other")
    causes = at_once((there, replace(pipeline, codes={**pipeline.codes, "staging": other})), tmp_path)
    assert len(causes) == 2
    assert all("its pins hold no longer: the code of staging was other, is " in cause for cause in causes)
