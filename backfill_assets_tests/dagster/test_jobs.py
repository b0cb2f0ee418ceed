"""Commands that make days of tables which assets return.

Tested here: finding a project's definitions, and `backfill` over them. Not tested here: runs in Dagster
(`test_io_manager.py`).
"""

from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.dagster.jobs import definitions_of, job_of
from backfill_assets.dagster.lakes import lake_at
from backfill_assets_tests.dagster.projects import Deliveries, materialize, orders_asset, weekly_asset

PROJECT = """\
import dagster as dg
from backfill_assets.dagster import LakeIOManager
from backfill_assets_tests.dagster.projects import Deliveries, orders_asset, weekly_asset

assets = [orders_asset(Deliveries()), weekly_asset()]
defs = dg.Definitions(assets=assets, resources={"io_manager": LakeIOManager(lake=LAKE)})
"""
FIRST, LAST = "2024-01-01", "2024-01-03"


@pytest.fixture
def project(lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance) -> Path:
    materialize(lake, [orders_asset(deliveries), weekly_asset()], FIRST, LAST, instance=instance)
    (lake / "shop.py").write_text(f"LAKE = {str(lake)!r}\n{PROJECT}")
    return lake


def name_definitions(lake: Path, named: str) -> None:
    path = lake / "lake.toml"
    path.write_text(f'{path.read_text()}\n[pipeline]\ndefinitions = "{named}"\n')


def test_the_job_has_the_assets_of_these_tables_in_this_process(project: Path) -> None:
    name_definitions(project, "shop.py")
    job, steps = job_of(lake_at(project), ["weekly"])
    assert steps == {"weekly": "weekly"}
    assert job.executor_def is dg.in_process_executor


def test_without_definitions_a_table_of_an_asset_is_not_made_by_a_command(project: Path) -> None:
    with pytest.raises(SettingsError, match="the table weekly: an asset of a Dagster project returns its rows"):
        job_of(lake_at(project), ["weekly"])


@pytest.mark.parametrize(
    ("named", "words"),
    [("gone.py", "there is no file"), ("shop.py:other", "has no attribute 'other'"), ("shop.py:LAKE", "is a str")],
)
def test_definitions_that_cannot_be_loaded_are_named(project: Path, named: str, words: str) -> None:
    name_definitions(project, named)
    with pytest.raises(SettingsError, match=words):
        definitions_of(lake_at(project), ["weekly"])
