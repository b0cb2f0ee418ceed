"""A table's name by the metadata of its asset: the same for all that write it, read it and ask
whether it is stale.

Tested here: names in whole runs, of one code location and of two. Not tested here: names by keys
(`test_contracts.py`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from backfill_assets.dagster import daily_table, is_stale, lake_checks
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.assets.projects import (
    DAYS,
    ONE_RUN,
    Deliveries,
    cause,
    materialize,
    rows,
)
from backfill_assets_tests.assets.test_io_manager import states
from backfill_assets_tests.dagster.test_stale import Ticks

FIRST, NEXT = "2024-01-01", "2024-01-02"
SOLD, NAME = dg.AssetKey(["EU", "Sold-Items"]), "backfill_assets/table"


def sold(
    deliveries: Deliveries, table: Any = "sold", key: dg.AssetKey = SOLD
) -> dg.AssetsDefinition:
    """An asset whose table its metadata names."""

    @dg.asset(
        key=key,
        partitions_def=DAYS,
        backfill_policy=ONE_RUN,
        code_version="1",
        metadata={"partition_expr": "day"} | ({NAME: table} if table else {}),
    )
    def made(context: dg.AssetExecutionContext) -> pa.Table:
        return deliveries.orders(context.partition_keys)

    return made


def copied(metadata: dict[str, Any] | None = None, table: str = "copied") -> dg.AssetsDefinition:
    """An asset that returns the rows of `EU/Sold-Items`."""

    @dg.asset(
        ins={"given": dg.AssetIn(key=SOLD, metadata=metadata)},
        partitions_def=DAYS,
        backfill_policy=ONE_RUN,
        metadata={"partition_expr": "day", NAME: table},
        code_version="1",
    )
    def copied(given: pa.Table) -> pa.Table:
        return given

    return copied


def test_a_name_by_metadata_is_that_of_rows_receipts_checks_and_conditions(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    upstream = sold(deliveries)
    project = [upstream, copied(table="copies"), *lake_checks(upstream, unique=["id"])]
    result = materialize(lake, project, FIRST, NEXT, instance=instance)
    assert result.success, cause(result)
    assert sorted(p.name for p in (lake / "tables").iterdir()) == ["copies", "sold"]
    assert rows(lake, "copies") == rows(lake, "sold")
    deliveries.by_day[NEXT] = [("a", 5)]
    assert materialize(lake, [upstream], NEXT, instance=instance).success
    assert states(lake, "copies") == {FIRST: "fresh", NEXT: "stale"}
    assert Ticks(instance, is_stale(lake), "copied").next() == {NEXT}
    deliveries.by_day[NEXT] = [("a", 5), ("a", 6)]
    refused = cause(materialize(lake, project, NEXT, instance=instance))
    assert refused.startswith("the table sold: unique_key fails")


@pytest.mark.parametrize(
    "metadata", [None, {NAME: "sold"}], ids=["the lake knows", "the input names it"]
)
def test_an_asset_of_another_code_location_reads_the_table_by_its_name(
    lake: Path,
    deliveries: Deliveries,
    instance: dg.DagsterInstance,
    metadata: dict[str, Any] | None,
) -> None:
    assert materialize(lake, [sold(deliveries)], FIRST, instance=instance).success
    elsewhere = dg.AssetSpec(SOLD, partitions_def=DAYS).with_io_manager_key("io_manager")
    result = materialize(lake, [elsewhere, copied(metadata)], FIRST, instance=instance)
    assert result.success, cause(result)
    assert rows(lake, "copied") == rows(lake, "sold")
    assert states(lake, "copied") == {FIRST: "fresh"}


def test_a_table_keeps_its_asset_and_its_name(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    assert materialize(lake, [sold(deliveries)], FIRST, instance=instance).success
    other = sold(deliveries, key=dg.AssetKey(["US", "Sold"]))
    assert "its table sold is that of the asset EU/Sold-Items" in cause(
        materialize(lake, [other], FIRST, instance=instance)
    )
    for table, named in (("sales", "sales"), (None, "eu__sold_items")):
        told = cause(materialize(lake, [sold(deliveries, table)], FIRST, instance=instance))
        assert (
            f"the asset EU/Sold-Items: its table in the lake is sold, and would be {named} now"
            in told
        )
    assert [p.name for p in (lake / "tables").iterdir()] == ["sold"]


@pytest.mark.parametrize("name", ["", "Sold", "eu/sold", "1st", 7])
def test_what_is_no_name_is_refused_where_the_asset_is_declared(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance, name: Any
) -> None:
    def made(context: dg.AssetExecutionContext) -> pa.Table:
        return deliveries.orders(context.partition_keys)

    culprit = f"its metadata {NAME} would name the table '{name}'"
    with pytest.raises(SettingsError, match=culprit):
        daily_table(start=FIRST, metadata={NAME: name})(made)
    asset = dg.asset(metadata={NAME: name}, partitions_def=DAYS)(made)
    with pytest.raises(SettingsError, match=culprit):
        lake_checks(asset, unique=["id"])
    assert culprit in cause(materialize(lake, [asset], FIRST, instance=instance))
