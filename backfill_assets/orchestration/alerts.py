"""Alerts: a failed run, or findings of checks, told to a webhook or to mail addresses. Off until an address is set.

Lives here: the two sensors and what a message says. Does not live here: sending it (`alert_channels`). A message that
cannot be sent fails the sensor's tick, which Dagster shows; the run itself is never touched by it.
"""

import os
from collections.abc import Sequence
from typing import Any

import dagster as dg

from backfill_assets.core.errors import SettingsError
from backfill_assets.orchestration.alert_channels import Channels, Message
from backfill_assets.orchestration.history import cause, evaluations_of, said_by
from backfill_assets.orchestration.runs import LAKE_TAG, REASON_TAG, first_and_last

TOLD_FINDINGS = 10
INTERVAL_SECONDS = 10  # Dagster looks at five ended runs a tick; the sensors of the lake start up to eight


def alert_sensors() -> list[dg.SensorDefinition]:
    """`alert_on_failure` and `alert_on_findings`; running by themselves only where an address is set (see `Channels`).

    The environment is read when definitions load and again at every message, so that an address can be changed.
    """
    status = dg.DefaultSensorStatus.RUNNING if _is_wanted() else dg.DefaultSensorStatus.STOPPED

    @dg.run_failure_sensor(
        name="alert_on_failure", default_status=status, minimum_interval_seconds=INTERVAL_SECONDS,
        description="Tells a failed run with its cause and the next command. Off until an address is set: see README.",
    )  # fmt: skip
    def alert_on_failure(context: dg.RunFailureSensorContext) -> Any:
        """One message per failed run."""
        return _tell(failure(context.instance, context.dagster_run, context.failure_event.message or ""))

    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.SUCCESS, name="alert_on_findings", default_status=status,
        minimum_interval_seconds=INTERVAL_SECONDS,
        description="Tells what the checks of a run found although it succeeded. Off until an address is set.",
    )  # fmt: skip
    def alert_on_findings(context: dg.RunStatusSensorContext) -> Any:
        """One message per run whose checks found something."""
        message = findings(context.instance, context.dagster_run)
        return _tell(message) if message else None  # a SkipReason would end the tick after this one run

    return [alert_on_failure, alert_on_findings]


def _is_wanted() -> bool:
    """Whether an address is set. One that cannot be one is told by the sensors' ticks: runs do not fail for it."""
    try:
        return bool(Channels.of(os.environ))
    except SettingsError:
        return True


def _tell(message: Message) -> dg.SkipReason | None:
    channels = Channels.of(os.environ)
    if not channels:
        return dg.SkipReason("no address is set for alerts: see README")
    channels.send(message)
    return None


def failure(instance: dg.DagsterInstance, run: dg.DagsterRun, said: str) -> Message:
    """What is told of a failed run: its cause in one line (else what Dagster `said`), days, reason and identity."""
    told = cause(instance, run.run_id) or said
    return Message(f"Failed: {_what(run)}", told, _facts(run))


def findings(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Message | None:
    """What is told of a run whose checks found something: counts, and the first ten; None where all is good."""
    found = [e for e in evaluations_of(instance, run.run_id) if not e.passed]
    if not found:
        return None
    listed = [
        f"{e.asset_key.to_user_string()} {e.partition or ''} {e.check_name}: {said_by(e)}"
        for e in found[:TOLD_FINDINGS]
    ]
    more = [f"and {len(found) - TOLD_FINDINGS} more"] if len(found) > TOLD_FINDINGS else []
    return Message(f"{len(found)} finding(s): {_what(run)}", "\n".join([*listed, *more]), _facts(run))


def _what(run: dg.DagsterRun) -> str:
    first, last = first_and_last(run)
    days = f", {first}" if first == last else f", {first}..{last}"
    return f"{', '.join(_tables(run)) or run.job_name}{days if first else ''}"


def _tables(run: dg.DagsterRun) -> Sequence[str]:
    return sorted(k.to_user_string() for k in run.asset_selection or ())


def _facts(run: dg.DagsterRun) -> dict[str, str]:
    first, last = first_and_last(run)
    return {
        "run_id": run.run_id, "job": run.job_name, "lake": run.tags.get(LAKE_TAG, ""),
        "reason": run.tags.get(REASON_TAG, "manual"), "first_day": first, "last_day": last,
    }  # fmt: skip
