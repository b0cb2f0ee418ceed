"""What Dagster's runs cover and have tried, as days of tables, and which process works on which
run.

Here: names of tags and jobs, days of queued and running runs, attempts at a request, and the files
`LAKE/.runs/INSTANCE/RUN` and `LAKE/.reconciled/INSTANCE.json`, which may be deleted at any time: a
run without a marker counts as alive, and commits are compared again. Not here: which days need a
rebuild (`kernel.core.needs`), requests (`backfill_requests`) and recording commits (`reconcile`).
No cursor is kept: it may be wiped.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.context import PLAIN, Naming, step_pool
from backfill_assets.dagster.adapter.dagster_private import (
    instance_id,
    is_code_away,
    open_steps,
    runs_before_pool,
    tag_values,
)
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, inclusive_range, parse_day, parse_days
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import PLAN_TAG, Work
from backfill_assets.kernel.log import run_markers
from backfill_assets.kernel.place.port import LOCKS, RUNS
from backfill_assets.kernel.place.processes import PlacedProcess, Process
from backfill_assets.kernel.tables.folder import RECONCILED
from backfill_assets.kernel.tables.home import Lake

REBUILD = "rebuild"  # the job of tables with a partition for every day; see `rebuild_name`
CATCH_UP = "catch_up"
SCAN = "scan_landing"
REASON_TAG, NOTE_TAG, BY_TAG = (
    "backfill_assets/reason",
    "backfill_assets/note",
    "backfill_assets/by",
)
# Shown in every row of the runs list, so that names are short.
DAYS_TAG, TABLES_TAG = (
    "days",
    "tables",
)
# Tags of the prefix `.dagster/` stay out of the UI: these are for looking runs up.
PRIORITY_TAG = "dagster/priority"  # of a run in Dagster's queue, and of its steps before a pool
LAKE_TAG = ".dagster/backfill_assets_lake"  # one instance may serve several lakes
REQUEST_TAG = ".dagster/backfill_assets_request"
# Our own: Dagster sets its tag only where its daemon launches.
SENSOR_TAG = ".dagster/backfill_assets_sensor"
ATTEMPT_TAG = "backfill_assets/attempt"  # from 1 on: the same was tried before
# Then the table; its value: FIRST..LAST of the days that were asked for.
NEEDED_TAG = ".dagster/asked."
EXACT_DAYS_TAG = ".dagster/backfill_assets_days"  # of a run whose days are no range
TAG_CHARS = 57  # 63 with `needed.`; Dagster warns of longer ones
PARTITION, RANGE_START, RANGE_END = (
    "dagster/partition",
    "dagster/asset_partition_range_start",
    "dagster/asset_partition_range_end",
)
ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
# Without what was never begun, or is being ended.
AT_WORK = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
# Executors whose steps run in the process of their run: only there does the end of this process end
# the run.
ONE_PROCESS = (dg.in_process_executor.name, "execute_in_process_executor")
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
MOST_UNBEGUN = 20
# A run that began and neither says so in the lake nor tells of anything for so long died first.
UNBEGUN_SECONDS = 120.0
# A dead run waits for its code server as long as queued ones do (`dagster.yaml`), and no longer:
# from here it may be out of reach for ever.
CODE_PATIENCE_SECONDS = 600.0
EVENTS_PER_PAGE = 5000  # events read from storage at once
ONE_DAY_OF_CLOCK = timedelta(hours=24)
PROCESS_GONE = (
    "The run's process is gone: it was killed. What it committed is recorded, the rest is as it "
    "was: re-execute it. "
    "Days that are up to date are not computed again."
)
NEVER_BEGAN = (
    "The run was started, and for two minutes it neither told of anything nor began to work on the "
    "lake: it was killed before. Nothing was written: re-execute it."
)
PROCESS_SILENT = (
    "The run's process, on another machine, has shown no sign of life for two minutes: it was "
    "killed, or its machine is away. What it committed is recorded, the rest is as it was: "
    "re-execute it. If it goes on all the same, it does no harm."
)


def busy_days(
    instance: dg.DagsterInstance, lake: str, tables: Collection[Contract], naming: Naming = PLAIN
) -> dict[str, set[date]]:
    """Per table the days of the lake's queued and running runs; `rebuild` without a selection has
    all `tables`."""
    busy: dict[str, set[date]] = defaultdict(set)
    for run in instance.get_runs(dg.RunsFilter(statuses=ACTIVE)):
        if run.tags.get(LAKE_TAG, lake) != lake:
            continue
        chosen = run.asset_selection
        if not chosen:
            chosen = {
                naming.of(table)
                for table in tables
                if run.job_name in (naming.name(REBUILD), naming.name(rebuild_name(table)))
            }
        days = {*(days_of_run(run) or ())}
        for table in tables:
            if naming.of(table) in (chosen or ()):
                busy[table.name].update(table.keys_in(days))
    return dict(busy)


def rebuild_name(contract: Contract) -> str:
    """The plain name of the job that rebuilds a table."""
    return REBUILD if contract.calendar.is_daily else f"{REBUILD}_{contract.name}"


def days_of_run(run: dg.DagsterRun) -> DayRange | None:
    """The days of a run: by the tag of exact days, else by those of a range, else by its partition;
    None where its tags name none, or what is no day."""
    first = run.tags.get(RANGE_START, run.tags.get(PARTITION, ""))
    try:
        if (exactly := run.tags.get(EXACT_DAYS_TAG)) is not None:
            return parse_days(exactly)
        return inclusive_range(parse_day(first), parse_day(run.tags.get(RANGE_END, first)))
    except BackfillError:
        return None


def range_tags(days: DayRange) -> dict[str, str]:
    """The tags of a run over a range of days, as Dagster names them."""
    return {RANGE_START: str(days.start), RANGE_END: str(days.last)}


def run_events(
    instance: dg.DagsterInstance, run_id: str, kind: dg.DagsterEventType
) -> Iterator[dg.DagsterEvent]:
    """The events of one kind of a run, in their order, page by page: a long range has tens of
    thousands."""
    cursor = None
    while True:
        page = instance.get_records_for_run(run_id, cursor, kind, limit=EVENTS_PER_PAGE)
        for record in page.records:
            if record.event_log_entry.dagster_event is not None:
                yield record.event_log_entry.dagster_event
        if not page.has_more:
            return
        cursor = page.cursor


def needed_tags(work: Work) -> dict[str, str]:
    """The tags by which `attempts_of_days` finds the run of a request; which days it is for is in
    its config."""
    return {_needed_tag(work.table): str(work.needed_span)} if work.needed else {}


@dataclass(frozen=True)
class Attempts:
    """The runs of a request, or of a day as it is now."""

    # Of the next attempt; one that was deleted leaves its own unused: Dagster drops a key that it
    # knows.
    number: int = 0
    unbegun: int = 0  # runs that failed before their first step, at most `MOST_UNBEGUN`

    @property
    def counted(self) -> int:
        """The number of runs that use up an attempt: without runs that never began (the code server
        was away, their start took too long), unless so many never began that the request cannot
        begin at all."""
        return self.number - self.unbegun

    @classmethod
    def of(cls, records: Collection[dg.RunRecord]) -> "Attempts":
        """What these runs tried."""
        numbers = [int(record.dagster_run.tags.get(ATTEMPT_TAG, "0")) for record in records]
        failed = [r for r in records if r.dagster_run.status is dg.DagsterRunStatus.FAILURE]
        return cls(
            max(numbers, default=-1) + 1,
            min(sum(r.start_time is None for r in failed), MOST_UNBEGUN),
        )


def attempts_of_days(
    instance: dg.DagsterInstance, table: str, wanted: Mapping[date, str], naming: Naming = PLAIN
) -> dict[date, Attempts]:
    """Which runs were requested, ever, for the days of a table that have the identities `wanted`
    now; days never requested so are left out."""
    tag, step = _needed_tag(table), naming.step(table)
    spans = tag_values(instance, [tag]).get(tag, set()) if wanted else set[str]()
    reaching = [span for span in sorted(spans) if _reaches_any(span, wanted)]
    if not reaching:
        return {}
    found: dict[date, list[dg.RunRecord]] = defaultdict(list)
    for record in instance.get_run_records(dg.RunsFilter(tags={tag: reaching})):
        needed = _needed_days(record.dagster_run, step)
        for day, identity in wanted.items():
            if needed.get(str(day)) == identity:
                found[day].append(record)
    return {day: Attempts.of(records) for day, records in found.items()}


def attempts_at(instance: dg.DagsterInstance, request: str) -> Attempts:
    """The runs of a request without single days."""
    return Attempts.of(instance.get_run_records(dg.RunsFilter(tags={REQUEST_TAG: request})))


def _reaches_any(span: str, days: Iterable[date]) -> bool:
    """Whether FIRST..LAST, or a single day, holds one of the days."""
    first, _, last = span.partition("..")
    return any(first <= str(day) <= (last or first) for day in days)


def _needed_days(run: dg.DagsterRun, step: str) -> Mapping[str, str]:
    config: Any = run.run_config
    needed: Mapping[str, str] = (
        config.get("ops", {}).get(step, {}).get("config", {}).get("asked", {})
    )
    return needed


def _needed_tag(table: str) -> str:
    return NEEDED_TAG + table[-TAG_CHARS:]


def is_active(
    instance: dg.DagsterInstance, job: str, lake: str, tags: Mapping[str, str] | None = None
) -> bool:
    """Whether a run of the job with these tags on the lake is queued or running."""
    active = instance.get_runs(dg.RunsFilter(job_name=job, statuses=ACTIVE, tags=tags))
    return any(run.tags.get(LAKE_TAG, lake) == lake for run in active)


def run_ahead(instance: dg.DagsterInstance, lake: str, priority: int) -> str:
    """A queued or running run of the lake with a higher priority, in words; "" without one. Runs of
    plans do not count, and one that no step has shown to be of a lake counts while it is queued:
    it waits for a place."""
    for run in instance.get_runs(dg.RunsFilter(statuses=AT_WORK)):
        if PLAN_TAG in run.tags or _priority_of(run) <= priority:
            continue
        is_queued = run.status is dg.DagsterRunStatus.QUEUED
        if run.tags.get(LAKE_TAG, lake if is_queued else "") == lake:
            return f"the run {run.run_id[:8]} of {run.job_name}"
    return ""


def _priority_of(run: dg.DagsterRun) -> int:
    """The priority of a run, as Dagster's queue reads it: 0 for what is no number."""
    try:
        return int(run.tags.get(PRIORITY_TAG, "0"))
    except ValueError:
        return 0


