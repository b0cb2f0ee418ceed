"""Quick storage of Dagster's events: equal to the slow one row by row, seen by whoever looks, and gone after its block.

Tested here: `orchestration.quick_events` on Dagster's own sqlite files. Not tested here: who tells what.
"""

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import dagster as dg
import pytest

from backfill_assets.orchestration import quick_events as module
from backfill_assets.orchestration.dagster_private import check_target, tell_check
from backfill_assets.orchestration.quick_events import quick_events

pytestmark = pytest.mark.usefixtures("storages")

RUN = "5f1b2f0e-0c3e-4f0e-9f5e-000000000001"
DAYS = [f"2024-03-{n:02d}" for n in range(1, 8)]
TABLES = {
    "event_logs": "run_id, event, dagster_event_type, step_key, asset_key, partition",
    "asset_keys": "asset_key, last_run_id, last_materialization",
    "asset_event_tags": "event_id, asset_key, key, value",
    "asset_check_executions": (
        "asset_key, check_name, partition, run_id, execution_status, evaluation_event, evaluation_event_storage_id, "
        "materialization_event_storage_id"
    ),
}


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def evaluation(day: str | None, passed: bool, target: Any = None) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey("a"), check_name="good", passed=passed, partition=day, target_materialization_data=target
    )


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition("2024-03-01"),
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=[],
)
def a(context: dg.AssetExecutionContext) -> None:
    """Days with metadata and tags."""


def tell(instance: dg.DagsterInstance) -> None:
    """A run over some days, then verdicts of all kinds: new, given again, without a day, of one day twice."""
    run_tags = {
        "dagster/asset_partition_range_start": DAYS[0],
        "dagster/asset_partition_range_end": DAYS[-1],
    }
    job = dg.Definitions(assets=[a], jobs=[dg.define_asset_job("job", [a])]).resolve_job_def("job")
    assert job.execute_in_process(instance=instance, tags=run_tags, run_id=RUN).success
    for day in DAYS:
        tell_check(instance, RUN, "job", evaluation(day, passed=day != DAYS[2]))
    (newest,) = instance.fetch_materializations(dg.AssetKey("a"), limit=1).records
    for passed in (False, True):
        tell_check(instance, RUN, "job", evaluation(DAYS[0], passed, check_target(newest)))
    tell_check(instance, "another", "job", evaluation(DAYS[1], passed=False))
    instance.report_runless_asset_event(evaluation(None, passed=True))
    instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=DAYS[3], metadata={"n": 1}))


def rows(home: Path) -> dict[str, list[Any]]:
    """What the index of all runs holds, times and the numbers of processes left out."""
    with sqlite3.connect(home / "history" / "runs" / "index.db") as index:
        found = {t: index.execute(f"SELECT {c} FROM {t} ORDER BY 1, 2, 3").fetchall() for t, c in TABLES.items()}
    return {t: [tuple(map(_timeless, row)) for row in told] for t, told in found.items()}


def _timeless(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    kinds = ("AssetMaterialization", "AssetCheckEvaluationPlanned", "AssetCheckEvaluation", "EventLogRecord")
    return [value.count(f'"{kind}"') for kind in kinds]


@pytest.mark.usefixtures("processes")
def test_in_bulk_the_same_rows_are_stored_as_one_by_one(tmp_path: Path) -> None:
    found = []
    for name, quick in (("slow", False), ("quick", True)):
        home = tmp_path / name
        home.mkdir()
        with dg.DagsterInstance.local_temp(str(home)) as instance:
            if quick:
                with quick_events(instance, at_once=5):  # several batches
                    tell(instance)
            else:
                tell(instance)
            told = [str(r.event_log_entry.dagster_event_type) for r in instance.get_records_for_run(RUN).records]
        found.append((rows(home), told))
    assert found[0][0]["asset_check_executions"]
    assert found[1] == found[0]


def test_events_of_days_go_in_one_transaction_per_file_however_many_days(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    inner: Any = module._QuickStorage._transaction

    def counted(self: Any, shard: str) -> Any:
        opened.append(shard)
        return inner(self, shard)

    monkeypatch.setattr(module._QuickStorage, "_transaction", counted)
    with quick_events(instance):
        for day in DAYS:
            tell_check(instance, "run", "job", evaluation(day, passed=True))
        assert opened == []
    assert opened == ["run", "index"]


def test_an_evaluation_is_written_out_once_for_both_tables_that_hold_it(instance: dg.DagsterInstance) -> None:
    written: list[object] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is dg.serialize_value.__code__:
            written.append(type(frame.f_locals.get("val")))

    with quick_events(instance):
        for day in DAYS:
            tell_check(instance, "run", "job", evaluation(day, passed=True))
        sys.setprofile(look)
        try:
            instance.get_records_for_run("run")
        finally:
            sys.setprofile(None)
    assert written == [dg.EventLogEntry] + [dg.AssetCheckEvaluation] * len(DAYS)  # what they share is written once


def test_whoever_looks_within_the_block_sees_what_was_told(instance: dg.DagsterInstance) -> None:
    with quick_events(instance):
        instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=DAYS[0]))
        assert instance.get_materialized_partitions(dg.AssetKey("a")) == {DAYS[0]}
        instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=DAYS[1]))
    assert instance.get_materialized_partitions(dg.AssetKey("a")) == set(DAYS[:2])


def test_what_was_told_before_an_error_is_stored(instance: dg.DagsterInstance) -> None:
    def tell_and_fail() -> None:
        with quick_events(instance), quick_events(instance):
            instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=DAYS[0]))
            raise KeyError

    with pytest.raises(KeyError):
        tell_and_fail()
    assert instance.get_materialized_partitions(dg.AssetKey("a")) == {DAYS[0]}


def test_the_storage_is_as_before_after_the_block(instance: dg.DagsterInstance) -> None:
    storage: Any = instance.event_log_storage
    slow: Sequence[Any] = (storage._connect, storage.store_event)
    with quick_events(instance):
        with storage._connect("index") as one:
            first = one.engine
        with storage._connect("index") as other:
            assert other.engine is first
    assert (storage._connect, storage.store_event) == slow


def test_quick_events_leave_other_storages_alone() -> None:
    with dg.DagsterInstance.ephemeral() as instance, quick_events(instance):
        instance.report_runless_asset_event(dg.AssetMaterialization("a"))
        assert len(instance.fetch_materializations(dg.AssetKey("a"), limit=5).records) == 1
