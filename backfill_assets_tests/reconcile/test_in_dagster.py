"""Controls in Dagster: the tick of their sensor, and what it keeps for `status`.

Not tested here: judging a control (`reconcile.test_reconcile`).
"""

from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.attention import sensor_alarms
from backfill_assets.reading.outcomes import broken_controls
from backfill_assets.reconcile.in_dagster import controls_sensor, controls_tick
from backfill_assets.reconcile.reconcile import judge_controls
from backfill_assets_tests.readable_lake import TABLE, readable_lake

pytestmark = pytest.mark.usefixtures("storages")
CONTROL = """
[controls.versions]
query = "SELECT event_date AS day, count(*) AS value FROM staging GROUP BY 1"
expected = "totals.csv"
"""


@pytest.fixture
def controlled(tmp_path: Path) -> Path:
    """A lake with a control."""
    readable_lake(tmp_path)
    (tmp_path / "totals.csv").write_text("day,value\n2024-03-01,2\n2024-03-02,2\n")
    with (tmp_path / FILE_NAME).open("a") as toml:
        toml.write(CONTROL)
    return tmp_path


def double(root: Path) -> None:
    """Append all rows of the table to it, as the job of the incident did."""
    path = str(root / "tables" / TABLE)
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")


def test_a_doubled_table_is_an_alarm_and_a_red_check_at_the_next_tick(controlled: Path) -> None:
    lake_context = LakeContext(controlled, tables)
    fine = controls_tick(lake_context)
    assert (fine.alarms, [v.passed for v in fine.verdicts]) == ({}, [True])
    double(controlled)
    found = controls_tick(lake_context)
    assert list(found.alarms) == ["control versions"]
    assert "2024-03-01: 4, expected 2" in found.alarms["control versions"]
    [verdict] = found.verdicts
    assert (verdict.check_name, verdict.asset_key, verdict.passed) == (
        "control_versions",
        dg.AssetKey(TABLE),
        False,
    )


def test_an_alarm_of_the_sensor_is_kept_once_for_status(
    controlled: Path, instance: dg.DagsterInstance
) -> None:
    double(controlled)
    result = controls_sensor(LakeContext(controlled, tables))(
        dg.build_sensor_context(instance=instance)
    )
    assert "control versions" in str(getattr(result, "cursor", ""))
    opened = LakeContext(controlled, tables).open()
    kept = (*sensor_alarms(controlled), *broken_controls(*opened))
    assert len([line for line in kept if "expected 2" in line]) == 1
    (controlled / "totals.csv").write_text("day,value\n2024-03-01,4\n2024-03-02,4\n")
    lake = open_lake(controlled)
    judge_controls(lake, chosen_pipeline(lake))
    assert [*sensor_alarms(controlled), *broken_controls(*opened)] == [], (
        "the command alone ends what the sensor found"
    )
