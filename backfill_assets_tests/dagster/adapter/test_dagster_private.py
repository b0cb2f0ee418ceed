"""What we use of Dagster's inside: it is where it was, and it does what we rely on.

Tested here: `dagster.adapter.dagster_private`. Not tested here: who uses it.
"""

from pathlib import Path

import dagster as dg

from backfill_assets.dagster.adapter import dagster_private


def test_an_evaluation_belongs_to_the_newest_materialization_of_its_table(
    instance: dg.DagsterInstance,
) -> None:
    table = dg.AssetKey("t")
    assert dagster_private.newest_target(instance, table) is None
    for partition in ("b", "a"):
        instance.report_runless_asset_event(dg.AssetMaterialization("t", partition=partition))
    (newest,) = instance.fetch_materializations(table, limit=1).records
    target = dagster_private.newest_target(instance, table)
    assert target is not None
    assert (target.storage_id, target.run_id, target.timestamp) == (
        newest.storage_id,
        "",
        newest.timestamp,
    )


def test_the_newest_evaluation_is_found_behind_the_plan_of_a_run_that_gave_none(
    instance: dg.DagsterInstance,
) -> None:
    @dg.asset
    def t() -> None:
        """A table."""

    @dg.asset_check(asset=t)
    def c() -> dg.AssetCheckResult:
        """Passes."""
        return dg.AssetCheckResult(passed=True)

    defs = dg.Definitions(
        [t], asset_checks=[c], jobs=[dg.define_asset_job("j")], executor=dg.in_process_executor
    )
    check = dg.AssetCheckKey(dg.AssetKey("t"), "c")
    assert dagster_private.newest_evaluation(instance, check) is None
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(asset_key=check.asset_key, check_name="c", passed=False)
    )
    instance.create_run_for_job(defs.resolve_job_def("j"))
    record = instance.get_latest_asset_check_evaluation_record(check)
    assert record is not None
    assert record.status.value == "PLANNED"
    found = dagster_private.newest_evaluation(instance, check)
    assert found is not None
    assert not found.passed


def test_the_newest_materializations_are_those_of_the_partitions_asked_for(
    instance: dg.DagsterInstance,
) -> None:
    for partition in ("a", "b", "a"):
        instance.report_runless_asset_event(dg.AssetMaterialization("t", partition=partition))
    found = dagster_private.newest_materializations(instance, dg.AssetKey("t"), ["a", "c"])
    (newest,) = instance.fetch_materializations(dg.AssetKey("t"), limit=1).records
    assert {p: r.storage_id for p, r in found.items()} == {"a": newest.storage_id}
    assert dagster_private.newest_materializations(instance, dg.AssetKey("t"), []) == {}


def test_a_step_of_a_range_records_the_days_of_its_output_and_the_next_step_runs(
    instance: dg.DagsterInstance,
) -> None:
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

    tags = {
        "dagster/asset_partition_range_start": whole[0],
        "dagster/asset_partition_range_end": whole[-1],
    }
    result = dg.materialize(
        [a, b], instance=instance, tags=tags, resources={"io_manager": Cutting()}
    )
    made = [(e.asset_key, e.partition) for e in result.get_asset_materialization_events()]
    assert [p for key, p in made if key == dg.AssetKey("a")] == cut
    assert [p for key, p in made if key == dg.AssetKey("b")] == whole


def test_a_freed_place_of_a_pool_goes_to_the_highest_priority_and_others_are_told_to_wait(
    tmp_path: Path,
) -> None:
    """So a load goes before a plan's next step, whoever asked first; `[plan]` relies on it."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        store = instance.event_log_storage
        assert dagster_private.runs_before_pool(instance, "lake") == set()
        store.set_concurrency_slots("lake", 1)
        asked = {"chunk 1": -1, "chunk 2": -1, "load": 0}
        claimed = [
            store.claim_concurrency_slot("lake", run, "make", priority).is_claimed
            for run, priority in asked.items()
        ]
        assert claimed == [True, False, False]
        assert {"chunk 2", "load"} <= dagster_private.runs_before_pool(instance, "lake")
        store.free_concurrency_slots_for_run("chunk 1")
        assert store.check_concurrency_claim("lake", "load", "make").is_assigned
        assert not store.check_concurrency_claim("lake", "chunk 2", "make").is_assigned
