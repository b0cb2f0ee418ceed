"""Checks of assets: judged before the commit, wherever the asset runs and whatever its key became.

Tested here: `lake_checks` over runs. Not tested here: the registry (`test_contracts_rules.py`) and the gates
(`lake/test_gates.py`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from backfill_assets.dagster import lake_checks
from backfill_assets.orchestration.history import evaluations_of
from backfill_assets_tests.dagster.projects import DAYS, Deliveries, cause, materialize, orders_asset, rows

FIRST = "2024-01-01"
BROKEN: dict[str, tuple[list[tuple[str | None, int | None]], str, str]] = {
    "a key that repeats": ([("a", 1), ("a", 2)], "unique_key", "1 row(s) repeat a key (id)"),
    "a key that is NULL": ([(None, 1)], "not_null", "1 NULL(s) in id"),
    "too many rows": ([("a", 1), ("b", 1), ("c", 1), ("d", 1)], "row_count", "4 rows, more than max_rows = 3"),
    "a row that breaks a rule": ([("a", -1)], "rules", "1 row(s) break positive"),
}


def checked(deliveries: Deliveries) -> tuple[dg.AssetsDefinition, list[dg.AssetChecksDefinition]]:
    orders = orders_asset(deliveries)
    checks = lake_checks(orders, unique=["id"], not_null=["amount"], rows=(1, 3), rules={"positive": "amount > 0"})
    return orders, checks


def verdicts(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> dict[str, tuple[bool, dict[str, Any]]]:
    """The verdict and facts of each check of a run, as they are stored."""
    found = evaluations_of(instance, result.run_id)
    return {e.check_name: (e.passed, {k: v.value for k, v in e.metadata.items()}) for e in found}


@pytest.mark.parametrize("name", BROKEN)
def test_a_day_that_breaks_a_rule_keeps_its_rows_and_its_check_says_which(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance, name: str
) -> None:
    orders, checks = checked(deliveries)
    first = verdicts(instance, materialize(lake, [orders, *checks], FIRST, instance=instance))
    assert {passed for passed, _ in first.values()} == {True}
    before = rows(lake, "shop__orders")
    bad, check, words = BROKEN[name]
    deliveries.by_day[FIRST] = bad
    result = materialize(lake, [orders, *checks], FIRST, "2024-01-02", instance=instance)
    assert words in cause(result)
    assert rows(lake, "shop__orders") == before
    found = verdicts(instance, result)
    assert {n for n, (passed, _) in found.items() if not passed} == {check}
    assert FIRST in found[check][1]["what"]
    assert words in found[check][1]["what"]


def test_a_refusal_needs_no_check_in_the_run(lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance) -> None:
    orders, _ = checked(deliveries)
    deliveries.by_day[FIRST] = [("a", 1), ("a", 2)]
    assert "repeat a key" in cause(materialize(lake, [orders], FIRST, instance=instance))


def test_an_asset_with_another_io_manager_is_not_judged(deliveries: Deliveries) -> None:
    @dg.asset(partitions_def=DAYS)
    def elsewhere() -> pa.Table:
        return pa.table({"day": [FIRST]})

    (check,) = lake_checks(elsewhere, rows=(5, None))
    assert check.required_resource_keys == {"io_manager"}
