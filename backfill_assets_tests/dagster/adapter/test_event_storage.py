"""Our storage of Dagster's events: the rows of Dagster's own, batched, and complete for every
reader.

Tested here: `dagster.adapter.event_storage`. Not tested here: which events a run reports
(`test_assets`).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import event

from backfill_assets.dagster.adapter import event_storage

pytestmark = pytest.mark.usefixtures("storages")
RUN = "5f1b2f0e-0c3e-4f0e-9f5e-000000000001"
DAYS = [f"2024-03-{n:02d}" for n in range(1, 8)]
TABLES = {
    "event_logs": "run_id, event, dagster_event_type, step_key, asset_key, partition",
    "asset_keys": "asset_key, last_run_id, last_materialization",
    "asset_event_tags": "event_id, asset_key, key, value",
    "asset_check_executions": (
        "asset_key, check_name, partition, run_id, execution_status, evaluation_event, "
        "evaluation_event_storage_id, "
        "materialization_event_storage_id"
    ),
}
OURS = {
    "event_log_storage": {
        "module": "backfill_assets.orchestration.event_storage",
        "class": "BatchedEventLogStorage",
        "config": {"home": {"env": "DAGSTER_HOME"}},
    }
}


@contextmanager
def opened(home: Path, overrides: dict[str, Any] = OURS) -> Iterator[dg.DagsterInstance]:
    """An instance in a folder, as `dagster.yaml` makes it with our storage or, without `overrides`,
    Dagster's."""
    home.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        with dg.DagsterInstance.local_temp(str(home), overrides=overrides) as made:
            yield made


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance with our storage."""
    with opened(tmp_path) as made:
        yield made


def evaluation(passed: bool) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(asset_key=dg.AssetKey("a"), check_name="good", passed=passed)


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition("2024-03-01"),
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=[dg.AssetCheckSpec("planned", asset="a")],
)
def a(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
    """Days with metadata and tags, a check that a run plans for each of them, and one that it only
    logs, twice."""
    yield dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=True)])
    for passed in (False, True):
        context.log_event(evaluation(passed))


def tell(instance: dg.DagsterInstance) -> None:
    """A run over days, then events without a run."""
    run_tags = {
        "dagster/asset_partition_range_start": DAYS[0],
        "dagster/asset_partition_range_end": DAYS[-1],
    }
    job = dg.Definitions(assets=[a], jobs=[dg.define_asset_job("job", "*")]).resolve_job_def("job")
    assert job.execute_in_process(instance=instance, tags=run_tags, run_id=RUN).success
    instance.report_runless_asset_event(evaluation(passed=True))
    instance.report_runless_asset_event(
        dg.AssetMaterialization("a", partition=DAYS[3], metadata={"n": 1})
    )


def rows(home: Path) -> dict[str, list[Any]]:
    """What the index of all runs holds, times and the numbers of processes left out."""
    with sqlite3.connect(home / "history" / "runs" / "index.db") as index:
        found = {
            t: index.execute(f"SELECT {c} FROM {t} ORDER BY 1, 2, 3").fetchall()
            for t, c in TABLES.items()
        }
    return {t: [tuple(map(_timeless, row)) for row in told] for t, told in found.items()}


def _timeless(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    kinds = (
        "AssetMaterialization",
        "AssetCheckEvaluationPlanned",
        "AssetCheckEvaluation",
        "EventLogRecord",
    )
    return [value.count(f'"{kind}"') for kind in kinds]


def test_the_rows_are_those_of_dagsters_own_storage(tmp_path: Path) -> None:
    found = []
    for name, overrides in (("dagster", {}), ("ours", OURS)):
        with opened(tmp_path / name, overrides) as instance:
            tell(instance)
            told = [
                str(r.event_log_entry.dagster_event_type)
                for r in instance.get_records_for_run(RUN).records
            ]
        found.append((rows(tmp_path / name), told))
    assert len([row for row in found[0][0]["asset_check_executions"] if row[1] == "planned"]) > len(
        DAYS
    )
    assert found[1] == found[0]


@cache
def _materialization() -> dg.EventLogEntry:
    """A materialization of a day."""
    with dg.DagsterInstance.ephemeral() as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=DAYS[0]))
        return instance.fetch_materializations(dg.AssetKey("a"), limit=1).records[0].event_log_entry


def step_event(day: str) -> dg.EventLogEntry:
    """The materialization of a day as a step of a run records it."""
    told: Any = _materialization()
    made = told.dagster_event.event_specific_data
    data = made._replace(materialization=dg.AssetMaterialization("a", partition=day))
    step = told.dagster_event._replace(step_key="make_a", job_name="job", event_specific_data=data)
    event: dg.EventLogEntry = told._replace(
        run_id=RUN, step_key="make_a", job_name="job", dagster_event=step
    )
    return event


def test_a_step_s_events_of_days_take_one_transaction_per_file_however_many_days(
    instance: dg.DagsterInstance,
) -> None:
    committed: list[str] = []
    storage: Any = instance.event_log_storage
    for shard in (RUN, "index"):
        with storage._connect(shard):
            pass
        event.listen(
            storage._engines[shard], "commit", lambda _, shard=shard: committed.append(shard)
        )
    for day in DAYS:
        instance.store_event(step_event(day))
    assert committed == []
    assert instance.get_materialized_partitions(dg.AssetKey("a")) == set(DAYS), (
        "a read sees what was buffered"
    )
    assert committed[:2] == [RUN, "index"]
    assert committed.count(RUN) == 1


def test_a_page_that_watches_a_runs_file_sees_each_event_in_it(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    file, sizes = tmp_path / "history" / "runs" / f"{RUN}.db", []
    for number in range(3):
        instance.report_engine_event("x" * 5000, run_id=RUN, job_name=f"job {number}")
        sizes.append(file.stat().st_size)
    assert sizes[0] < sizes[1] < sizes[2], "not only in the write-ahead log"


def test_the_buffer_is_written_before_any_other_event_of_the_run(
    instance: dg.DagsterInstance,
) -> None:
    instance.store_event(step_event(DAYS[0]))
    dg.DagsterInstance.report_engine_event(instance, "something else", run_id=RUN, job_name="job")
    kinds = [
        r.event_log_entry.dagster_event_type for r in instance.get_records_for_run(RUN).records
    ]
    assert kinds == [dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ENGINE_EVENT]


def test_an_event_outside_of_a_step_is_written_at_once(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    """Nothing of the same process need follow it."""
    instance.report_runless_asset_event(evaluation(passed=True))
    instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=DAYS[0]))
    found = rows(tmp_path)
    assert len(found["asset_check_executions"]) == 1
    assert len(found["event_logs"]) == 2


def test_no_more_than_the_stated_number_of_events_is_buffered(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    days = [str(date(2020, 1, 1) + timedelta(days=n)) for n in range(event_storage.BUFFERED_EVENTS)]
    for day in days[:-1]:
        instance.store_event(step_event(day))
    assert rows(tmp_path)["event_logs"] == []
    instance.store_event(step_event(days[-1]))
    assert len(rows(tmp_path)["event_logs"]) == len(days)


def test_what_is_buffered_is_written_when_the_instance_closes(tmp_path: Path) -> None:
    with opened(tmp_path) as instance:
        instance.store_event(step_event(DAYS[0]))
    assert len(rows(tmp_path)["event_logs"]) == 1


def test_few_files_stay_open_however_many_runs_are_read(instance: dg.DagsterInstance) -> None:
    storage: Any = instance.event_log_storage
    for number in range(2 * event_storage.OPEN_FILES):
        assert not instance.get_records_for_run(f"{RUN[:-2]}{number:02d}").records
    assert len(storage._engines) <= event_storage.OPEN_FILES


def test_the_first_tags_that_a_process_writes_are_those_of_an_event_without_a_run(
    instance: dg.DagsterInstance,
) -> None:
    """Dagster looks for their table inside of its transaction."""
    tags = {"dagster/data_version": "1", "dagster/data_version_is_user_provided": "true"}
    instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=DAYS[0], tags=tags))
    assert instance.get_materialized_partitions(dg.AssetKey("a")) == {DAYS[0]}
