"""Pins: what moved since a plan was made is named with both values.

Tested here: `operations.plan_pins`. Not tested here: a run that is refused by them (`test_plan_run.py`).
"""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from backfill_assets.core.plans import Pins
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_pins import moved_pins, take_pins
from backfill_assets_tests.operations.planning import bare_staging

PINNED = Pins({"staging": "c1"}, {"staging": "s1"}, {"pyspark": "4"}, {"staging": 3})


def test_what_moved_is_named_with_both_values() -> None:
    now = replace(PINNED, codes={"staging": "c2"}, packages={"pyspark": "5"})
    assert list(moved_pins(PINNED, now, ("staging",))) == ["the code of staging was c1, is c2", "pyspark was 4, is 5"]


def test_newer_table_versions_and_other_tables_move_no_pin() -> None:
    now = replace(PINNED, versions={"staging": 9}, codes={"staging": "c1", "features": "new"})
    assert list(moved_pins(PINNED, now, ("staging",))) == []


def test_the_engine_and_its_version_are_pinned(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    packages = take_pins(lake, pipeline, states).packages
    assert packages["engine"] == lake.settings.spark.engine
    assert packages["pysail"] == version("pysail")
    spark = lake.settings.spark.model_copy(update={"engine": "sc://elsewhere:15002"})
    other = replace(lake, settings=lake.settings.model_copy(update={"spark": spark}))
    moved = list(moved_pins(take_pins(lake, pipeline, states), take_pins(other, pipeline, states), ("staging",)))
    assert moved == [f"engine was {lake.settings.spark.engine}, is sc://elsewhere:15002"]
