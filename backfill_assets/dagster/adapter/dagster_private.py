"""The one file that imports or calls what Dagster 1.13 does not document, each with its reason.

Not here: anything that a public name can do, and rows of Dagster's tables, which only the storage
class (`event_storage`) writes.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.execution.stats import StepEventStatus
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)

__all__ = ["INDEX_SHARD_NAME", "SqlEventLogStorageTable", "SqliteEventLogStorage"]
EVALUATED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
KEYS_PER_QUERY = 500  # SQLite takes 999 values in old builds
CODE_SERVER_SECONDS = 10  # what a code server has for its first answer


@contextlib.contextmanager
def served_workspace(instance: dg.DagsterInstance, module: str | None) -> Iterator[Any]:
    """The workspace that the web server shows, with its code server, until the block ends.

    `module` holds the definitions; None: as the files in the working folder say.
    `dagster-webserver` cannot be guarded: it listens on a TCP port of its own, which every user of
    the machine can reach.
    """
    from dagster._cli.workspace.cli_target import (  # type: ignore[attr-defined]
        WorkspaceOpts,
        workspace_opts_to_load_target,
    )
    from dagster._core.workspace.context import WorkspaceProcessContext

    target = workspace_opts_to_load_target(
        WorkspaceOpts(module_name=(module,)) if module else WorkspaceOpts()
    )
    with WorkspaceProcessContext(instance, target, dg.__version__) as context:
        yield context


def materialize_only(context: dg.OutputContext, partitions: Collection[str]) -> None:
    """Let Dagster record these partitions of an output alone. By public names a step records every
    partition of its run or, when it raises, none, and then the steps after it are skipped."""
    undocumented: Any = context
    undocumented._asset_partitions_subset = context.asset_partitions_def.subset_with_partition_keys(
        partitions
    )


def instance_id(instance: dg.DagsterInstance) -> str:
    """The id of the instance's run storage, the same in every process that opens it.

    The public `root_directory` is no identity: a home may move, and several homes may share one
    storage.
    """
    storage: Any = instance.run_storage
    # If two processes open a new storage at once, the first id of one of them is not kept.
    storage.get_run_storage_id()
    return str(storage.get_run_storage_id())


def open_steps(instance: dg.DagsterInstance, run: dg.DagsterRun) -> set[str]:
    """The steps of a run that have not ended, whichever process runs them; also those that will be
    skipped since one before them failed. The public `DagsterRun` names no steps of a run of all of
    them."""
    stored: Any = instance
    planned = stored.get_execution_plan_snapshot(
        run.execution_plan_snapshot_id
    ).step_keys_to_execute
    ended = (StepEventStatus.SUCCESS, StepEventStatus.FAILURE, StepEventStatus.SKIPPED)
    return {*planned} - {
        s.step_key for s in stored.get_run_step_stats(run.run_id) if s.status in ended
    }


def tag_values(instance: dg.DagsterInstance, keys: Sequence[str]) -> dict[str, set[str]]:
    """Every value that any run has of each tag in `keys`; tags without a run are left out. Public
    names read whole runs, one for each in the history."""
    values: dict[str, set[str]] = {}
    for first in range(0, len(keys), KEYS_PER_QUERY):
        values |= dict(instance.get_run_tags(keys[first : first + KEYS_PER_QUERY]))
    return values


def newest_target(
    instance: dg.DagsterInstance, key: dg.AssetKey
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """The newest materialization of an asset, as that which an evaluation belongs to. Dagster shows
    a check as not evaluated whose newest evaluation belongs to an older one; without a target it
    compares times, to the second."""
    for record in instance.fetch_materializations(key, limit=1).records:
        return AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
    return None


def newest_evaluation(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey
) -> dg.AssetCheckEvaluation | None:
    """The newest evaluation of a check. Public names give its newest row, which a run that planned
    it may have."""
    storage: Any = instance.event_log_storage
    for record in storage.get_asset_check_execution_history(check, limit=1, status=EVALUATED):
        evaluation: dg.AssetCheckEvaluation | None = record.evaluation
        return evaluation
    return None


def planned_partitions(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """The partitions whose newest plan no materialization followed, each with the id of the run
    that planned it. The public `get_status_by_partition` names no runs."""
    storage: Any = instance.event_log_storage
    attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        key
    )
    return {partition: run_id for partition, (run_id, _) in attempts.items()}


def newest_materializations(
    instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Iterable[str]
) -> dict[str, dg.EventLogRecord]:
    """The newest materialization of each partition that has one. The public
    `fetch_materializations` gives the newest of all partitions together, however often each was
    written."""
    storage: Any = instance.event_log_storage
    wanted = set(partitions)
    if not wanted:
        return {}  # Dagster takes no partitions as all
    newest = storage.get_latest_storage_id_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION, wanted
    )
    ids = list(newest.values())
    if not ids:
        return {}  # as above
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(key, storage_ids=ids), limit=len(ids)
    ).records
    return {str(r.partition_key): r for r in records}


@dataclass(frozen=True)
class CodeServer:
    """What a code server of a workspace said of itself."""

    location: str  # its name in Dagster's pages
    address: str  # HOST:PORT, or the path of its socket
    trouble: str = ""  # why it gave no definitions, in one line; "": it gave them
    python: str = ""  # the path of its interpreter
    dagster: str = ""  # its release of Dagster
    texts: Mapping[str, str] = field(default_factory=dict)  # of its definitions' metadata


def is_code_away(run: dg.DagsterRun) -> bool:
    """Whether the code server that has the run's code does not answer: Dagster then gives up what
    it would try again. False of a run whose code is loaded by whoever starts it."""
    from dagster._core.remote_origin import GrpcServerCodeLocationOrigin

    job = run.remote_job_origin
    origin = None if job is None else job.repository_origin.code_location_origin
    if not isinstance(origin, GrpcServerCodeLocationOrigin):
        return False
    try:
        origin.create_client().get_server_id(timeout=CODE_SERVER_SECONDS)
    except Exception:  # noqa: BLE001  # whatever Dagster's client raises
        return True
    return False


def ask_code_servers(instance: dg.DagsterInstance, workspace: Path) -> Iterator[CodeServer]:
    """Ask every code server that a `workspace.yaml` names for its definitions; locations that each
    process loads by itself are left out. Raises what Dagster says of a file that it cannot read."""
    from dagster._core.remote_origin import GrpcServerCodeLocationOrigin
    from dagster._core.workspace.load import location_origins_from_yaml_paths

    for origin in location_origins_from_yaml_paths([str(workspace)]):
        if isinstance(origin, GrpcServerCodeLocationOrigin):
            address = origin.socket or f"{origin.host}:{origin.port}"
            try:
                yield _ask_code_server(instance, origin, address)
            except Exception as error:  # noqa: BLE001  # its user's code may raise anything
                said = str(error).strip().splitlines() or [type(error).__name__]
                yield CodeServer(origin.location_name, address, said[0])


def _ask_code_server(instance: dg.DagsterInstance, origin: Any, address: str) -> CodeServer:
    """The answer of one code server. Raises what Dagster's client raises."""
    origin.create_client().get_server_id(timeout=CODE_SERVER_SECONDS)
    location = origin.create_location(instance)
    try:
        found = [r.repository_snap.metadata or {} for r in location.get_repositories().values()]
        texts = {
            name: text.value
            for metadata in found
            for name, text in metadata.items()
            if isinstance(text, dg.TextMetadataValue)
        }
        releases = location.get_dagster_library_versions() or {}
        return CodeServer(
            origin.location_name,
            address,
            python=location.executable_path or "",
            dagster=releases.get("dagster", ""),
            texts={name: text for name, text in texts.items() if text is not None},
        )
    finally:
        location.cleanup()


