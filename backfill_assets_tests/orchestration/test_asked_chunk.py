"""A chunk is found by what a parent says of it: the lake, the function that gives its tables, and the plan.

Tested here: `orchestration.asked_chunk` asked for a plan that is not there. Not tested here: what is made of a plan
(`test_plan_chunks`), and the process (`test_chunk_process`).
"""

import sys
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.orchestration.asked_chunk import make_chunk
from backfill_assets.orchestration.plan_chunks import BY_SETTINGS, name_of
from backfill_assets.pipeline.tables import tables


@pytest.mark.parametrize("tables_of", [name_of(tables), BY_SETTINGS + "()"])
def test_a_plan_that_is_not_there_is_refused_by_its_name(
    lake: tuple[Lake, Pipeline], tmp_path: Path, tables_of: str
) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        asked = {
            "root": str(lake[0].root), "tables_of": tables_of, "path": list(sys.path), "plan": "20240101-000000-0000",
            "instance": dg.serialize_value(instance.get_ref()), "chunk": 1, "run": "run", "root_run": "run",
        }  # fmt: skip
        with pytest.raises(BackfillError, match="20240101-000000-0000"):
            make_chunk(asked)
