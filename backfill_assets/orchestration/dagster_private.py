"""The file that touches what Dagster 1.13 does not call public, each with the reason and the test that watches it.

Lives here: what names an instance, the values of run tags, the target of a check evaluation, the newest verdicts of
checks, plans that nothing followed, per-partition metadata in one step, and the tables of its event storage. Does not
live here: anything that a public name can do, and storing events (`event_storage`).
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import sqlalchemy as sa
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.assets.definition.asset_spec import AssetExecutionType
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.execution.plan.execute_step import _get_output_asset_events
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable

KEYS_AT_ONCE = 500  # of a query: sqlite takes 999 values in old builds
EVENTS_TABLE, CHECKS_TABLE = SqlEventLogStorageTable, AssetCheckExecutionsTable


def instance_id(instance: dg.DagsterInstance) -> str:
    """What distinguishes this instance from others, whichever process opened it: the name its run storage gave itself.

    The public `root_directory` is none: a home may be moved, or one storage be shared by several homes.
    """
    storage: Any = instance.run_storage
    storage.get_run_storage_id()  # of two processes that ask a new storage at once, one gets a name that is not kept
    return str(storage.get_run_storage_id())


def tag_values(instance: dg.DagsterInstance, keys: Sequence[str]) -> dict[str, set[str]]:
    """Per tag key every value that any run has, by few indexed queries; a key that no run has is left out.

    Public names give runs with all their tags and configuration, which grows with the history.
    """
    found: dict[str, set[str]] = {}
    for first in range(0, len(keys), KEYS_AT_ONCE):
        found |= dict(instance.get_run_tags(keys[first : first + KEYS_AT_ONCE]))
    return found


def check_target(record: dg.EventLogRecord) -> AssetCheckEvaluationTargetMaterializationData:
    """The materialization that an evaluation belongs to: without it Dagster clears the status at the next one."""
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
    )


@dataclass(frozen=True)
class CheckVerdict:
    """The newest verdict of a check on a partition (None: of the whole table), and the run that gave it."""

    key: dg.AssetCheckKey
    partition: str | None
    passed: bool
    run_id: str


def verdicts(instance: dg.DagsterInstance, keys: Iterable[dg.AssetCheckKey]) -> list[CheckVerdict]:
    """The newest verdict per check and partition. What was planned and never evaluated has none.

    Public names give one evaluation at a time, or every one there ever was.
    """
    storage: Any = instance.event_log_storage
    given = {"SUCCEEDED": True, "FAILED": False}
    newest = [(i, given.get(i.latest_execution_status.value)) for i in storage.get_asset_check_partition_info([*keys])]
    return [
        CheckVerdict(i.check_key, i.partition_key, ok, i.latest_planned_run_id) for i, ok in newest if ok is not None
    ]


@dataclass(frozen=True)
class CheckRow:
    """The newest row of a check on a partition: the run that planned it, whether anybody `evaluated` it and how,
    whether it `is_current` (belongs to the newest materialization) and there is one at all (`is_made`), and its place
    among all rows (`order`)."""

    check: str
    partition: str
    run_id: str
    evaluated: bool
    passed: bool
    is_current: bool
    is_made: bool
    order: int


def check_rows(instance: dg.DagsterInstance, table: str, checks: Iterable[str]) -> list[CheckRow]:
    """The newest row per check and partition of a table, those that were only planned as well."""
    storage: Any = instance.event_log_storage
    keys = [dg.AssetCheckKey(dg.AssetKey(table), name) for name in checks]
    return [
        CheckRow(
            i.check_key.name, i.partition_key, i.latest_planned_run_id, i.latest_execution_status.value != "PLANNED",
            i.latest_execution_status.value == "SUCCEEDED", i.is_current,
            i.latest_materialization_storage_id is not None, i.latest_check_event_storage_id,
        )
        for i in storage.get_asset_check_partition_info(keys)
        if i.partition_key is not None
    ]  # fmt: skip


def unmade_partitions(instance: dg.DagsterInstance, table: str) -> dict[str, str]:
    """The partitions whose newest event is a plan that no materialization followed, each with the run that planned it.

    Public names know of the newest plan of an asset, not of each partition's.
    """
    storage: Any = instance.event_log_storage
    found = storage.get_latest_asset_partition_materialization_attempts_without_materializations(dg.AssetKey(table))
    return {partition: run_id for partition, (run_id, _) in found.items()}


def partitions_made_by(instance: dg.DagsterInstance, run_id: str, table: str) -> set[str]:
    """The partitions of a table of which the run told that it made them, by one query that reads no event.

    Public names give a run's events of all its tables, each with all its metadata: 0.2 ms of them.
    """
    storage: Any = instance.event_log_storage
    c = EVENTS_TABLE.c
    made = sa.and_(
        c.run_id == run_id, c.asset_key == dg.AssetKey(table).to_string(),
        c.dagster_event_type == dg.DagsterEventType.ASSET_MATERIALIZATION.value, c.partition.is_not(None),
    )  # fmt: skip
    with storage.index_connection() as connection:
        return {str(partition) for (partition,) in connection.execute(sa.select(c.partition).where(made))}


def newest_materializations(
    instance: dg.DagsterInstance, table: str, partitions: Iterable[str]
) -> dict[str, dg.EventLogRecord]:
    """The newest materialization of each partition that has one, by two queries for all.

    The public `fetch_materializations` gives the newest of all partitions together, however often each was made.
    """
    storage: Any = instance.event_log_storage
    key, wanted = dg.AssetKey(table), set(partitions)
    if not wanted:
        return {}  # none would mean all
    newest = storage.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION, wanted)
    ids = list(newest.values())
    if not ids:
        return {}
    records = instance.fetch_materializations(dg.AssetRecordsFilter(key, storage_ids=ids), limit=len(ids)).records
    return {str(r.partition_key): r for r in records}


def tell_check(instance: dg.DagsterInstance, run_id: str, job: str, evaluation: dg.AssetCheckEvaluation) -> None:
    """Record an evaluation in the name of a run (of `job`) that planned it and ended without a word.

    The public `report_runless_asset_event` adds a row without a run, and takes one such row per partition, ever.
    """
    anyhow: Any = instance
    anyhow.report_dagster_event(
        run_id=run_id,
        dagster_event=dg.DagsterEvent(
            event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
            event_specific_data=evaluation,
            job_name=job,
        ),
    )


def newest_evaluations(
    instance: dg.DagsterInstance, keys: Iterable[dg.AssetCheckKey]
) -> dict[dg.AssetCheckKey, dg.AssetCheckEvaluation]:
    """The newest evaluation of each check that has one, by one query for all."""
    storage: Any = instance.event_log_storage
    found = storage.get_latest_asset_check_execution_by_key(list(keys))
    return {key: record.evaluation for key, record in found.items() if getattr(record.evaluation, "metadata", None)}


def materializations(
    context: dg.AssetExecutionContext, key: dg.AssetKey, output: dg.Output[Any], partitions: Sequence[str]
) -> Iterator[dg.AssetMaterialization]:
    """The events that Dagster would record of these partitions by itself, if it did for this run's assets: with the
    metadata that was set, versions of code and data. By public names it is all partitions of a run or none."""
    step: Any = context.get_step_execution_context()
    output_def = step.op_def.output_def_named(output.output_name)
    kind = AssetExecutionType.MATERIALIZATION
    told = _get_output_asset_events(key, partitions, output, output_def, {}, step, kind)
    yield from (event for event in told if isinstance(event, dg.AssetMaterialization))


def plan(context: dg.AssetExecutionContext, table: str, partitions: Iterable[str]) -> None:
    """Record that the run intends to make these partitions, as Dagster does for all partitions of a run it creates."""
    instance: Any = context.instance
    run, step = context.run, context.get_step_execution_context().step.key
    for partition in partitions:
        data = AssetMaterializationPlannedData(dg.AssetKey(table), partition=partition)
        event = dg.DagsterEvent.build_asset_materialization_planned_event(run.job_name, step, data)
        instance.report_dagster_event(event, run.run_id, logging.DEBUG)


@dataclass(frozen=True)
class Newest:
    """The newest materialization of a partition, and its event as `text` (JSON)."""

    storage_id: int
    run_id: str
    at: datetime
    text: str

    @property
    def target(self) -> AssetCheckEvaluationTargetMaterializationData:
        """What an evaluation aims at. Storage keeps UTC without saying so."""
        return AssetCheckEvaluationTargetMaterializationData(
            storage_id=self.storage_id, run_id=self.run_id, timestamp=self.at.replace(tzinfo=UTC).timestamp()
        )


def newest_of(instance: dg.DagsterInstance, table: str, partitions: Iterable[str]) -> dict[str, Newest]:
    """The newest materialization of each partition that has one, without reading its metadata: three queries for any
    number of days, a hundredth of the time of `newest_materializations`."""
    return {partition: Newest(*row) for partition, *row in _newest(instance, table, partitions, EVENTS_TABLE.c.event)}


def targets_of(
    instance: dg.DagsterInstance, table: str, partitions: Iterable[str]
) -> dict[str, AssetCheckEvaluationTargetMaterializationData]:
    """What evaluations of these partitions aim at, without the events, which are some kilobytes each."""
    nothing = sa.literal("")
    return {partition: Newest(*row).target for partition, *row in _newest(instance, table, partitions, nothing)}


def _newest(instance: dg.DagsterInstance, table: str, partitions: Iterable[str], text: Any) -> Iterator[Any]:
    storage: Any = instance.event_log_storage
    wanted = set(partitions)
    if not wanted:
        return
    found = storage.get_latest_storage_id_by_partition(dg.AssetKey(table), dg.DagsterEventType.ASSET_MATERIALIZATION)
    ids = [i for partition, i in found.items() if partition in wanted]
    events = EVENTS_TABLE.c
    asked = sa.select(events.partition, events.id, events.run_id, events.timestamp, text)
    with storage.index_connection() as connection:
        for first in range(0, len(ids), KEYS_AT_ONCE):
            yield from connection.execute(asked.where(events.id.in_(ids[first : first + KEYS_AT_ONCE]))).fetchall()


def newest_verdicts(
    instance: dg.DagsterInstance, table: str, checks: Iterable[str]
) -> dict[tuple[str, str], tuple[bool, int | None]]:
    """By check and partition of a table the newest verdict, and the storage id of the materialization it belongs to;
    those that were only planned are left out. One query, unlike `check_rows`."""
    storage: Any = instance.event_log_storage
    c = CHECKS_TABLE.c
    mine = sa.and_(c.asset_key == dg.AssetKey(table).to_string(), c.check_name.in_([*checks]), c.partition.is_not(None))
    newest = sa.select(sa.func.max(c.id)).where(mine).group_by(c.check_name, c.partition)
    asked = sa.select(c.check_name, c.partition, c.execution_status, c.materialization_event_storage_id)
    with storage.index_connection() as connection:
        rows = connection.execute(asked.where(c.id.in_(newest))).fetchall()
    given = {"SUCCEEDED": True, "FAILED": False}
    return {(check, partition): (given[said], target) for check, partition, said, target in rows if said in given}
