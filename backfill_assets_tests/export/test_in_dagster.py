"""The job `export` as the browser shows it. No JVM.

Not tested here: what is brought where (`export.test_export`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.export.in_dagster import export_job
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.model import Table
from backfill_assets_tests.builders import CONTRACTS
from backfill_assets_tests.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")


def tables(_: Any) -> tuple[Table, ...]:
    return tuple(Table(c) for c in CONTRACTS[:3])


def test_the_job_of_exports_tells_what_each_of_them_brought(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    made = Planned(tmp_path / "lake")
    job = export_job(LakeContext(made.lake.root, tables))
    with (made.lake.root / FILE_NAME).open("a") as toml:
        toml.write('[exports.shop]\ntable = "raw"\nto = "out"\n')
    done = job.execute_in_process(instance=instance)
    [told] = [e for e in done.all_events if e.event_type_value == "STEP_OUTPUT"]
    assert "raw to" in str(told.step_output_data.metadata["done"].value)
    events = [e.user_message for e in instance.all_logs(done.run_id) if not e.is_dagster_event]
    assert any("raw to" in text for text in events), "the same without a click"
