"""Where names in a catalog lead, and who follows: a lake by what is recorded, and nobody by a
guess. Not here: a catalog (`test_catalog`), whose answers are written down here."""

from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException

from backfill_assets.assets.declared import catalog_places, declared_tables, record_catalog_place
from backfill_assets.buckets.copy_lake import copy_lake
from backfill_assets.dagster import external_table as external_asset
from backfill_assets.foreign.external import ExternalTable, recorded_place
from backfill_assets.foreign.in_dagster import EXTERNAL, observe_external
from backfill_assets.foreign.located import place_in_catalog, refuse_moved_names
from backfill_assets.intake.landings import source_table
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets_tests.tables import append, settings_text

ROW = ("a", "2024-03-01 10:00", "A", 1)
NAME = "main.shop.orders"


def catalog(location: str, provider: str = "delta") -> Mock:
    """A session whose catalog has a table, with columns of any names, at a location."""
    columns = [("Location", "string", None), ("Provider", "int", None), ("", "", "")]
    behind = [
        ("# Detailed Table Information", "", ""),
        ("Location", location, ""),
        ("Provider", provider, ""),
    ]
    session = Mock()
    session.sql.return_value.collect.return_value = [
        *columns,
        *(row for row in behind if row[1] or row[0][0] == "#"),
    ]
    return session


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with a table of others beside it."""
    append(tmp_path / "warehouse", "2024-03-01 20:00", ROW)
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def test_a_name_leads_to_the_place_that_its_catalog_says(lake: Path) -> None:
    there = lake.parent / "warehouse"
    session = catalog(f"file:{there}")
    assert place_in_catalog(session, NAME) == str(there)
    session.sql.assert_called_with("DESCRIBE TABLE EXTENDED `main`.`shop`.`orders`")
    assert place_in_catalog(catalog(f"file://{there}/"), NAME) == str(there)


def test_an_address_of_hadoops_client_of_s3_is_one_of_the_lakes(bucket_address: str) -> None:
    append(bucket_address, "2024-03-01 20:00", ROW)
    assert place_in_catalog(catalog(bucket_address.replace("s3:", "s3a:")), NAME) == bucket_address


@pytest.mark.parametrize(
    ("location", "provider", "why"),
    [
        ("", "", "it is a view, or nothing that lies anywhere.*Name the table that it reads"),
        ("file:/warehouse/orders", "PARQUET", "a table of parquet.*write it as Delta"),
        (
            "dbfs:/user/orders",
            "delta",
            "it lies at dbfs:/user/orders, by which nothing but its engine.*keep it at one",
        ),
        (
            "abfss://box@account.dfs.core.windows.net/orders",
            "delta",
            "it lies at abfss://.*Write its address as.*az://",
        ),
        (
            "file:/nowhere/orders",
            "delta",
            "for this machine no Delta table lies in /nowhere/orders",
        ),
        ("s3a://bucket/or ders", "delta", "is no address of a table that can be read here"),
    ],
)
def test_what_cannot_be_read_by_a_name_is_refused_by_it(
    location: str, provider: str, why: str
) -> None:
    with pytest.raises(BackfillError, match=f"^the table {NAME}: .*{why}") as refused:
        place_in_catalog(catalog(location, provider), NAME)
    assert "recorded" in refused.value.consequence


def test_a_name_of_nothing_and_a_catalog_that_fails_are_told() -> None:
    session = catalog("")
    session.catalog.tableExists.return_value = False
    with pytest.raises(
        BackfillError,
        match=f"^the table {NAME}: the catalog of the session has no table of that name",
    ):
        place_in_catalog(session, NAME)
    session.catalog.tableExists.side_effect = AnalysisException("[SCHEMA_NOT_FOUND] no shop\nmore")
    with pytest.raises(BackfillError, match=r"no shop\. Nothing was recorded\. Correct the name"):
        place_in_catalog(session, NAME)


def test_a_name_means_what_is_recorded_and_nothing_before(lake: Path) -> None:
    tables = '\n[tables.theirs]\nexternal = "shop.daily"\nday = "day"\n'
    (lake / "lake.toml").write_text(settings_text(NAME) + tables)
    external, settings = ExternalTable("theirs", "shop.daily", "day"), load_settings(lake)
    unknown = (
        r"is a name in a catalog, and where it leads is not recorded\. .*Run `backfill-assets "
        r"locate"
    )
    with pytest.raises(
        SettingsError, match=rf"\[source\] table = '{NAME}': {NAME} {unknown} {NAME}`"
    ):
        source_table(settings.source, lake)
    with pytest.raises(
        SettingsError, match=rf"the external table theirs: shop.daily {unknown} shop.daily`"
    ):
        recorded_place(lake, external)
    record_catalog_place(lake, NAME, str(lake.parent / "warehouse"))
    record_catalog_place(lake, "shop.daily", "s3://bucket/daily")
    settings = load_settings(lake)
    assert settings.source.table == str(lake.parent / "warehouse")
    assert (
        settings.tables["theirs"].external == recorded_place(lake, external) == "s3://bucket/daily"
    )
    assert recorded_place(lake, ExternalTable("theirs", "./shop.daily", "day")) == str(
        lake / "shop.daily"
    )
    for several in ("[sources.shop]", "[source]"):
        (lake / "lake.toml").write_text(settings_text(NAME).replace("[source]", several))
        assert [s.table for s in load_settings(lake).delivered.values()] == [
            str(lake.parent / "warehouse")
        ]
    copy_lake(read_lake(lake), lake.parent / "copied")
    assert catalog_places(lake.parent / "copied") == catalog_places(lake)


def test_an_asset_that_stands_for_a_table_of_a_catalog_leads_to_what_its_lake_has_recorded(
    tmp_path: Path,
) -> None:
    spec = external_asset("orders", table=NAME, day="day", start=date(2024, 3, 1))
    assert isinstance(spec, dg.AssetSpec)
    assert spec.metadata[EXTERNAL] == NAME
    rows = pa.table({"day": [date(2024, 3, 1)], "cents": [5]})
    write_deltalake(str(tmp_path / "warehouse"), rows)
    table = ExternalTable("orders", NAME, "day", made_by="orders", first_day=date(2024, 3, 1))
    with pytest.raises(SettingsError, match="where it leads is not recorded"):
        observe_external(tmp_path / "lake", table)
    record_catalog_place(tmp_path / "lake", NAME, str(tmp_path / "warehouse"))
    lake = observe_external(tmp_path / "lake", table)
    assert lake.store.head("orders") >= 0
    (known,) = declared_tables(lake.root)
    assert known.contract.external == str(tmp_path / "warehouse")


def test_a_name_that_leads_to_another_table_later_is_refused_until_the_lake_follows(
    lake: Path,
) -> None:
    warehouse, moved = str(lake.parent / "warehouse"), str(lake.parent / "moved")
    record_catalog_place(lake, NAME, warehouse)
    refuse_moved_names(catalog(f"file:{warehouse}"), lake)
    for nowhere in (catalog(f"file:{moved}"), catalog("dbfs:/moved"), catalog("")):
        refuse_moved_names(nowhere, lake)  # nothing that a lake could follow
    append(Path(moved), "2024-03-01 20:00", ROW)
    session: Any = catalog(f"file:{moved}")
    told = (
        f"^the table {NAME}: its name leads to {moved} now, and the lake reads {warehouse}. "
        "Nothing was run"
    )
    with pytest.raises(SettingsError, match=told):
        refuse_moved_names(session, lake)
    record_catalog_place(lake, NAME, moved)
    refuse_moved_names(session, lake)
    assert catalog_places(lake) == {NAME: moved}
