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


def test_a_step_of_a_range_records_the_partitions_that_its_output_is_cut_to_and_the_next_step_runs() -> None:
    days = dg.DailyPartitionsDefinition("2024-03-01", end_date="2024-03-04")
    whole, cut = days.get_partition_keys(), ["2024-03-01", "2024-03-03"]

    class Cutting(dg.IOManager):
        def handle_output(self, context: dg.OutputContext, obj: object) -> None:
            if context.asset_key == dg.AssetKey("a"):
                dagster_private.materialize_only(context, cut)

        def load_input(self, context: dg.InputContext) -> None: ...

    single = dg.BackfillPolicy.single_run()

    @dg.asset(partitions_def=days, backfill_policy=single)
    def a() -> int:
        return 1

    @dg.asset(partitions_def=days, backfill_policy=single, deps=[a])
    def b() -> int:
        return 1

    tags = {"dagster/asset_partition_range_start": whole[0], "dagster/asset_partition_range_end": whole[-1]}
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([a, b], instance=instance, tags=tags, resources={"io_manager": Cutting()})
        made = [(e.asset_key, e.partition) for e in result.get_asset_materialization_events()]
    assert [p for key, p in made if key == dg.AssetKey("a")] == cut
    assert [p for key, p in made if key == dg.AssetKey("b")] == whole
