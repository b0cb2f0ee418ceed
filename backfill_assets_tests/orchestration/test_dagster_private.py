"""What we use of Dagster's inside: it is where it was, and it does what we rely on.

Tested here: `orchestration.dagster_private`. Not tested here: who uses it.
"""

from types import SimpleNamespace
from typing import Any

import dagster as dg

from backfill_assets.orchestration import dagster_private

INSIDE: Any = dagster_private


def test_the_private_things_of_dagster_are_where_they_were() -> None:
    target = INSIDE.check_target(SimpleNamespace(storage_id=3, run_id="r", timestamp=1.5))
    assert (target.storage_id, target.run_id, target.timestamp) == (3, "r", 1.5)


def test_the_newest_materializations_are_those_of_the_partitions_asked_for() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        for partition in ("a", "b", "a"):
            instance.report_runless_asset_event(dg.AssetMaterialization("t", partition=partition))
        found = dagster_private.newest_materializations(instance, dg.AssetKey("t"), ["a", "c"])
        (newest,) = instance.fetch_materializations(dg.AssetKey("t"), limit=1).records
        assert {p: r.storage_id for p, r in found.items()} == {"a": newest.storage_id}
        assert dagster_private.newest_materializations(instance, dg.AssetKey("t"), []) == {}
