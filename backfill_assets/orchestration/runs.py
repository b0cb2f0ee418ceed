"""What Dagster's runs cover and have tried, as days of tables, and which process works on which run.

Here: names of tags and jobs, days of queued and running runs, attempts at a request, and the files
`LAKE/.runs/INSTANCE/RUN` and `LAKE/.reconciled/INSTANCE.json`, which may be deleted at any time: a run without a marker
counts as alive, and commits are compared again. Not here: which days need a rebuild (`core.needs`), requests
(`backfill_requests`) and recording commits (`reconcile`). No cursor is kept: it may be wiped.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

import dagster as dg
from filelock import FileLock

from backfill_assets.core.days import DayRange, SomeDays, days_text, from_inclusive, parse_day
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.needs import RunRequest
from backfill_assets.core.ownership import whoami
from backfill_assets.engine.processes import PlacedProcess
from backfill_assets.lake.files import read_json, write_json
from backfill_assets.lake.home import Lake
from backfill_assets.orchestration.dagster_private import instance_id, tag_values
from backfill_assets.orchestration.naming import PLAIN, Naming

REBUILD = "rebuild"
# What a run needs to know of its own is in the lake; Dagster's console log would bury the progress.
SILENCE = {"console": {"config": {"log_level": "CRITICAL"}}}
REASON_TAG, NOTE_TAG, BY_TAG = "backfill_assets/reason", "backfill_assets/note", "backfill_assets/by"
FORCE_TAG = "backfill_assets/force"  # tables of assets, comma-separated, whose days are written even if they are equal
DAYS_TAG, TABLES_TAG = "days", "tables"  # shown in every row of the runs list, so that names are short
# Tags of the prefix `.dagster/` stay out of the UI: these are for looking runs up.
LAKE_TAG = ".dagster/backfill_assets_lake"  # one instance may serve several lakes
REQUEST_TAG = ".dagster/backfill_assets_request"
SENSOR_TAG = ".dagster/backfill_assets_sensor"  # our own: Dagster sets its tag only where its daemon launches
ATTEMPT_TAG = "backfill_assets/attempt"  # from 1 on: the same was tried before
ASKED_TAG = ".dagster/asked."  # then TABLE.DAY; only tags of this prefix stay out of the UI, and a long range has many
TAG_CHARS = 57  # 63 with `asked.`; Dagster warns of longer ones
PARTITION, RANGE_START, RANGE_END = (
    "dagster/partition", "dagster/asset_partition_range_start", "dagster/asset_partition_range_end",
)  # fmt: skip
ACTIVE = [
    dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING,
]  # fmt: skip
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
MOST_UNBEGUN = 20
PAGE = 5000  # events read from storage at once
ONE_DAY_OF_CLOCK = timedelta(hours=24)
GONE = (
    "The run's process is gone: it was killed. What it committed is recorded, the rest is as it was: re-execute it. "
    "Days that are up to date are not computed again."
)


def busy_days(
    instance: dg.DagsterInstance, lake: str, tables: list[str], naming: Naming = PLAIN
) -> dict[str, set[date]]:
    """Per table the days of the lake's queued and running runs; `rebuild` without a selection has all `tables`."""
    busy: dict[str, set[date]] = defaultdict(set)
    for run in instance.get_runs(dg.RunsFilter(statuses=ACTIVE)):
        if run.tags.get(LAKE_TAG, lake) != lake:
            continue
        chosen = run.asset_selection
        everything = tables if run.job_name == naming.name(REBUILD) else ()
        names = {t for k in chosen if (t := naming.table_of(k))} if chosen else set(everything)
        days = set(days_of(run) or ())
        for name in names & set(tables):
            busy[name] |= days
    return dict(busy)


def days_of(run: dg.DagsterRun) -> DayRange | None:
    """The days of a run, by its tags; None where they name none."""
    first = run.tags.get(RANGE_START, run.tags.get(PARTITION, ""))
    try:
        return from_inclusive(parse_day(first), parse_day(run.tags.get(RANGE_END, first)))
    except BackfillError:
        return None


def range_tags(days: DayRange) -> dict[str, str]:
    """The tags of a run over a range of days, as Dagster names them."""
    return {RANGE_START: str(days.start), RANGE_END: str(days.last)}


def run_rebuild(
    job: dg.JobDefinition, instance: dg.DagsterInstance, run_id: str, days: DayRange, forced: Mapping[str, bool],
    tags: Mapping[str, str],
) -> dg.ExecuteInProcessResult:  # fmt: skip
    """Run the job `rebuild` in this process, for the user of now. `forced` says for each of its steps whether days
    that are right are made, too; `tags` with a value are the run's, and NOTE_TAG goes into the receipts. Of days that
    are no range the run's range holds more, of which nothing is made."""
    same = {"note": tags.get(NOTE_TAG, ""), "days": days_text(days) if isinstance(days, SomeDays) else ""}
    configs = {step: {"config": {"force": force, **same}} for step, force in forced.items()}
    own_tags = {name: value for name, value in tags.items() if value}
    return job.execute_in_process(
        instance=instance, run_id=run_id, tags={**range_tags(days), BY_TAG: whoami(), **own_tags},
        run_config={"loggers": SILENCE, "ops": configs}, raise_on_error=False,
    )  # fmt: skip


def records_of(instance: dg.DagsterInstance, run_id: str, kind: dg.DagsterEventType) -> Iterator[dg.DagsterEvent]:
    """The events of one kind of a run, in their order, page by page: a long range has tens of thousands."""
    cursor = None
    while True:
        page = instance.get_records_for_run(run_id, cursor, kind, limit=PAGE)
        for record in page.records:
            if record.event_log_entry.dagster_event is not None:
                yield record.event_log_entry.dagster_event
        if not page.has_more:
            return
        cursor = page.cursor


