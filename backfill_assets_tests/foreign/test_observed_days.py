"""Days of adopted tables that others wrote, as Dagster shows them: observed once, with their writer.

Tested here: `dagster.adapter.reconcile.record_observations` over such a table. Not tested here: judging
the days (`test_adopting.py`).
"""

from pathlib import Path

import dagster as dg
import deltalake
import pytest

from backfill_assets.dagster.adapter.reconcile import record_observations
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.foreign.test_adopting import D2, World, rows

pytestmark = pytest.mark.usefixtures("storages")


def test_a_judged_day_of_others_is_observed_once_with_its_writer(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    world = World(tmp_path, tables={"orders": {"others_may_write": True}})
    world.adopt()
    for amount in (9, 10):
        world.write(rows((D2, "z", amount)), f"day = '{D2}'")
    world.look()
    pipeline = chosen_pipeline(world.lake)
    for _ in range(2):
        record_observations(
            instance, world.lake, pipeline.states(read_view(world.lake, pipeline.contracts))
        )
    (record,) = instance.fetch_observations(dg.AssetKey("orders"), limit=10).records
    assert record.asset_observation is not None
    facts = {name: value.value for name, value in record.asset_observation.metadata.items()}
    assert (record.partition_key, facts["dagster/row_count"], facts["version"]) == (str(D2), 1, "5")
    program = f"by delta-rs:py-{deltalake.__version__}"
    assert facts["written by"] == f"version 3: WRITE {program}; version 4: WRITE {program}"
    assert "made with" not in facts
