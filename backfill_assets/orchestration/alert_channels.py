"""Channels of alerts, a webhook that takes JSON and mail, and the messages that wait to be sent.

Here: addresses from environment variables (they hold secrets), sending, and the folder `LAKE/.alerts/INSTANCE`, which
keeps each message until every address took it. Not here: which alerts, and when (`alerts`).
"""

import html
import math
import smtplib
import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import unquote

from filelock import FileLock
from pydantic import AfterValidator, AnyUrl, BaseModel, Field, HttpUrl, UrlConstraints, ValidationError

from backfill_assets.core.clock import utc_now
from backfill_assets.core.digests import digest_of
from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.lake.files import read_json, write_json

WEBHOOK: Final = "BACKFILL_ASSETS_ALERT_WEBHOOK"
MAIL_TO: Final = "BACKFILL_ASSETS_ALERT_MAIL"
SMTP: Final = "BACKFILL_ASSETS_ALERT_SMTP"
UI_URL: Final = "BACKFILL_ASSETS_UI_URL"
TIMEOUT_SECONDS = 10.0  # a sensor's tick has sixty


@dataclass(frozen=True)
class Message:
    """An alert: a subject of one line, a text, and facts for programs."""

    subject: str
    text: str
    facts: Mapping[str, str] = field(default_factory=dict)


Ways = Mapping[str, Callable[[Message], None]]  # a function per address that sends a message, or raises


def _without_path(url: AnyUrl) -> AnyUrl:
    if url.path or url.query or url.fragment:  # the sign after which they begin was part of the password
        raise ValueError("more than a host and a port")
    return url


MailServer = Annotated[
    AnyUrl, UrlConstraints(allowed_schemes=["smtp", "smtps"], host_required=True), AfterValidator(_without_path)
]


class Addresses(BaseModel):
    """Where alerts go, by variables of the environment: a webhook, mail addresses, and the server that takes mail as
    `smtp://HOST:PORT` (a relay that asks for no login), `smtp://USER:PASSWORD@HOST:PORT` (STARTTLS first) or
    `smtps://…`. Certificates are verified."""

    webhook: HttpUrl | None = Field(None, alias=WEBHOOK)
    mail_to: str = Field("", alias=MAIL_TO, pattern=r"^([^,@\r\n]+@[^,@\r\n]+(,|$))+$")
    smtp: MailServer = Field(AnyUrl("smtp://localhost:25"), alias=SMTP)
    ui_url: HttpUrl | None = Field(None, alias=UI_URL)

    def ways(self) -> Ways:
        """How to send to each of them; empty where there is neither a webhook nor a mail address."""
        senders: dict[str, Callable[[Message], None]] = {}
        if self.webhook:
            senders["webhook"] = partial(post, str(self.webhook))
        if self.mail_to:
            senders["mail"] = partial(mail, self.smtp, self.mail_to)
        return senders


def addresses(environment: Mapping[str, str]) -> Addresses:
    """The addresses in the environment. Raises SettingsError naming the variable that cannot be one, without its value:
    it may hold a password."""
    try:
        return Addresses.model_validate({name: value.strip() for name, value in environment.items() if value.strip()})
    except ValidationError as error:
        raise SettingsError(
            f"the environment variable {error.errors()[0]['loc'][0]}", "it holds no address of its kind",
            "No alert can be sent", "Correct or unset it; signs like / # ? @ in a password are written as %2F …",
        ) from None  # fmt: skip


def post(url: str, message: Message) -> None:
    """POST `{"text": …, "subject": …, facts}`: `text` is what Slack and Mattermost show; they take <, > and & escaped,
    so that no text of a lake can call a whole channel."""
    import requests

    text = f"{message.subject}\n{message.text}\n{message.facts.get('url', '')}".strip()
    body = {**message.facts, "subject": message.subject, "text": html.escape(text, quote=False)}
    # Nothing of the answer but its first lines is read: `stream`.
    with requests.post(url, json=body, timeout=TIMEOUT_SECONDS, allow_redirects=False, stream=True) as answer:
        if not 200 <= answer.status_code < 300:
            raise _unsent("webhook", f"HTTP {answer.status_code}")


