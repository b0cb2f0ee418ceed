"""Runs of chunks: the names by which other processes find tables, and processes that find nothing to do.

Tested here: `orchestration.plan_chunks` and `chunk_process` on a lake without an engine. Not tested here: runs of
Dagster (`end_to_end/test_plan_at_once.py`).
"""

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.operations.plan_run import ChunkWork
from backfill_assets.orchestration.context import LakeContext, TablesOf
from backfill_assets.orchestration.plan_chunks import ChunkRuns, Parent, name_of
from backfill_assets.pipeline.chosen import tables_at
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.planning import planned

pytestmark = pytest.mark.usefixtures("storages")


def at_once(lake: tuple[Lake, Pipeline], home: Path, tables_of: TablesOf = tables) -> list[str]:
    """The causes of two chunks of right days, each made in a process of its own."""
    plan = planned(*lake, force=False, max_parallel=2)
    works = [ChunkWork(plan, chunk, plan.tables, chunk.days) for chunk in plan.chunks[1:3]]

    def rebuild_of(_: Collection[str]) -> dg.JobDefinition:
        raise AssertionError("nothing is to be made")

    with dg.DagsterInstance.local_temp(str(home)) as instance:
        runs = ChunkRuns(instance, LakeContext(lake[0].root, tables_of), rebuild_of, Parent("run", "root"), print)
        return runs.make(works)


@pytest.mark.usefixtures("processes")
def test_processes_find_lake_tables_plan_and_instance_by_what_the_parent_says(
    lake: tuple[Lake, Pipeline], tmp_path: Path
) -> None:
    assert at_once(lake, tmp_path) == ["", ""]


@pytest.mark.usefixtures("processes")
def test_tables_that_the_lakes_settings_name_are_found_by_the_lake(lake: tuple[Lake, Pipeline], tmp_path: Path) -> None:
    assert at_once(lake, tmp_path, tables_at(lake[0].root)) == ["", ""]


def test_tables_that_another_process_cannot_import_are_refused_with_what_to_do(
    lake: tuple[Lake, Pipeline], tmp_path: Path
) -> None:
    def here(settings: LakeSettings) -> Sequence[Table]:
        return tables(settings)

    assert name_of(tables) == "backfill_assets.pipeline.tables:tables"
    for tables_of in (here, partial(tables)):
        with pytest.raises(BackfillError, match="other processes cannot import it"):
            at_once(lake, tmp_path, tables_of)
