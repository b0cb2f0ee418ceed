"""Alerts of failed runs, findings of checks, and of what needs a person: posted once to a webhook,
off by default.

Here: the address, from an environment variable (it holds a secret), what was posted there already,
the messages and their sensors. Not here: mail, for which Dagster has
`dg.make_email_on_run_failure_sensor`.
"""

import html
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Final

import dagster as dg
from pydantic import HttpUrl, TypeAdapter, ValidationError

from backfill_assets.dagster.adapter.context import ALONE, Appearance, Naming, table_of_step
from backfill_assets.dagster.adapter.dagster_private import instance_id
from backfill_assets.dagster.adapter.history import (
    evaluation_text,
    evaluations_of,
    run_failure_cause,
)
from backfill_assets.dagster.adapter.runs import (
    ATTEMPT_TAG,
    LAKE_TAG,
    REASON_TAG,
    days_of_run,
    run_events,
)
from backfill_assets.dagster.adapter.verdicts import Standing
from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import Place

POSTED: Final = "told.json"  # beside its lock, in a folder per instance
# Beside it: messages of runs that the webhook did not take, oldest first.
UNSENT: Final = "unsent.json"
MOST_UNSENT = 100  # a webhook that is away for days gets the newest
WEBHOOK: Final = "BACKFILL_ASSETS_ALERT_WEBHOOK"
MAIL_TO: Final = "BACKFILL_ASSETS_ALERT_MAIL"  # before 0.3.0
UI_URL: Final = "BACKFILL_ASSETS_UI_URL"
PAUSES_SECONDS = (1.0, 3.0)  # before the second and third try
ANSWER_SECONDS = 2.0  # to connect, and for each piece of the answer
# For all tries: Dagster looks at five ended runs in a tick of sixty seconds.
DEADLINE_SECONDS = 10.0
# The name of its thread, and so many at once in a process.
POSTING, MOST_POSTING = (
    "backfill_assets: an alert",
    8,
)


@dataclass(frozen=True)
class Message:
    """An alert."""

    subject: str  # of one line
    text: str
    facts: Mapping[str, str] = field(default_factory=dict)  # for programs


def webhook_address(environment: Mapping[str, str]) -> str:
    """Return the address of alerts in the environment, "" where none is set.

    Raises SettingsError naming the variable that cannot be one, without its value: it may hold a
    password.
    """
    url = environment.get(WEBHOOK, "").strip()
    if not url and environment.get(MAIL_TO, "").strip():
        raise SettingsError(
            f"the environment variable {MAIL_TO}",
            "alerts are no longer mailed",
            "No alert can be sent",
            f"Set {WEBHOOK}; Dagster mails failed runs by `dg.make_email_on_run_failure_sensor`",
        )
    try:
        return str(TypeAdapter(HttpUrl).validate_python(url)) if url else ""
    except ValidationError:
        raise SettingsError(
            f"the environment variable {WEBHOOK}",
            "it holds no address of a webhook",
            "No alert can be sent",
            "Correct or unset it; signs like / # ? @ in a password are written as %2F …",
        ) from None


def post_message(
    url: str,
    message: Message,
    pauses: Sequence[float] = PAUSES_SECONDS,
    seconds: float = DEADLINE_SECONDS,
) -> None:
    """POST `{"text": …, "subject": …, facts}`, again after each of the `pauses` (seconds) until one
    is taken, for so many `seconds` in all, however slowly an answer comes. Raises BackfillError,
    without the address, where none is.

    `text` is what Slack and Mattermost show; they take <, > and & escaped, so that no text of a
    lake can call a whole channel.
    """
    subject = scrub_secrets(message.subject)
    text = f"{subject}\n{scrub_secrets(message.text)}\n{message.facts.get('url', '')}".strip()
    body = {**message.facts, "subject": subject, "text": html.escape(text, quote=False)}
    failure, ends = "", time.monotonic() + seconds
    for pause in (0.0, *pauses):
        if time.monotonic() + pause >= ends:
            break
        time.sleep(pause)
        if not (failure := _posting_failure(url, body, ends - time.monotonic())):
            return
    raise BackfillError(
        "the webhook of alerts",
        f"it did not take an alert ({failure})",
        f"Not sent: {message.subject}",
        f"Correct {WEBHOOK} if it is wrong",
    )


def _posting_failure(url: str, body: Mapping[str, str], seconds: float) -> str:
    """Post once; return why it was not taken, "" where it was. A thread of its own waits for the
    answer, since a library's limit holds for each read alone; one that waits still is left behind,
    and there are never many."""
    if sum(thread.name == POSTING for thread in threading.enumerate()) >= MOST_POSTING:
        return "earlier ones still wait for its answer"
    failures: list[str] = []
    waiting = threading.Thread(
        target=lambda: failures.append(_answer_refusal(url, body)), name=POSTING, daemon=True
    )
    waiting.start()
    waiting.join(seconds)
    return failures[0] if failures else f"no whole answer within {seconds:.0f} s"