def mail(server: AnyUrl, to: str, message: Message) -> None:
    """Send one mail to all addresses, from the login's name where that is an address, else from the first of them."""
    user, password, tls = unquote(server.username or ""), unquote(server.password or ""), ssl.create_default_context()
    facts = "\n".join(f"{name}: {value}" for name, value in message.facts.items() if value)
    letter = EmailMessage()
    letter["Subject"] = _as_unicode(" ".join(f"backfill_assets: {message.subject}".split()))
    letter["From"], letter["To"] = user if "@" in user else to.partition(",")[0], to
    letter.set_content(_as_unicode(f"{message.text}\n\n{facts}\n"))
    is_secure = server.scheme == "smtps"
    secure = partial(smtplib.SMTP_SSL, context=tls) if is_secure else smtplib.SMTP
    with secure(server.host or "", server.port or (465 if is_secure else 25), timeout=TIMEOUT_SECONDS) as connection:
        if user and not is_secure:
            connection.starttls(context=tls)
        if user:
            connection.login(user, password)
        connection.send_message(letter)


def _as_unicode(text: str) -> str:
    """`text` with bytes of a name that are no UTF-8 (lone surrogates) as escapes: no letter can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _unsent(way: str, why: str) -> BackfillError:
    return BackfillError(
        f"the {way} of alerts", f"it did not take an alert ({why})",
        "The alert was not sent; it is kept and sent later", "Correct the address if it is wrong",
    )  # fmt: skip


def _failure(way: str, send: Callable[[], None]) -> BackfillError | None:
    """Why a message was not sent, without any secret; None once it was."""
    try:
        send()
    except BackfillError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever a library raises, whose words may quote a password
        return _unsent(way, type(error).__name__)
    return None


@dataclass(frozen=True)
class Outbox:
    """The alerts of one instance of Dagster in one lake; deleting the folder sends old news once more and loses what
    waits."""

    folder: Path

    def put(self, message: Message) -> None:
        """Keep a message until it is delivered."""
        name = f"{time.time_ns():020d} {uuid.uuid4().hex}.json"
        write_json(self.folder / "waiting" / name, {**asdict(message), "sent": [], "tries": 0})

    def queue(
        self,
        found: Mapping[str, str],
        message: Callable[[list[str]], Message],
        is_over: Callable[[str], bool] = lambda _: False,
        again: float = math.inf,
    ) -> None:
        """Keep one message about the names in `found` whose words were not sent within the last `again` seconds, in
        order, if there are any. Names not in `found` for which `is_over` holds count as news when they return."""
        path = self.folder / "told.json"
        with self._lock():
            sent, now = read_json(path), utc_now().timestamp()
            before = {name: digest for name, (digest, at) in sent.items() if 0 <= now - at < again}
            digests = {name: digest_of(words) for name, words in found.items()}
            fresh = [name for name, digest in digests.items() if before.get(name) != digest]
            if fresh:  # the message first: sent twice is better than never
                self.put(message(fresh))
            remembered = {name: each for name, each in sent.items() if name in found or not is_over(name)}
            remembered |= {name: [digests[name], now] for name in fresh}
            if remembered != sent:
                write_json(path, remembered)

    def deliver(self, ways: Ways) -> list[BackfillError]:
        """Send what waits to every address that did not take it yet, up to an address's first failure; returns these.
        A message that failed is tried again after all others, so that it keeps none waiting."""
        errors = list[BackfillError]()
        with self._lock():
            messages = {path: read_json(path) for path in self.waiting()}
            for way, send in ways.items():
                for path, each in sorted(messages.items(), key=lambda item: int(item[1].get("tries", 0))):
                    if way in each["sent"]:
                        continue
                    error = _failure(way, partial(send, Message(each["subject"], each["text"], each["facts"])))
                    each |= {"tries": each.get("tries", 0) + 1} if error else {"sent": [*each["sent"], way]}
                    write_json(path, each)
                    if error:
                        errors.append(error)
                        break
            for path, each in messages.items():
                if ways and ways.keys() <= {*each["sent"]}:
                    path.unlink()
        return errors

    def waiting(self) -> list[Path]:
        """The messages that are not delivered yet, the oldest first."""
        return sorted((self.folder / "waiting").glob("*.json"))

    def _lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / "lock")
