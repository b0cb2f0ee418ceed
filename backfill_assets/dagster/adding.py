"""What other rooms take from this one to add to Dagster's definitions of a lake: the lake as it is
shown, forms of jobs, sensors, schedules and checks, and what is known of runs.

A room's module `in_dagster` imports this module alone of the room `dagster`, and nothing of
`dagster` imports a room that adds something: it is found by `Room.dagster`. Not here: the things
themselves (`dagster.adapter`), and what assets of a project take (`dagster`).
"""

from backfill_assets.dagster.adapter.alerts import report_alarms
from backfill_assets.dagster.adapter.backfill_requests import (
    dagster_requester,
    run_rebuild,
    whole_request,
)
from backfill_assets.dagster.adapter.checks import standing_check
from backfill_assets.dagster.adapter.context import LakeContext, Naming, Opened, ShownLake
from backfill_assets.dagster.adapter.history import cause_of, superseded_runs
from backfill_assets.dagster.adapter.io_manager import as_failures
from backfill_assets.dagster.adapter.jobs import one_op_job, show_lines
from backfill_assets.dagster.adapter.reconcile import receipt_event
from backfill_assets.dagster.adapter.runs import (
    attempts_at,
    end_dead_runs,
    is_active,
    markers_of,
)
from backfill_assets.dagster.adapter.sensors import lake_schedule, lake_sensor
from backfill_assets.dagster.adapter.ticks import CONTROLS, PLANS, Tick

__all__ = [
    "CONTROLS",
    "PLANS",
    "LakeContext",
    "Naming",
    "Opened",
    "ShownLake",
    "Tick",
    "as_failures",
    "attempts_at",
    "cause_of",
    "dagster_requester",
    "end_dead_runs",
    "is_active",
    "lake_schedule",
    "lake_sensor",
    "markers_of",
    "one_op_job",
    "receipt_event",
    "report_alarms",
    "run_rebuild",
    "show_lines",
    "standing_check",
    "superseded_runs",
    "whole_request",
]
