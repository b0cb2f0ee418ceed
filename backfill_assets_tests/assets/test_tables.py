"""Tables of assets as a lake's pipeline has them, by their files in the lake.

Tested here: `assets.tables`. Not tested here: the files (`test_declared.py`), and the order of a
pipeline (`pipeline/test_chosen.py`).
"""

from dataclasses import replace
from pathlib import Path

from backfill_assets.assets.declared import DeclaredTable, declare_table
from backfill_assets.assets.tables import tables_of_assets
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.synthetic import START, synthetic_lake


def test_a_table_that_an_asset_returns_has_its_code_and_its_config_as_a_setting(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    contract = replace(
        pipeline.contracts[0], name="sales", key=(), inputs=(), first_day=START, made_by="sales"
    )
    declare_table(lake.place, DeclaredTable(contract, ("sales",), "7", config="c0ffee"))
    (found,) = tables_of_assets(lake.root, lake.settings)
    assert (found.code_version, found.settings) == ("7", {"config": "c0ffee"})
    known = chosen_pipeline(read_lake(lake.root))
    assert known.table("sales") not in known.own


def test_a_table_of_others_without_an_asset_is_none_of_them(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    contract = replace(pipeline.contracts[0], name="theirs", inputs=(), external="/theirs")
    declare_table(lake.place, DeclaredTable(contract, asset=(), code=""))
    assert tables_of_assets(lake.root, lake.settings) == []
