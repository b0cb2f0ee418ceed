"""What Dagster shows of days that assets returned.

Tested here: `dagster.io_manager`: metadata of days, and the form of an evaluation. Not tested here: which checks fail
(`test_daily_checks.py`).
"""

from pathlib import Path

import dagster as dg

from backfill_assets_tests.dagster.projects import Deliveries, materialize, orders_asset


def test_each_written_day_shows_its_rows_and_its_write(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    result = materialize(lake, [orders_asset(deliveries)], "2024-01-01", "2024-01-03", instance=instance)
    shown = {m.partition: m.metadata for m in result.asset_materializations_for_node("shop__orders")}
    assert list(shown) == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert {m["dagster/partition_row_count"].value for m in shown.values()} == {3}
    assert len({m["backfill_assets/write_id"].value for m in shown.values()}) == 1


def newest(instance: dg.DagsterInstance, asset: dg.AssetsDefinition, check: str) -> dg.AssetCheckEvaluation:
    record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(asset.key, check))
    assert record is not None
    assert record.evaluation is not None
    return record.evaluation
