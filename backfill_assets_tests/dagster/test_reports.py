"""What Dagster shows of days that assets returned.

Tested here: `dagster.reports`: metadata of days, and the form of an evaluation. Not tested here: which checks fail
(`test_checks.py`).
"""

from datetime import date
from pathlib import Path

import dagster as dg

from backfill_assets.dagster.reports import evaluations
from backfill_assets.lake.gates import Finding
from backfill_assets_tests.dagster.projects import Deliveries, materialize, orders_asset

KEY = dg.AssetKey(["shop", "orders"])


def test_each_written_day_shows_its_rows_and_its_write(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    result = materialize(lake, [orders_asset(deliveries)], "2024-01-01", "2024-01-03", instance=instance)
    shown = {m.partition: m.metadata for m in result.asset_materializations_for_node("shop__orders")}
    assert list(shown) == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert {m["dagster/partition_row_count"].value for m in shown.values()} == {3}
    assert len({m["backfill_assets/write_id"].value for m in shown.values()}) == 1


def test_an_evaluation_names_all_days_and_the_first_refusal() -> None:
    warned = Finding("row_count", date(2024, 1, 1), passed=False, refuses=False, message="the day is empty")
    refused = Finding("row_count", date(2024, 1, 3), passed=False, refuses=True, message="0 rows")
    failed, passed = evaluations(KEY, ["row_count", "not_null"], [warned, refused])
    assert (failed.passed, passed.passed) == (False, True)
    assert failed.metadata["which"].value == "2024-01-01, 2024-01-03"
    assert failed.metadata["what"].value == "2024-01-03: 0 rows"
    assert failed.severity is dg.AssetCheckSeverity.ERROR
