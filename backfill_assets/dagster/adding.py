"""What other rooms take from this one: the lake as it is shown, forms of jobs, sensors, schedules
and checks, what is known of runs, and the write of a step.

A room's module `in_dagster`, and the room `assets`, import this module alone of the room `dagster`,
and nothing of `dagster` imports a room that adds something: it is found by `Room.dagster`. Not
here: the things themselves (`dagster.adapter`), and what assets of a project take (`dagster`).
"""

from backfill_assets.dagster.adapter.alerts import report_alarms
from backfill_assets.dagster.adapter.backfill_requests import (
    dagster_requester,
    run_rebuild,
    whole_request,
    work_of,
)
from backfill_assets.dagster.adapter.checks import standing_check
from backfill_assets.dagster.adapter.context import (
    LakeContext,
    Naming,
    Opened,
    ShownLake,
    declared_table_name,
    key_table_name,
    window_mapping,
)
from backfill_assets.dagster.adapter.history import cause_of, superseded_runs
from backfill_assets.dagster.adapter.io_manager import as_failures, explaining_commit
from backfill_assets.dagster.adapter.jobs import one_op_job, show_lines
from backfill_assets.dagster.adapter.metadata import day_materialization, day_metadata
from backfill_assets.dagster.adapter.partitions import (
    calendar_of_schedule,
    left_out_of,
    partitions_of,
)
from backfill_assets.dagster.adapter.read_beside import step_reads
from backfill_assets.dagster.adapter.reconcile import (
    receipt_event,
    record_observations,
    report_green_days,
)
from backfill_assets.dagster.adapter.runs import (
    attempts_at,
    end_dead_runs,
    is_active,
    markers_of,
    run_ahead,
)
from backfill_assets.dagster.adapter.sensors import lake_schedule, lake_sensor
from backfill_assets.dagster.adapter.step_write import StepWrite
from backfill_assets.dagster.adapter.ticks import CONTROLS, PLANS, Tick
from backfill_assets.dagster.adapter.verdicts import Verdicts, logging_refused_days

__all__ = [
    "CONTROLS",
    "PLANS",
    "LakeContext",
    "Naming",
    "Opened",
    "ShownLake",
    "StepWrite",
    "Tick",
    "Verdicts",
    "as_failures",
    "attempts_at",
    "calendar_of_schedule",
    "cause_of",
    "dagster_requester",
    "day_materialization",
    "day_metadata",
    "declared_table_name",
    "end_dead_runs",
    "explaining_commit",
    "is_active",
    "key_table_name",
    "lake_schedule",
    "lake_sensor",
    "left_out_of",
    "logging_refused_days",
    "markers_of",
    "one_op_job",
    "partitions_of",
    "receipt_event",
    "record_observations",
    "report_alarms",
    "report_green_days",
    "run_ahead",
    "run_rebuild",
    "show_lines",
    "standing_check",
    "step_reads",
    "superseded_runs",
    "whole_request",
    "window_mapping",
    "work_of",
]