def runs_of_last_day(instance: dg.DagsterInstance, sensor: str, lake: str, now: datetime) -> int:
    """How many runs the sensor requested on the lake in the 24 hours before `now`, by a clock not a
    day ahead."""
    tags = {SENSOR_TAG: sensor, LAKE_TAG: lake}
    first, last = now - ONE_DAY_OF_CLOCK, now + ONE_DAY_OF_CLOCK
    return instance.get_runs_count(
        dg.RunsFilter(tags=tags, created_after=first, created_before=last)
    )


@dataclass(frozen=True)
class Markers:
    """The files of one instance of Dagster in a lake: a marker per live run, and the newest
    versions recorded under the asset keys of `naming`."""

    lake: Lake
    instance: str
    naming: Naming = PLAIN

    @property
    def folder(self) -> str:
        """The name in the lake of the folder of markers, a file per run, named by the run's id."""
        return f"{RUNS}/{self.instance}"

    @property
    def reported(self) -> str:
        """The name in the lake of the file with the newest version per table that this instance has
        recorded."""
        return f"{RECONCILED}/{'.'.join([self.instance, *self.naming.prefix])}.json"

    def mark(self, run_id: str, executor: str = ONE_PROCESS[0]) -> None:
        """Record that the run works on the lake, and show until its end that it lives
        (`kernel.log.run_markers`). `executor`: the name of what runs its steps, in this process or
        in others."""
        if executor in ONE_PROCESS:
            run_markers.mark_run(self.lake.place, self._marker_name(run_id))
        else:
            run_markers.mark_step(
                self.lake.place,
                self._marker_name(run_id),
                process_of_run(executor, parent_process()),
            )

    def join(self, run_id: str) -> bool:
        """Show that a run lives on which this process works, if another step of it has written
        already; whether one has."""
        is_marked = run_markers.process_of(self.lake.place, self._marker_name(run_id)) is not None
        if is_marked:
            run_markers.mark_step(self.lake.place, self._marker_name(run_id))
        return is_marked

    def ending_run(self, instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
        """The id of a run that ends with this process's work on it; "" where it has further steps
        in other processes. Its marker stays until a lake version has what it wrote (`forget`)."""
        process = run_markers.process_of(self.lake.place, self._marker_name(run.run_id))
        if process not in (None, PlacedProcess.this()) and open_steps(instance, run):
            return ""
        return run.run_id

    def forget(self, run_id: str) -> None:
        """Drop the marker of a run that ended; does nothing for ""."""
        if not run_id:
            return
        run_markers.drop_marker(self.lake.place, self._marker_name(run_id))

    def _marker_name(self, run_id: str) -> str:
        return f"{self.folder}/{run_id}"

    def recorded(self) -> dict[str, int]:
        """Per table the newest version that this instance has recorded; empty without a readable
        file."""
        return self.lake.place.read_json(self.reported)


def markers_of(instance: dg.DagsterInstance, lake: Lake, naming: Naming = PLAIN) -> Markers:
    """The files of this instance in the lake, shared by all processes with its run storage."""
    return Markers(lake, instance_id(instance), naming)


def process_of_run(executor: str, parent: BaseProcess | None) -> PlacedProcess:
    """The process that works on a whole run, told of in the process of one of its steps. `parent`:
    what began that."""
    if executor != dg.multiprocess_executor.name or parent is None or parent.pid is None:
        return run_markers.UNKNOWN_PROCESS
    found = Process.of(parent.pid)
    return run_markers.UNKNOWN_PROCESS if found is None else PlacedProcess.of(found)


def end_dead_runs(instance: dg.DagsterInstance, lake: Lake) -> list[str]:
    """Fail the instance's running runs whose process is gone, or on another machine shows itself no
    longer, for which Dagster alone would wait; a line per run. A run whose steps have processes of
    their own elsewhere is left to whoever started them, and to Dagster's run monitoring, whose
    verdict drops its marker. One whose code server is away is left for a while: Dagster would look
    once for its code, and never try it again."""
    markers, done = markers_of(instance, lake), list[str]()
    with reconcile_lock(lake):
        # First the processes, then the status: a run that ends well says so before its process
        # goes.
        names = {f"{markers.folder}/{run_id}": run_id for run_id in _marked_runs(markers)}
        for name, life in run_markers.lives_of(lake.place, names).items():
            run_id = names[name]
            death = _death_of(lake, name, life)
            is_marked = lake.place.exists(name)  # else it ended just now, and said so itself
            run = instance.get_run_by_id(run_id)
            if run is None or run.status in ENDED:
                markers.forget(run_id)
            elif death and is_marked and not _waits_for_code(lake, name, run):
                said, why = death
                instance.report_run_failed(run, said)
                markers.forget(run_id)
                done.append(f"run {run_id} ended: {why}")
    return done


def _waits_for_code(lake: Lake, marker: str, run: dg.DagsterRun) -> bool:
    """Whether a dead run is left as it is for now, since its code server does not answer."""
    silent = run_markers.silent_seconds(lake.place, marker)
    return silent < CODE_PATIENCE_SECONDS and is_code_away(run)


def _death_of(lake: Lake, marker: str, life: run_markers.Life) -> tuple[str, str] | None:
    """What the failed run says, and a line's end about it, where its process is gone or silent for
    good; None of one that may live."""
    if life is run_markers.Life.GONE:
        return PROCESS_GONE, "its process is gone"
    if life is run_markers.Life.LAPSED and run_markers.is_shown_whole(lake.place, marker):
        return PROCESS_SILENT, "its process shows no sign of life"
    return None


def end_unbegun_runs(
    instance: dg.DagsterInstance,
    lake: Lake,
    contracts: Iterable[Contract],
    naming: Naming = PLAIN,
) -> list[str]:
    """Fail the instance's started runs of this lake that died before their first step showed them:
    no marker names a process of theirs. A line per run. Only runs whose first step would show them
    at once: of these tables alone or of the scan, in a project of the lake's own, where none waits
    for the lake's pool."""
    ours, done, jobs = set[dg.AssetKey](), list[str](), {REBUILD, SCAN}
    for contract in contracts:
        ours.add(naming.of(contract))
        jobs.add(rebuild_name(contract))
    shown = {*_marked_runs(markers_of(instance, lake, naming))}
    if (pool := step_pool(lake.settings)) is not None:
        shown |= runs_before_pool(instance, pool)
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        chosen = run.asset_selection or frozenset[dg.AssetKey]()
        is_of_tables = bool(chosen) and chosen <= ours
        is_ours = is_of_tables or run.job_name in map(naming.name, jobs)
        is_of_lake = run.tags.get(LAKE_TAG, lake.address) == lake.address
        if is_ours and is_of_lake and run.run_id not in shown and _is_unbegun(instance, run):
            instance.report_run_failed(run, NEVER_BEGAN)
            done.append(f"run {run.run_id} ended: it never began to work")
    return done


def _is_unbegun(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether no step of a run has ended, and its newest event, by the clock of its machine, is
    older than `UNBEGUN_SECONDS`."""
    newest = instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
    if not newest:
        return False
    silent = utc_now().timestamp() - newest[0].event_log_entry.timestamp
    ended = instance.get_records_for_run(
        run.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS, limit=1
    ).records
    return silent > UNBEGUN_SECONDS and not ended


def reconcile_lock(lake: Lake) -> AbstractContextManager[None]:
    """The lock of what is recorded about a lake in an instance of Dagster."""
    return lake.place.lock(f"{LOCKS}/reconcile.lock", "the record of the lake in Dagster")


def _marked_runs(markers: Markers) -> list[str]:
    try:
        markers.lake.place.refuse_link(markers.folder)
    except BackfillError:
        return []  # through a link, these would be other files than markers
    # With a point in its name one is being written.
    return sorted(name for name in markers.lake.place.names(markers.folder) if "." not in name)
