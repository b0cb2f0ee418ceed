"""Alerts of failed runs, findings of checks, and of what needs a person: posted once, off by default.

Here: the sensors and the messages. Not here: the address and posting (`alert_channels`).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.core.days import DayRange, from_inclusive
from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.lake.places import place_at
from backfill_assets.orchestration.alert_channels import UI_URL, Message, Posted, webhook
from backfill_assets.orchestration.dagster_private import instance_id
from backfill_assets.orchestration.history import cause, evaluation_text, evaluations_of
from backfill_assets.orchestration.naming import ALONE, Appearance, Naming, table_made_by
from backfill_assets.orchestration.runs import ATTEMPT_TAG, LAKE_TAG, REASON_TAG, days_of, records_of
from backfill_assets.orchestration.verdicts import Standing

ALERTS = "alerts"  # both sensors, where it is said which ones run
LISTED_FINDINGS, LISTED_TABLES = 10, 3
INTERVAL_SECONDS = 10  # Dagster looks at five ended runs a tick; the sensors of the lake start up to eight
DAY_SECONDS = 24 * 3600.0
OFF = "Off until an address is set: `backfill-assets guide production`."


def alert_sensors(root: Path, appearance: Appearance = ALONE) -> list[dg.SensorDefinition]:
    """`alert_on_failure` and `alert_on_findings` for the lake at `root`, running by themselves only where an address is
    set (see `webhook`). A tick fails if the address did not take an alert. In a project with other definitions, they
    report only runs that work on the lake.

    The environment is read when definitions load and again at every tick, so that an address can be changed.
    """
    name, runs = appearance.naming.name, dg.DefaultSensorStatus.RUNNING
    status = runs if appearance.runs(ALERTS) and is_wanted() else dg.DefaultSensorStatus.STOPPED

    def concerns(run: dg.DagsterRun) -> bool:
        return not appearance.is_guest or works_on(run, str(root), appearance.naming)

    @dg.run_failure_sensor(
        name=name("alert_on_failure"), default_status=status, minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Reports a failed run: its cause and the next command. {OFF}",
    )  # fmt: skip
    def alert_on_failure(context: dg.RunFailureSensorContext) -> None:
        """One message per failed run; none of a retry, which is sent when it is given up."""
        run, url = context.dagster_run, webhook(os.environ)
        if url and ATTEMPT_TAG not in run.tags and concerns(run):
            message = failure(context.instance, run, context.failure_event.message or "")
            found = {message.subject: message.text}
            posted(root, context.instance).post_news(url, found, lambda _: message, again=DAY_SECONDS)

    @dg.run_status_sensor(
        name=name("alert_on_findings"), run_status=dg.DagsterRunStatus.SUCCESS, default_status=status,
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Reports what the checks of a run found although it succeeded. {OFF}",
    )  # fmt: skip
    def alert_on_findings(context: dg.RunStatusSensorContext) -> None:
        """One message per run whose checks found something that was not sent before."""
        run, url = context.dagster_run, webhook(os.environ)
        if url and concerns(run):
            evaluations = list(evaluations_of(context.instance, run.run_id))
            found = {str(f): f for e in evaluations for f in found_by(e)}
            judged = tuple(_name(e) for e in evaluations)
            posted(root, context.instance).post_news(
                url, {name: f.text for name, f in found.items()},
                lambda fresh: findings(run, [found[name] for name in fresh]), lambda name: name.startswith(judged),
            )  # fmt: skip

    return [alert_on_failure, alert_on_findings]


def works_on(run: dg.DagsterRun, lake: str, naming: Naming) -> bool:
    """Whether the run works on the lake: by its tag, or before its first step has set one by the assets it selects."""
    if LAKE_TAG in run.tags:
        return run.tags[LAKE_TAG] == lake
    return any(naming.table_of(key) for key in run.asset_selection or ())


def is_wanted() -> bool:
    """Whether an address is set. True also for an invalid one, which the sensors' ticks name."""
    try:
        return bool(webhook(os.environ))
    except SettingsError:
        return True


def posted(root: Path, instance: dg.DagsterInstance) -> Posted:
    """What this instance posted about the lake at `root`."""
    return Posted(place_at(root), f".alerts/{instance_id(instance)}")


