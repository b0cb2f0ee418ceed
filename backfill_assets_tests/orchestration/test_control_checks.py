"""Known totals in Dagster: the incident of three years doubled by an append shows at the next tick.

Tested here: `orchestration.control_checks`. Not tested here: judging (`operations.test_controls`).
"""

from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.lake.home import open_lake
from backfill_assets.lake.settings import FILE_NAME
from backfill_assets.operations.controls import judge_controls
from backfill_assets.operations.status import attention
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.control_checks import CONTROLS, controls_sensor, controls_tick
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.readable_lake import TABLE, readable_lake

pytestmark = pytest.mark.usefixtures("storages")
CONTROL = """
[controls.versions]
query = "SELECT event_date AS day, count(*) AS value FROM staging GROUP BY 1"
expected = "totals.csv"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    readable_lake(tmp_path)
    (tmp_path / "totals.csv").write_text("day,value\n2024-03-01,2\n2024-03-02,2\n")
    with (tmp_path / FILE_NAME).open("a") as toml:
        toml.write(CONTROL)
    return tmp_path


def double(root: Path) -> None:
    """Append all rows of the table to it, as the job of the incident did."""
    path = str(root / "tables" / TABLE)
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")


def test_a_doubled_table_is_an_alarm_and_a_red_check_at_the_next_tick(root: Path) -> None:
    lake_context = LakeContext(root, tables)
    fine = controls_tick(lake_context)
    assert (fine.alarms, [v.passed for v in fine.verdicts]) == ({}, [True])
    double(root)
    found = controls_tick(lake_context)
    assert list(found.alarms) == ["control versions"]
    assert "2024-03-01: 4, expected 2" in found.alarms["control versions"]
    [verdict] = found.verdicts
    assert (verdict.check_name, verdict.asset_key, verdict.passed) == (
        "control_versions", dg.AssetKey(TABLE), False,
    )  # fmt: skip


def test_an_alarm_of_the_sensor_is_kept_once_for_status(root: Path, instance: dg.DagsterInstance) -> None:
    double(root)
    result = controls_sensor(LakeContext(root, tables))(dg.build_sensor_context(instance=instance))
    assert "control versions" in str(getattr(result, "cursor", ""))
    assert len([line for line in attention(root) if "expected 2" in line]) == 1
    (root / "totals.csv").write_text("day,value\n2024-03-01,4\n2024-03-02,4\n")
    lake = open_lake(root)
    judge_controls(lake, chosen_pipeline(lake))
    assert attention(root) == [], "the command alone ends what the sensor found"


def test_each_control_is_a_check_of_the_table_that_it_reads(root: Path) -> None:
    definitions = assemble(root, tables)
    names = {s.name for s in definitions.sensors or () if isinstance(s, dg.SensorDefinition)}
    assert CONTROLS in names
    keys = {k for c in definitions.asset_checks or () if isinstance(c, dg.AssetChecksDefinition) for k in c.check_keys}
    assert dg.AssetCheckKey(dg.AssetKey(TABLE), "control_versions") in keys
