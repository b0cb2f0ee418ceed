"""Alerts of failed runs, findings of checks, refused gates, and of what needs a person: sent once, off by default.

Here: the sensors and the messages. Not here: addresses, sending, and keeping what waits (`alert_channels`).
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.core.days import DayRange, from_inclusive, parse_day
from backfill_assets.core.errors import GateRefused, SettingsError
from backfill_assets.orchestration.alert_channels import TELL_AGAIN_SECONDS, Channels, Message, Outbox, ui_url
from backfill_assets.orchestration.dagster_private import instance_id
from backfill_assets.orchestration.history import cause, evaluation_text, evaluations_of, failed_steps
from backfill_assets.orchestration.runs import ATTEMPT_TAG, LAKE_TAG, REASON_TAG, days_of, table_made_by

LISTED_FINDINGS = 10
LISTED_TABLES = 3
INTERVAL_SECONDS = 10  # Dagster looks at five ended runs a tick; the sensors of the lake start up to eight
GATE_TAG = "gate"  # of a run whose plan a gate stopped: `report_gate` has sent it
NO_ADDRESS = "no address is set for alerts: see README"


def alert_sensors(root: Path) -> list[dg.SensorDefinition]:
    """`alert_on_failure`, `alert_on_findings` and `alerts`, which sends what they and the sensors of the lake at `root`
    kept; running by themselves only where an address is set (see `Channels`).

    The environment is read when definitions load and again at every tick, so that an address can be changed.
    """
    status = dg.DefaultSensorStatus.RUNNING if is_wanted() else dg.DefaultSensorStatus.STOPPED

    @dg.run_failure_sensor(
        name="alert_on_failure", default_status=status, minimum_interval_seconds=INTERVAL_SECONDS,
        description="Reports a failed run: its cause and the next command. Off until an address is set: see README.",
    )  # fmt: skip
    def alert_on_failure(context: dg.RunFailureSensorContext) -> Any:
        """One message per failed run, unless the same was sent or tried before."""
        message = context.failure_event.message or ""
        return _reported(lambda: _report_failure(root, context.instance, context.dagster_run, message))

    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.SUCCESS, name="alert_on_findings", default_status=status,
        minimum_interval_seconds=INTERVAL_SECONDS,
        description="Reports what the checks of a run found although it succeeded. Off until an address is set.",
    )  # fmt: skip
    def alert_on_findings(context: dg.RunStatusSensorContext) -> Any:
        """One message per run whose checks found something that was not sent before."""
        return _reported(lambda: _report_findings(root, context.instance, context.dagster_run))

    @dg.sensor(
        name="alerts", default_status=status, minimum_interval_seconds=INTERVAL_SECONDS,
        description="Sends the alerts, and those that could not be sent again. Off until an address is set.",
    )  # fmt: skip
    def alerts(context: dg.SensorEvaluationContext) -> Any:
        """Send what waits; a tick fails where an address did not take it, which Dagster shows."""
        channels, box = Channels.of(os.environ), outbox(root, context.instance)
        if errors := box.deliver(channels):
            raise errors[0]
        return dg.SkipReason(f"{box.waiting()} alert(s) wait to be sent again" if channels else NO_ADDRESS)

    return [alert_on_failure, alert_on_findings, alerts]


def _reported(report: Callable[[], None]) -> dg.SkipReason | None:
    if not is_wanted():
        return dg.SkipReason(NO_ADDRESS)
    report()
    return None  # a SkipReason would end the tick after this one run


def outbox(root: Path, instance: dg.DagsterInstance) -> Outbox:
    """The alerts of this instance in the lake at `root`."""
    return Outbox(root / ".alerts" / instance_id(instance))


def report_alarms(root: Path, instance: dg.DagsterInstance, sensor: str, alarms: Mapping[str, str]) -> None:
    """Alert of what a tick of a sensor found that needs a person: once, and again when its text changes or it comes
    back. Nothing where no address is set."""
    if not is_wanted():
        return
    box, scope = outbox(root, instance), f"{sensor}: "
    named = {scope + name: text for name, text in alarms.items()}
    facts = {"lake": str(root), "reason": sensor, "url": f"{ui_url(os.environ)}/runs"}

    def message(fresh: list[str]) -> Message:
        """The alarms that are new."""
        subject = f"Needs a person: {', '.join(name.removeprefix(scope) for name in fresh)}"
        return Message(subject, "\n".join(named[name] for name in fresh), facts)

    box.tell(named, lambda name: name.startswith(scope), message)


def is_wanted() -> bool:
    """Whether an address is set. The ticks of `alerts` name one that cannot be one: messages wait for its correction,
    and runs do not fail for it."""
    try:
        return bool(Channels.of(os.environ))
    except SettingsError:
        return True


def _report_failure(root: Path, instance: dg.DagsterInstance, run: dg.DagsterRun, message: str) -> None:
    """Unless it is a retry, which is sent when it is given up, or a gate stopped it; the same words once a day."""
    if ATTEMPT_TAG not in run.tags and GATE_TAG not in run.tags:
        _once_a_day(outbox(root, instance), failure(instance, run, message))


def _once_a_day(box: Outbox, message: Message) -> None:
    box.tell({message.subject: message.text}, lambda _: False, lambda _: message, TELL_AGAIN_SECONDS)


def _report_findings(root: Path, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    given = {_name(e): e for e in evaluations_of(instance, run.run_id)}
    found = {name: evaluation_text(e) for name, e in given.items() if not e.passed}
    outbox(root, instance).tell(
        found, lambda name: name in given, lambda fresh: findings(run, [given[name] for name in fresh])
    )


def failure(instance: dg.DagsterInstance, run: dg.DagsterRun, message: str) -> Message:
    """The alert of a failed run: its cause in one line (else Dagster's `message`), days, reason and identity. The
    subject names the tables that failed."""
    failed = [table_made_by(step) or step for step in failed_steps(instance, run.run_id)]
    tables = failed or [k.to_user_string() for k in run.asset_selection or ()]
    return Message(f"Failed: {_what(run, tables, days_of(run))}", cause(instance, run.run_id) or message, _facts(run))


def findings(run: dg.DagsterRun, found: Sequence[dg.AssetCheckEvaluation]) -> Message:
    """The alert of a run whose checks found something: counts, and the first ten. The subject names the tables and
    days of the findings."""
    listed = [f"{_name(e)}: {evaluation_text(e)}" for e in found[:LISTED_FINDINGS]]
    more = [f"and {len(found) - LISTED_FINDINGS} more"] if len(found) > LISTED_FINDINGS else []
    days = sorted(parse_day(e.partition) for e in found if e.partition)
    span = from_inclusive(days[0], days[-1]) if days else None
    what = _what(run, [e.asset_key.to_user_string() for e in found], span)
    return Message(f"{len(found)} finding(s): {what}", "\n".join([*listed, *more]), _facts(run))


def _name(evaluation: dg.AssetCheckEvaluation) -> str:
    parts = (evaluation.asset_key.to_user_string(), evaluation.partition or "", evaluation.check_name)
    return " ".join(part for part in parts if part)


def _what(run: dg.DagsterRun, tables: Iterable[str], days: DayRange | None) -> str:
    named = sorted(set(tables))
    more = f" and {len(named) - LISTED_TABLES} more" if len(named) > LISTED_TABLES else ""
    return f"{', '.join(named[:LISTED_TABLES]) or run.job_name}{more}{f', {days}' if days else ''}"


def _facts(run: dg.DagsterRun) -> dict[str, str]:
    days = days_of(run)
    first, last = (str(days.start), str(days.last)) if days else ("", "")
    return {
        "run_id": run.run_id, "job": run.job_name, "lake": run.tags.get(LAKE_TAG, ""),
        "reason": run.tags.get(REASON_TAG, "manual"), "first_day": first, "last_day": last,
        "url": f"{ui_url(os.environ)}/runs/{run.run_id}",
    }  # fmt: skip


@contextlib.contextmanager
def reporting_gates(root: Path, instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Send an alert of a gate that refuses within the block, tag the run with the chunk, and raise the error on."""
    try:
        yield
    except GateRefused as refused:
        instance.add_run_tags(run_id, {GATE_TAG: f"chunk {refused.facts['chunk']} refused"})
        report_gate(root, instance, refused, run_id)
        raise


def report_gate(root: Path, instance: dg.DagsterInstance, refused: GateRefused, run_id: str = "") -> None:
    """Keep the alert of a gate (plan, chunk, findings, what to type) and send it at once, without the daemon, if this
    process knows an address; the same once a day.

    Without an address it waits for the daemon, if the lake ever kept alerts; else nothing is kept.
    """
    box, url = outbox(root, instance), ui_url(os.environ)
    if not (is_wanted() or box.folder.is_dir()):
        return
    facts = {**refused.facts, "lake": str(root), "reason": "gate", "run_id": run_id}
    facts["url"] = f"{url}/runs/{run_id}" if run_id else url
    subject = f"Gate refused: chunk {refused.facts['chunk']} of plan {refused.facts['plan']}"
    _once_a_day(box, Message(subject, str(refused), facts))
    with contextlib.suppress(SettingsError):  # the daemon names an address that cannot be one
        box.deliver(Channels.of(os.environ))  # what an address did not take is kept