def request_tags(request: RunRequest) -> dict[str, str]:
    """Tags with the identity and the attempt of each requested day."""
    return {_request_tag(request.table, day): f"{known} {request.attempt}" for day, known in request.asked.items()}


def attempts(instance: dg.DagsterInstance, wanted: Mapping[str, Mapping[date, str]]) -> dict[str, dict[date, int]]:
    """Per table how often runs were requested for the days with these identities, ever; days never requested
    are left out. Counted on from the newest attempt, so that a run that was deleted gives its number to none."""
    keys = {_request_tag(table, str(day)): (table, day) for table, known in wanted.items() for day in known}
    counts: dict[str, dict[date, int]] = {table: {} for table in wanted}
    for key, values in tag_values(instance, list(keys)).items():
        table, day = keys[key]
        parts = (value.rpartition(" ") for value in values)
        numbers = [int(number) for known, _, number in parts if known == wanted[table][day] and number.isdigit()]
        if numbers:
            counts[table][day] = max(numbers) + 1
    return counts


def never_began(instance: dg.DagsterInstance, tags: Mapping[str, str | list[str]]) -> int:
    """How many runs with these tags failed before their first step: the code server was away, or their start took too
    long. At most twenty, so that what can never begin is given up, too."""
    failed = instance.get_run_records(dg.RunsFilter(tags=tags, statuses=[dg.DagsterRunStatus.FAILURE]))
    return min(sum(record.start_time is None for record in failed), MOST_UNBEGUN)


def wasted_attempts(
    instance: dg.DagsterInstance, table: str, known: Mapping[date, str], numbers: Mapping[date, int]
) -> dict[date, int]:
    """Of the runs that were requested for each day of `known` (its identity), with attempts below `numbers`, how many
    never began."""
    tried = {day: [f"{identity} {number}" for number in range(numbers[day])] for day, identity in known.items()}
    return {day: never_began(instance, {_request_tag(table, str(day)): values}) for day, values in tried.items()}


def _request_tag(table: str, day: str) -> str:
    return ASKED_TAG + f"{table}.{day}"[-TAG_CHARS:]


def is_active(instance: dg.DagsterInstance, job: str, lake: str, tags: Mapping[str, str] | None = None) -> bool:
    """Whether a run of the job with these tags on the lake is queued or running."""
    active = instance.get_runs(dg.RunsFilter(job_name=job, statuses=ACTIVE, tags=tags))
    return any(run.tags.get(LAKE_TAG, lake) == lake for run in active)


def runs_of_last_day(instance: dg.DagsterInstance, sensor: str, lake: str, now: datetime) -> int:
    """How many runs the sensor requested on the lake in the 24 hours before `now`, by a clock not a day ahead."""
    tags = {SENSOR_TAG: sensor, LAKE_TAG: lake}
    first, last = now - ONE_DAY_OF_CLOCK, now + ONE_DAY_OF_CLOCK
    return instance.get_runs_count(dg.RunsFilter(tags=tags, created_after=first, created_before=last))


@dataclass(frozen=True)
class Markers:
    """The files of one instance of Dagster in a lake: a marker per live run, and the newest versions recorded under
    the asset keys of `naming`."""

    lake: Lake
    instance: str
    naming: Naming = PLAIN

    @property
    def folder(self) -> Path:
        """The folder of markers, a file per run, named by the run's id."""
        return self.lake.root / ".runs" / self.instance

    @property
    def reported(self) -> Path:
        """The file with the newest version per table that this instance has recorded."""
        return self.lake.root / ".reconciled" / f"{'.'.join([self.instance, *self.naming.prefix])}.json"

    def mark(self, run_id: str) -> None:
        """Record that this process works on the run."""
        write_json(self.folder / run_id, asdict(PlacedProcess.this()))

    def forget(self, run_id: str) -> None:
        """Drop the marker of a run that ended in this process."""
        (self.folder / run_id).unlink(missing_ok=True)

    def recorded(self) -> dict[str, int]:
        """Per table the newest version that this instance has recorded; empty without a readable file."""
        return read_json(self.reported)


def markers_of(instance: dg.DagsterInstance, lake: Lake, naming: Naming = PLAIN) -> Markers:
    """The files of this instance in the lake, shared by all processes with its run storage."""
    return Markers(lake, instance_id(instance), naming)


def end_dead_runs(instance: dg.DagsterInstance, lake: Lake) -> list[str]:
    """Fail the instance's running runs whose process is gone, for which Dagster alone would wait; a line per run. Runs
    on other hosts are left to those hosts and to Dagster's run monitoring."""
    folder, here, done = markers_of(instance, lake).folder, PlacedProcess.this(), list[str]()
    with FileLock(lake.locks / "reconcile.lock"):
        # Through a link, these would be other files than markers.
        for path in sorted(folder.iterdir()) if folder.is_dir() and folder.resolve() == folder else []:
            if path.suffix:
                continue  # being written
            # First the process, then the status: a run that ends well says so before its process goes.
            gone = _is_gone(path, here)
            run = instance.get_run_by_id(path.name)
            if run is None or run.status in ENDED:
                path.unlink(missing_ok=True)
            elif gone:
                instance.report_run_failed(run, GONE)
                path.unlink(missing_ok=True)
                done.append(f"run {path.name} ended: its process is gone")
    return done


def _is_gone(marker: Path, here: PlacedProcess) -> bool:
    try:
        return PlacedProcess(**json.loads(marker.read_text())).is_gone(here)
    except FileNotFoundError:
        return False  # its run ended just now, and said so itself
    except (ValueError, TypeError):
        return True  # whole when written: the machine went down before it reached the disk