def _answer_refusal(url: str, body: Mapping[str, str]) -> str:
    """Post once, however long the answer takes; as `_posting_failure`."""
    import requests

    try:
        # Nothing of the answer but its first lines is read: `stream`.
        with requests.post(
            url, json=body, timeout=ANSWER_SECONDS, allow_redirects=False, stream=True
        ) as answer:
            return "" if answer.status_code < 300 else f"HTTP {answer.status_code}"
    except Exception as error:  # noqa: BLE001 - whatever a library raises, whose words may quote a secret
        return type(error).__name__


@dataclass(frozen=True)
class Posted:
    """What one instance of Dagster posted about one lake; deleting the file sends old news once
    more."""

    lake: Place
    folder: str  # its name in the lake
    pauses: Sequence[float] = PAUSES_SECONDS

    @property
    def _posted_file(self) -> str:
        return f"{self.folder}/{POSTED}"

    def post_news(
        self,
        url: str,
        found: Mapping[str, str],
        message: Callable[[list[str]], Message],
        is_over: Callable[[str], bool] = lambda _: False,
        again: float = math.inf,
        *,
        is_seen_once: bool = False,
    ) -> None:
        """Post one message about the names in `found` whose words (its values) were not posted
        within the last `again` seconds, in order, if there are any; `message` makes it of these
        names. Names not in `found` for which `is_over` holds count as news when they return.

        Raises BackfillError if the webhook did not take it. These names are still news then: a tick
        finds them again. What nobody finds again (`is_seen_once`, as a run that failed) is kept for
        `post_unsent` instead.
        """
        now = utc_now().timestamp()
        digests = {name: digest_of(words) for name, words in found.items()}
        recent = dict[str, str]()
        for name, (digest, at) in self.lake.read_json(self._posted_file).items():
            if 0 <= now - at < again:
                recent[name] = digest
        fresh = [name for name, digest in digests.items() if recent.get(name) != digest]
        refusal = None
        if fresh:  # before it is noted: twice is better than never
            try:
                post_message(url, message(fresh), self.pauses)
            except BackfillError as error:
                if not is_seen_once:
                    raise
                refusal = error
                self._keep_unsent(message(fresh))
        self._note_posted(found, is_over, {name: [digests[name], now] for name in fresh})
        if refusal is not None:
            raise refusal

    def _note_posted(
        self, found: Mapping[str, str], is_over: Callable[[str], bool], posted: Mapping[str, Any]
    ) -> None:
        """Record what was `posted`, and drop names that are not `found` and over."""
        with self._record_lock():
            noted: dict[str, Any] = self.lake.read_json(self._posted_file)
            over = [name for name in noted if name not in found and is_over(name)]
            record = {name: each for name, each in noted.items() if name not in over}
            record |= posted
            if record != noted:
                self.lake.write_json(self._posted_file, record)

    def _keep_unsent(self, message: Message) -> None:
        """Keep a message, without its secrets, for `post_unsent`; the oldest ones go first."""
        kept = asdict(
            replace(
                message, subject=scrub_secrets(message.subject), text=scrub_secrets(message.text)
            )
        )
        with self._record_lock():
            self._write_unsent([*self._unsent_messages(), kept][-MOST_UNSENT:])

    def post_unsent(self, url: str, seconds: float = DEADLINE_SECONDS) -> None:
        """Post what the webhook did not take before, oldest first, each once, for so many `seconds`
        in all: later ones wait for the next call. Raises BackfillError at the first message that it
        does not take: it and the later ones wait on."""
        if not self._unsent_messages():
            return
        ends = time.monotonic() + seconds
        with self.lake.lock(f"{self.folder}/unsent.lock", "the alerts that wait"):
            for one in self._unsent_messages():  # as now: another tick may have posted some
                if (left := ends - time.monotonic()) <= 0:
                    return
                post_message(url, Message(**one), pauses=(), seconds=left)
                with self._record_lock():
                    others = [other for other in self._unsent_messages() if other != one]
                    self._write_unsent(others)

    def _record_lock(self) -> AbstractContextManager[None]:
        return self.lake.lock(f"{self.folder}/lock", "the record of posted alerts")

    def _unsent_messages(self) -> list[dict[str, Any]]:
        return [*self.lake.read_json(f"{self.folder}/{UNSENT}").get("messages", [])]

    def _write_unsent(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self.lake.write_json(f"{self.folder}/{UNSENT}", {"messages": [*messages]})


ALERTS = "alerts"  # both sensors, where it is said which ones run
LISTED_FINDINGS, LISTED_TABLES = 10, 3
# Dagster looks at five ended runs a tick; the sensors of the lake start up to eight.
INTERVAL_SECONDS = 10
DAY_SECONDS = 24 * 3600.0
OFF = "Off until an address is set: `backfill-assets guide production`."


def alert_sensors(root: Path, appearance: Appearance = ALONE) -> list[dg.SensorDefinition]:
    """`alert_on_failure` and `alert_on_findings` for the lake at `root`, running by themselves only
    where an address is set (see `webhook_address`). A tick fails if the address did not take an
    alert. In a project with other definitions, they report only runs that work on the lake.

    The environment is read when definitions load and again at every tick, so that an address can be
    changed.
    """
    return [_failure_sensor(root, appearance), _findings_sensor(root, appearance)]


def _alert_status(appearance: Appearance) -> dg.DefaultSensorStatus:
    runs_by_itself = appearance.runs(ALERTS) and has_webhook()
    return dg.DefaultSensorStatus.RUNNING if runs_by_itself else dg.DefaultSensorStatus.STOPPED


def _concerns_lake(run: dg.DagsterRun, root: Path, appearance: Appearance) -> bool:
    return not appearance.is_guest or works_on(run, address_of(root), appearance.naming)


def _failure_sensor(root: Path, appearance: Appearance) -> dg.SensorDefinition:
    """The sensor that reports a failed run of the lake at `root`."""

    @dg.run_failure_sensor(
        name=appearance.naming.name("alert_on_failure"),
        default_status=_alert_status(appearance),
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Reports a failed run: its cause and the next command. {OFF}",
    )
    def alert_on_failure(context: dg.RunFailureSensorContext) -> None:
        """Post a failed run, the same failure (tables, days, cause) once a day.

        None of a retry: once no sensor asks for its days any more, a tick raises the alarm that
        they are given up.
        """
        run, url = context.dagster_run, webhook_address(os.environ)
        is_retry = ATTEMPT_TAG in run.tags
        if url and not is_retry and _concerns_lake(run, root, appearance):
            message = failure_alert(context.instance, run, context.failure_event.message or "")
            found = {message.subject: message.text}
            posted_alerts(root, context.instance).post_news(
                url, found, lambda _: message, again=DAY_SECONDS, is_seen_once=True
            )

    return alert_on_failure


def _findings_sensor(root: Path, appearance: Appearance) -> dg.SensorDefinition:
    """The sensor that reports what the checks of a successful run found."""

    @dg.run_status_sensor(
        name=appearance.naming.name("alert_on_findings"),
        run_status=dg.DagsterRunStatus.SUCCESS,
        default_status=_alert_status(appearance),
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Reports what the checks of a run found although it succeeded. {OFF}",
    )
    def alert_on_findings(context: dg.RunStatusSensorContext) -> None:
        """One message per run whose checks found something that was not sent before."""
        run, url = context.dagster_run, webhook_address(os.environ)
        if url and _concerns_lake(run, root, appearance):
            _post_findings(posted_alerts(root, context.instance), url, context.instance, run)

    return alert_on_findings


def _post_findings(
    posted: Posted, url: str, instance: dg.DagsterInstance, run: dg.DagsterRun
) -> None:
    """Post what the checks of a run found and was not posted before."""
    evaluations = [*evaluations_of(instance, run.run_id)]
    found = {str(finding): finding for e in evaluations for finding in evaluation_findings(e)}
    judged = tuple(map(_check_label, evaluations))
    posted.post_news(
        url,
        {name: finding.text for name, finding in found.items()},
        lambda fresh: findings_alert(run, [found[name] for name in fresh]),
        lambda name: name.startswith(judged),
        is_seen_once=True,
    )


def works_on(run: dg.DagsterRun, lake: str, naming: Naming) -> bool:
    """Whether the run works on the lake: by its tag, or before its first step has set one by the
    assets it selects."""
    if LAKE_TAG in run.tags:
        return run.tags[LAKE_TAG] == lake
    return any(naming.table_of(key) for key in run.asset_selection or ())


def has_webhook() -> bool:
    """Whether an address is set. True also for an invalid one, which the sensors' ticks name."""
    try:
        return bool(webhook_address(os.environ))
    except SettingsError:
        return True


def posted_alerts(root: Path, instance: dg.DagsterInstance) -> Posted:
    """What this instance posted about the lake at `root`."""
    return Posted(place_at(root), f".alerts/{instance_id(instance)}")


def report_alarms(
    root: Path,
    instance: dg.DagsterInstance,
    sensor: str,
    alarms: Mapping[str, str],
    log: Any,
    *,
    is_run: bool = False,
) -> None:
    """Post an alert for each alarm that a tick of `sensor` found: once, and again when its text
    changes or it returns.

    Does nothing if no address is set. One that did not take it is a warning in `log`, and stops no
    tick and no run: the next tick that finds the same posts it. A run (`is_run`) finds its alarm
    once, so that it is kept; a tick posts what was kept before its own.
    """
    scope = f"{sensor}: "
    facts = {"lake": address_of(root), "reason": sensor, "url": f"{_ui_address()}/runs"}

    def message(fresh: list[str]) -> Message:
        """The alarms that are new."""
        names = [name.removeprefix(scope) for name in fresh]
        return Message(
            f"Needs a person: {', '.join(names)}", "\n".join(alarms[name] for name in names), facts
        )

    named = {scope + name: text for name, text in alarms.items()}
    try:
        if url := webhook_address(os.environ):
            record = posted_alerts(root, instance)
            if not is_run:
                record.post_unsent(url)
            record.post_news(
                url, named, message, lambda name: name.startswith(scope), is_seen_once=is_run
            )
    except BackfillError as error:
        log.warning(str(error))


def failure_alert(instance: dg.DagsterInstance, run: dg.DagsterRun, message: str) -> Message:
    """The alert of a failed run: its cause in one line (else Dagster's `message`), days, reason and
    identity. The subject names the tables that failed."""
    events = run_events(instance, run.run_id, dg.DagsterEventType.STEP_FAILURE)
    steps = [event.step_key for event in events if event.step_key]
    tables = [table_of_step(step) or step for step in steps]
    if not tables:
        tables = [key.to_user_string() for key in run.asset_selection or ()]
    subject = f"Failed: {_run_subject(run, tables, days_of_run(run))}"
    return Message(subject, run_failure_cause(instance, run.run_id) or message, _run_facts(run))


@dataclass(frozen=True)
class AlertedFinding:
    """What a check of a table finds."""

    check: str  # with its table
    table: str
    text: str
    day: date | None = None  # None: of the table as a whole

    def __str__(self) -> str:
        return f"{self.check}{self.day or ''}".strip()


def evaluation_findings(evaluation: dg.AssetCheckEvaluation) -> list[AlertedFinding]:
    """What an evaluation finds, day by day where it names days."""
    name = _check_label(evaluation)
    table = evaluation.asset_key.to_user_string()
    if days := Standing.of(evaluation).days:
        return [AlertedFinding(name, table, why, day) for day, why in days.items()]
    return [] if evaluation.passed else [AlertedFinding(name, table, evaluation_text(evaluation))]


def findings_alert(run: dg.DagsterRun, found: Sequence[AlertedFinding]) -> Message:
    """The alert of a run whose checks found something: tables and days as subject, counts, the
    first ten."""
    lines = [f"{finding}: {finding.text}" for finding in found[:LISTED_FINDINGS]]
    if len(found) > LISTED_FINDINGS:
        lines.append(f"and {len(found) - LISTED_FINDINGS} more")
    days = [finding.day for finding in found if finding.day]
    span = inclusive_range(min(days), max(days)) if days else None
    subject = _run_subject(run, [finding.table for finding in found], span)
    return Message(f"{len(found)} finding(s): {subject}", "\n".join(lines), _run_facts(run))


def _check_label(evaluation: dg.AssetCheckEvaluation) -> str:
    return f"{evaluation.asset_key.to_user_string()} {evaluation.check_name} "


def _run_subject(run: dg.DagsterRun, tables: Iterable[str], days: DayRange | None) -> str:
    named = sorted(set(tables))
    subject = ", ".join(named[:LISTED_TABLES]) or run.job_name
    if len(named) > LISTED_TABLES:
        subject += f" and {len(named) - LISTED_TABLES} more"
    return f"{subject}, {days}" if days else subject


def _run_facts(run: dg.DagsterRun) -> dict[str, str]:
    """What an alert about a run tells programs."""
    days = days_of_run(run)
    return {
        "run_id": run.run_id,
        "job": run.job_name,
        "lake": run.tags.get(LAKE_TAG, ""),
        "reason": run.tags.get(REASON_TAG, "manual"),
        "first_day": str(days.start) if days else "",
        "last_day": str(days.last) if days else "",
        "url": f"{_ui_address()}/runs/{run.run_id}",
    }


def _ui_address() -> str:
    """Where people see Dagster: by default where `dg dev` listens."""
    return (os.environ.get(UI_URL) or "http://127.0.0.1:3000").rstrip("/")
