"""Where alerts go: a webhook that takes JSON, and mail. Named by environment variables, because they hold secrets.

Lives here: reading the addresses and handing a message over. Does not live here: which ones, and when (`alerts`), and
trying again (`outbox`).
"""

import html
import smtplib
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import partial
from urllib.parse import unquote, urlsplit

from backfill_assets.core.errors import BackfillError, SettingsError

WEBHOOK, MAIL_TO, SMTP = "BACKFILL_ASSETS_ALERT_WEBHOOK", "BACKFILL_ASSETS_ALERT_MAIL", "BACKFILL_ASSETS_ALERT_SMTP"
UI_URL, DEFAULT_UI_URL = "BACKFILL_ASSETS_UI_URL", "http://127.0.0.1:3000"  # where `dagster dev` listens
TIMEOUT_SECONDS = 10  # a sensor's tick has sixty
DEFAULT_SMTP = "smtp://localhost:25"
SCHEMES = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True)
class Message:
    """An alert: a subject of one line, a text, and facts for programs."""

    subject: str
    text: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Channels:
    """The addresses: a webhook (http or https), mail addresses, and the server that takes mail as
    `smtp://HOST:PORT` (a relay that asks for no login), `smtp://USER:PASSWORD@HOST:PORT` (STARTTLS first) or
    `smtps://…`. Certificates are verified."""

    webhook: str = ""
    mail_to: tuple[str, ...] = ()
    smtp: str = DEFAULT_SMTP

    def __bool__(self) -> bool:
        """Whether there is any address."""
        return bool(self.webhook or self.mail_to)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Channels":
        """The addresses in the environment; raises SettingsError naming the variable that cannot be one."""
        webhook, smtp = environment.get(WEBHOOK, "").strip(), environment.get(SMTP, "").strip() or DEFAULT_SMTP
        mail_to = tuple(a.strip() for a in environment.get(MAIL_TO, "").split(",") if a.strip())
        if webhook and not _is_address(webhook, ("http", "https")):
            raise _bad(WEBHOOK, "is no http:// or https:// address")
        if environment.get(UI_URL, "").strip() and not _is_address(environment[UI_URL].strip(), ("http", "https")):
            raise _bad(UI_URL, "is no http:// or https:// address")
        if any("@" not in address for address in mail_to):
            raise _bad(MAIL_TO, "is no list of mail addresses, separated by commas")
        if not _is_address(smtp, SCHEMES) or urlsplit(smtp).path or urlsplit(smtp).query or urlsplit(smtp).fragment:
            raise _bad(SMTP, "is no smtp://USER:PASSWORD@HOST:PORT (signs like / # ? @ in it are written as %2F …)")
        return cls(webhook, mail_to, smtp)

    def ways(self) -> dict[str, Callable[[Message], None]]:
        """The ways there are, by name; each hands a message over or raises BackfillError."""
        found: dict[str, Callable[[Message], None]] = {"webhook": partial(post, self.webhook)} if self.webhook else {}
        return found | ({"mail": partial(mail, self.smtp, self.mail_to)} if self.mail_to else {})


def ui_url(environment: Mapping[str, str]) -> str:
    """Where people see Dagster, without a slash at its end; the default where none is set or it cannot be one."""
    url = environment.get(UI_URL, "").strip()
    return url.rstrip("/") if _is_address(url, ("http", "https")) else DEFAULT_UI_URL


def _is_address(url: str, schemes: Collection[str]) -> bool:
    """Whether the URL has one of the schemes, a host, and a port that is a number where there is one."""
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # its text quotes what it could not read, which may be a password
        return False


def _bad(variable: str, told: str) -> SettingsError:
    # Never the value: it may hold a password, and this is printed.
    return SettingsError(
        f"the environment variable {variable}", f"it {told}", "No alert can be sent", "Correct or unset it"
    )


def post(url: str, message: Message) -> None:
    """POST `{"text": …, "subject": …, facts}`: `text` is what Slack and Mattermost show; they take <, > and & escaped,
    so that no text of a lake can call a whole channel."""
    import requests

    body = {
        **message.facts,
        "subject": message.subject,
        "text": html.escape(f"{message.subject}\n{message.text}\n{message.facts.get('url', '')}".strip(), quote=False),
    }
    try:
        requests.post(url, json=body, timeout=TIMEOUT_SECONDS).raise_for_status()
    except requests.RequestException as error:
        answer = f"HTTP {error.response.status_code}" if error.response is not None else type(error).__name__
        raise _unsent(f"the webhook at {urlsplit(url).hostname}", answer) from None  # its address is a secret


def mail(server: str, to: tuple[str, ...], message: Message) -> None:
    """Send one mail to all addresses, from the login's name where that is an address, else from the first of them."""
    place = urlsplit(server)
    user, password = unquote(place.username or ""), unquote(place.password or "")
    letter = EmailMessage()
    letter["Subject"] = " ".join(f"backfill_assets: {message.subject}".split())
    letter["From"], letter["To"] = user if "@" in user else to[0], ", ".join(to)
    told = "\n".join(f"{name}: {value}" for name, value in message.facts.items() if value)
    letter.set_content(f"{message.text}\n\n{told}\n")
    host, port = place.hostname or "", place.port or SCHEMES[place.scheme]
    try:
        with _connection(place.scheme, host, port) as connection:
            if user and place.scheme == "smtp":
                connection.starttls(context=ssl.create_default_context())
            if user:
                connection.login(user, password)
            connection.send_message(letter)
    except (OSError, smtplib.SMTPException) as error:
        raise _unsent(f"the mail server {host}:{port}", f"{type(error).__name__}: {error}") from None


def _connection(scheme: str, host: str, port: int) -> smtplib.SMTP:
    if scheme == "smtps":
        return smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context())
    return smtplib.SMTP(host, port, timeout=TIMEOUT_SECONDS)


def _unsent(who: str, said: str) -> BackfillError:
    return BackfillError(
        who,
        f"it did not take an alert ({said})",
        "The alert was not sent; it is kept and sent later",
        "Correct the address if it is wrong",
    )
