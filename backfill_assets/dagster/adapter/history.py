"""What Dagster remembers of a lake: its newest runs with their cause of failure, and the verdicts
that a run gave.

Here: reading the instance's storage, for reports and alerts. Not here: the history of the tables,
which their receipts hold (`reports.report`): a run that failed has written nothing, so only
Dagster knows of it.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.context import table_of_step
from backfill_assets.dagster.adapter.dagster_private import newest_materializations
from backfill_assets.dagster.adapter.runs import (
    ENDED,
    LAKE_TAG,
    REASON_TAG,
    days_of_run,
    run_events,
)
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import ALSO
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.texts import one_line, scrub_secrets

NEWEST_RUNS = 50


@dataclass(frozen=True)
class PastRun:
    """One run, as Dagster remembers it."""

    run_id: str
    job: str
    status: str  # how it ended, or its state
    days: DayRange | None  # None: it has none
    reason: str
    began: datetime | None  # aware
    seconds: float | None  # from start to end
    cause: str = ""  # of a failure
    tables: tuple[str, ...] = ()  # to be made, in the order of its steps
    queued_seconds: float | None = None  # in the queue before its start

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON values; the first and the last day are both included, and empty where it
        has none."""
        values = json_of({name: value for name, value in vars(self).items() if name != "days"})
        first, last = (str(self.days.start), str(self.days.last)) if self.days else ("", "")
        return {**values, "first": first, "last": last}


def newest_runs(instance: dg.DagsterInstance, lake: str) -> tuple[PastRun, ...]:
    """The newest runs that worked on the lake, newest first, failed ones with their cause."""
    records = instance.get_run_records(dg.RunsFilter(tags={LAKE_TAG: lake}), limit=NEWEST_RUNS)
    return tuple(_past_run(instance, record) for record in records)


def _past_run(instance: dg.DagsterInstance, record: dg.RunRecord) -> PastRun:
    """One run; `tables`: to be made, in the order of its steps; empty where it never got a plan."""
    run, start = record.dagster_run, record.start_time
    past = PastRun(
        run.run_id,
        run.job_name,
        run.status.value.lower(),
        days_of_run(run),
        run.tags.get(REASON_TAG, "manual"),
        began=None,
        seconds=None,
        tables=_planned_tables(instance, run),
    )
    if run.status is dg.DagsterRunStatus.FAILURE:
        past = replace(past, cause=run_failure_cause(instance, run.run_id))
    if not start:
        return past
    return replace(
        past,
        began=datetime.fromtimestamp(start, UTC),
        seconds=record.end_time - start if record.end_time else None,
        queued_seconds=max(0.0, start - record.create_timestamp.timestamp()),
    )


def _planned_tables(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[str, ...]:
    """The tables that a run was planned to make, in the order of its steps."""
    if not run.execution_plan_snapshot_id:
        return ()
    plan: Any = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    made = map(table_of_step, plan.step_keys_to_execute if plan else ())
    return tuple(table for table in made if table)


def run_failure_cause(instance: dg.DagsterInstance, run_id: str) -> str:
    """Why a run failed, in one line without secrets, whoever raised it: the causes of its failed
    steps, else Dagster's message; empty where none is."""
    failures = run_events(instance, run_id, dg.DagsterEventType.STEP_FAILURE)
    if causes := dict.fromkeys(map(cause_of, failures)):
        return ALSO.join(causes)
    for event in run_events(instance, run_id, dg.DagsterEventType.RUN_FAILURE):
        return scrub_secrets((event.message or "").partition("\n")[0])
    return ""


def cause_of(event: dg.DagsterEvent) -> str:
    """The failing step's cause in one line, scrubbed: a Failure's own description, else the
    innermost exception."""
    failed = event.step_failure_data
    if failed.user_failure_data is not None and failed.user_failure_data.description:
        return scrub_secrets(one_line(str(failed.user_failure_data.description).strip()))
    error = failed.error
    while error is not None and error.cause is not None:
        error = error.cause
    lines = error.message.strip().splitlines() if error is not None else []
    return scrub_secrets(lines[0] if lines else json.dumps(event.message))


def evaluations_of(instance: dg.DagsterInstance, run_id: str) -> Iterator[dg.AssetCheckEvaluation]:
    """The check evaluations of a run, in the order they were given."""
    for event in run_events(instance, run_id, dg.DagsterEventType.ASSET_CHECK_EVALUATION):
        yield event.asset_check_evaluation_data


def evaluation_text(evaluation: dg.AssetCheckEvaluation) -> str:
    """The words of an evaluation: our verdict, or the stale days of the standing check."""
    for name in ("verdict", "what", "which"):  # by earlier releases "what"
        if name in evaluation.metadata:
            return str(evaluation.metadata[name].value)
    return evaluation.description or ""


def superseded_runs(instance: dg.DagsterInstance, lake: str, before: datetime) -> list[str]:
    """The lake's runs that ended before (aware) and of which Dagster's pages need nothing: every
    day that one of them materialized was materialized again since."""
    ended = dg.RunsFilter(statuses=ENDED, tags={LAKE_TAG: lake}, updated_before=before)
    run_ids, of_asset = set[str](), defaultdict[dg.AssetKey, set[str]](set)
    for run in instance.get_runs(ended):
        run_ids.add(run.run_id)
        for event in run_events(instance, run.run_id, dg.DagsterEventType.ASSET_MATERIALIZATION):
            if event.asset_key is not None and event.partition is not None:
                of_asset[event.asset_key].add(event.partition)
    newest = {
        key: newest_materializations(instance, key, partitions)
        for key, partitions in of_asset.items()
    }
    needed = {record.run_id for by_day in newest.values() for record in by_day.values()}
    return sorted(run_ids - needed)
