"""The channel of alerts, a webhook that takes JSON, and what was posted there already.

Here: the address, from an environment variable (it holds a secret), and posting within a whole deadline. Not here:
which alerts, and when (`alerts`); mail, for which Dagster has `dg.make_email_on_run_failure_sensor`.
"""

import html
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import HttpUrl, TypeAdapter, ValidationError

from backfill_assets.core.clock import utc_now
from backfill_assets.core.digests import digest_of
from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.core.place import Place, read_json, write_json

POSTED: Final = "told.json"  # beside its lock, in a folder per instance
WEBHOOK: Final = "BACKFILL_ASSETS_ALERT_WEBHOOK"
MAIL_TO: Final = "BACKFILL_ASSETS_ALERT_MAIL"  # before 0.3.0
UI_URL: Final = "BACKFILL_ASSETS_UI_URL"


@dataclass(frozen=True)
class Tries:
    """How long a message is tried."""

    deadline_seconds: float = 10.0  # for all tries; Dagster looks at five ended runs in a tick, which has sixty
    pauses_seconds: tuple[float, ...] = (1.0, 3.0)  # before the second and third try


TRIES: Final = Tries()


@dataclass(frozen=True)
class Message:
    """An alert: a subject of one line, a text, and facts for programs."""

    subject: str
    text: str
    facts: Mapping[str, str] = field(default_factory=dict)


def webhook(environment: Mapping[str, str]) -> str:
    """Return the address of alerts in the environment, "" where none is set.

    Raises SettingsError naming the variable that cannot be one, without its value: it may hold a password.
    """
    url = environment.get(WEBHOOK, "").strip()
    if not url and environment.get(MAIL_TO, "").strip():
        raise SettingsError(
            f"the environment variable {MAIL_TO}", "alerts are no longer mailed", "No alert can be sent",
            f"Set {WEBHOOK}; Dagster mails failed runs by `dg.make_email_on_run_failure_sensor`",
        )  # fmt: skip
    try:
        return str(TypeAdapter(HttpUrl).validate_python(url)) if url else ""
    except ValidationError:
        raise SettingsError(
            f"the environment variable {WEBHOOK}", "it holds no address of a webhook", "No alert can be sent",
            "Correct or unset it; signs like / # ? @ in a password are written as %2F …",
        ) from None  # fmt: skip


def post(url: str, message: Message, tries: Tries = TRIES) -> None:
    """POST `{"text": …, "subject": …, facts}`, three times at most. Raises BackfillError, without the
    address, at the deadline of all tries at the latest.

    `text` is what Slack and Mattermost show; they take <, > and & escaped, so that no text of a lake can call a whole
    channel.
    """
    text = f"{message.subject}\n{message.text}\n{message.facts.get('url', '')}".strip()
    body = {**message.facts, "subject": message.subject, "text": html.escape(text, quote=False)}
    ended, failures = threading.Event(), ["no answer in time"]
    # A thread, because the limits of a request are per read: a server that drips its answer would never be given up.
    threading.Thread(target=_try, args=(url, body, tries, failures, ended), name="alert", daemon=True).start()
    ended.wait(tries.deadline_seconds)
    ended.set()
    if failures:
        raise BackfillError(
            "the webhook of alerts", f"it did not take an alert ({failures[-1]})", f"Not sent: {message.subject}",
            f"Correct {WEBHOOK} if it is wrong",
        )  # fmt: skip


def _try(url: str, body: Mapping[str, str], tries: Tries, failures: list[str], ended: threading.Event) -> None:
    for pause in (*tries.pauses_seconds, 0.0):
        try:
            status = _answer(url, body, tries.deadline_seconds / 2)
        except Exception as error:  # noqa: BLE001 - whatever a library raises, whose words may quote a secret
            failures.append(type(error).__name__)
        else:
            if 200 <= status < 300:
                failures.clear()
                break
            failures.append(f"HTTP {status}")
        if ended.wait(pause):  # the caller gave up
            return
    ended.set()


def _answer(url: str, body: Mapping[str, str], seconds: float) -> int:
    import requests

    # Nothing of the answer but its first lines is read: `stream`.
    with requests.post(url, json=body, timeout=seconds, allow_redirects=False, stream=True) as answer:
        return answer.status_code


@dataclass(frozen=True)
class Posted:
    """What one instance of Dagster posted about one lake; deleting the file sends old news once more."""

    lake: Place
    folder: str  # its name in the lake
    tries: Tries = TRIES

    @property
    def _file(self) -> str:
        return f"{self.folder}/{POSTED}"

    def post_news(
        self,
        url: str,
        found: Mapping[str, str],
        message: Callable[[list[str]], Message],
        is_over: Callable[[str], bool] = lambda _: False,
        again: float = math.inf,
    ) -> None:
        """Post one message about the names in `found` whose words were not posted within the last `again` seconds, in
        order, if there are any. Names not in `found` for which `is_over` holds count as news when they return.

        Raises BackfillError if the webhook did not take it: these names are still news then.
        """
        now = utc_now().timestamp()
        digests = {name: digest_of(words) for name, words in found.items()}
        before = {
            name: digest for name, (digest, at) in read_json(self.lake, self._file).items() if 0 <= now - at < again
        }
        fresh = [name for name, digest in digests.items() if before.get(name) != digest]
        if fresh:  # before it is noted: twice is better than never
            post(url, message(fresh), self.tries)
        with self.lake.lock(f"{self.folder}/lock", "the record of posted alerts"):
            noted: dict[str, Any] = read_json(self.lake, self._file)
            kept = {name: each for name, each in noted.items() if name in found or not is_over(name)}
            kept |= {name: [digests[name], now] for name in fresh}
            if kept != noted:
                write_json(self.lake, self._file, kept)