def report_alarms(root: Path, instance: dg.DagsterInstance, sensor: str, alarms: Mapping[str, str], log: Any) -> None:
    """Post an alert for each alarm that a tick of `sensor` found: once, and again when its text changes or it returns.

    Does nothing if no address is set. One that did not take it is a warning in `log`, and stops no tick and no run: the
    next tick that finds the same posts it.
    """
    scope = f"{sensor}: "
    facts = {"lake": str(root), "reason": sensor, "url": f"{_ui()}/runs"}

    def message(fresh: list[str]) -> Message:
        """The alarms that are new."""
        names = [name.removeprefix(scope) for name in fresh]
        return Message(f"Needs a person: {', '.join(names)}", "\n".join(alarms[name] for name in names), facts)

    named = {scope + name: text for name, text in alarms.items()}
    try:
        if url := webhook(os.environ):
            posted(root, instance).post_news(url, named, message, lambda name: name.startswith(scope))
    except BackfillError as error:
        log.warning(str(error))


def failure(instance: dg.DagsterInstance, run: dg.DagsterRun, message: str) -> Message:
    """The alert of a failed run: its cause in one line (else Dagster's `message`), days, reason and identity. The
    subject names the tables that failed."""
    events = records_of(instance, run.run_id, dg.DagsterEventType.STEP_FAILURE)
    failed = [table_made_by(e.step_key) or e.step_key for e in events if e.step_key]
    tables = failed or [k.to_user_string() for k in run.asset_selection or ()]
    subject = f"Failed: {_subject(run, tables, days_of(run))}"
    return Message(subject, cause(instance, run.run_id) or message, _facts(run))


@dataclass(frozen=True)
class Alerted:
    """What a check of a table finds: in one day, or in the table as a whole."""

    check: str
    table: str
    text: str
    day: date | None = None

    def __str__(self) -> str:
        return f"{self.check}{self.day or ''}".strip()


def found_by(evaluation: dg.AssetCheckEvaluation) -> list[Alerted]:
    """What an evaluation finds, day by day where it names days."""
    name, table = _name(evaluation), evaluation.asset_key.to_user_string()
    if days := Standing.of(evaluation).days:
        return [Alerted(name, table, why, day) for day, why in days.items()]
    return [] if evaluation.passed else [Alerted(name, table, evaluation_text(evaluation))]


def findings(run: dg.DagsterRun, found: Sequence[Alerted]) -> Message:
    """The alert of a run whose checks found something: tables and days as subject, counts, the first ten."""
    listed = [f"{f}: {f.text}" for f in found[:LISTED_FINDINGS]]
    more = [f"and {len(found) - LISTED_FINDINGS} more"] if len(found) > LISTED_FINDINGS else []
    days = sorted(f.day for f in found if f.day)
    subject = _subject(run, [f.table for f in found], from_inclusive(days[0], days[-1]) if days else None)
    return Message(f"{len(found)} finding(s): {subject}", "\n".join([*listed, *more]), _facts(run))


def _name(evaluation: dg.AssetCheckEvaluation) -> str:
    return f"{evaluation.asset_key.to_user_string()} {evaluation.check_name} "


def _subject(run: dg.DagsterRun, tables: Iterable[str], days: DayRange | None) -> str:
    named = sorted(set(tables))
    more = f" and {len(named) - LISTED_TABLES} more" if len(named) > LISTED_TABLES else ""
    return f"{', '.join(named[:LISTED_TABLES]) or run.job_name}{more}{f', {days}' if days else ''}"


def _facts(run: dg.DagsterRun) -> dict[str, str]:
    days = days_of(run)
    return {
        "run_id": run.run_id, "job": run.job_name, "lake": run.tags.get(LAKE_TAG, ""),
        "reason": run.tags.get(REASON_TAG, "manual"), "first_day": str(days.start) if days else "",
        "last_day": str(days.last) if days else "", "url": f"{_ui()}/runs/{run.run_id}",
    }  # fmt: skip


def _ui() -> str:
    """Where people see Dagster: by default where `dagster dev` listens."""
    return (os.environ.get(UI_URL) or "http://127.0.0.1:3000").rstrip("/")