def storage_revisions(instance: dg.DagsterInstance) -> tuple[str | None, str | None]:
    """The revision of the tables in which Dagster keeps its runs, and the one that this release of
    Dagster writes. No public name tells whether `dagster instance migrate` is due."""
    storage: Any = instance.run_storage
    return storage.alembic_version() or (None, None)


def database_time(instance: dg.DagsterInstance) -> float | None:
    """The time (seconds since 1970) of the PostgreSQL server that keeps Dagster's runs; None of
    another storage. Raises what the database answers."""
    storage: Any = instance.run_storage
    with storage.connect() as connection:
        if connection.dialect.name != "postgresql":
            return None
        now = sa.extract("epoch", sa.func.clock_timestamp())
        return float(connection.execute(sa.select(now)).scalar_one())


def newest_heartbeats(instance: dg.DagsterInstance) -> dict[str, "Heartbeat | None"]:
    """By the parts of Dagster's daemon that this instance needs (`SENSOR`, `BACKFILL`, ...), the
    newest sign of life of each; None of one that never gave one."""
    stored: Any = instance
    beats = stored.get_daemon_heartbeats()
    found = dict[str, Heartbeat | None]()
    for part in stored.get_required_daemon_types():
        beat = beats.get(part)
        errors = [str(error.message).strip() for error in beat.errors or ()] if beat else []
        found[part] = None if beat is None else Heartbeat(beat.timestamp, tuple(errors))
    return found


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life of a part of Dagster's daemon."""

    at: float  # seconds since 1970, by the clock of the daemon's machine
    errors: tuple[str, ...]  # what it met at its last turns


@dataclass(frozen=True)
class Patience:
    """What an instance does about what dies or is away; by settings that have no public name."""

    monitor_seconds: int | None  # how often run monitoring looks; None: it does not
    retries: int  # how often a run is tried once more whose process died
    queue_seconds: int | None  # how long queued runs wait for a code server; None: no queue


def patience_of(instance: dg.DagsterInstance) -> Patience:
    """What `dagster.yaml` says, with Dagster's defaults."""
    stored: Any = instance
    queue = stored.get_concurrency_config().run_queue_config
    is_watched = stored.run_monitoring_enabled
    return Patience(
        monitor_seconds=stored.run_monitoring_poll_interval_seconds if is_watched else None,
        retries=stored.run_retries_max_retries if stored.run_retries_enabled else 0,
        queue_seconds=None
        if queue is None
        else queue.max_user_code_failure_retries * queue.user_code_failure_retry_delay,
    )


def runs_before_pool(instance: dg.DagsterInstance, pool: str) -> set[str]:
    """The ids of the runs with a step that waits for a place in a pool. No public name tells it."""
    stored: Any = instance.event_log_storage
    if not stored.supports_global_concurrency_limits:
        return set()
    return {step.run_id for step in stored.get_concurrency_info(pool).pending_steps}
