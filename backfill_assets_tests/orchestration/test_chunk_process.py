"""The process of a chunk says why it failed, on its last line and as JSON.

Tested here: `orchestration.chunk_process` asked for a plan that is not there. Not tested here: what it does when all is
well (`test_plan_chunks`).
"""

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.orchestration.plan_chunks import PROGRAM, name_of
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.processes import CHECKOUT


@pytest.mark.usefixtures("processes")
def test_what_it_cannot_do_is_its_cause(lake: tuple[Lake, Pipeline], tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        asked = {
            "root": str(lake[0].root), "tables_of": name_of(tables), "path": sys.path, "plan": "20240101-000000-0000",
            "instance": dg.serialize_value(instance.get_ref()), "chunk": 1, "run": "run", "root_run": "run",
        }  # fmt: skip
        done = subprocess.run(
            PROGRAM, cwd=CHECKOUT, input=json.dumps(asked), capture_output=True, text=True, timeout=120, check=True
        )
    assert "this lake has no such plan" in json.loads(done.stdout.splitlines()[-1])["cause"]
