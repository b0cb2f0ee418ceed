"""Where alerts go: a webhook that takes JSON, and mail. Named by environment variables, because they hold secrets.

Lives here: reading the addresses and handing a message over. Does not live here: which ones, and when (`alerts`), and
trying again (`outbox`).
"""

import html
import smtplib
import ssl
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import partial
from urllib.parse import unquote, urlsplit

from backfill_assets.core.errors import BackfillError, SettingsError

WEBHOOK, MAIL_TO, SMTP = "BACKFILL_ASSETS_ALERT_WEBHOOK", "BACKFILL_ASSETS_ALERT_MAIL", "BACKFILL_ASSETS_ALERT_SMTP"
UI_URL, DEFAULT_UI_URL = "BACKFILL_ASSETS_UI_URL", "http://127.0.0.1:3000"  # where `dagster dev` listens
TIMEOUT_SECONDS = 10.0  # of a way as a whole; a sensor's tick has sixty
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
    `smtps://…`. Certificates are verified. `seconds` is how long each may take."""

    webhook: str = ""
    mail_to: tuple[str, ...] = ()
    smtp: str = DEFAULT_SMTP
    seconds: float = TIMEOUT_SECONDS

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
        """The ways there are, by name; each hands a message over, or raises BackfillError or what a library raises."""
        found: dict[str, Callable[[Message], None]] = {"webhook": partial(post, self.webhook)} if self.webhook else {}
        found |= {"mail": partial(mail, self.smtp, self.mail_to)} if self.mail_to else {}
        return {name: partial(_in_time, self.seconds, f"the {name}", send) for name, send in found.items()}


def _in_time(seconds: float, who: str, send: Callable[[Message], None], message: Message) -> None:
    """A server that sends a byte now and then ends no timeout of a library's; it is left alone with its thread."""
    failed: list[Exception] = []

    def try_it() -> None:
        try:
            send(message)
        except Exception as error:  # noqa: BLE001 - raised again below, in the thread that asked
            failed.append(error)

    trying = threading.Thread(target=try_it, daemon=True)
    trying.start()
    trying.join(seconds)
    if trying.is_alive():
        raise unsent(who, f"no answer within {seconds:g} s")
    for error in failed:
        raise error


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
        # Nothing of the answer but its first lines is read: `stream`.
        with requests.post(url, json=body, timeout=TIMEOUT_SECONDS, allow_redirects=False, stream=True) as answer:
            said = "" if 200 <= answer.status_code < 300 else f"HTTP {answer.status_code}"
            said += ", a redirect, which is not followed" if answer.is_redirect else ""
    except requests.RequestException as error:
        said = type(error).__name__
    if said:
        raise unsent(f"the webhook at {urlsplit(url).hostname}", said) from None  # its address is a secret


def mail(server: str, to: tuple[str, ...], message: Message) -> None:
    """Send one mail to all addresses, from the login's name where that is an address, else from the first of them."""
    place = urlsplit(server)
    user, password = unquote(place.username or ""), unquote(place.password or "")
    letter = EmailMessage()
    letter["Subject"] = _sayable(" ".join(f"backfill_assets: {message.subject}".split()))
    letter["From"], letter["To"] = user if "@" in user else to[0], ", ".join(to)
    told = "\n".join(f"{name}: {value}" for name, value in message.facts.items() if value)
    letter.set_content(_sayable(f"{message.text}\n\n{told}\n"))
    host, port = place.hostname or "", place.port or SCHEMES[place.scheme]
    try:
        with _connection(place.scheme, host, port) as connection:
            if user and place.scheme == "smtp":
                connection.starttls(context=ssl.create_default_context())
            if user:
                connection.login(user, password)
            connection.send_message(letter)
    except (OSError, smtplib.SMTPException) as error:
        raise unsent(f"the mail server {host}:{port}", f"{type(error).__name__}: {error}") from None


def _sayable(text: str) -> str:
    """Bytes of a name that are no UTF-8 (lone surrogates) as escapes: no letter can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _connection(scheme: str, host: str, port: int) -> smtplib.SMTP:
    if scheme == "smtps":
        return smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context())
    return smtplib.SMTP(host, port, timeout=TIMEOUT_SECONDS)


def unsent(who: str, said: str) -> BackfillError:
    """The failure of a way: its name, and what it said or why it was given up, without any secret."""
    return BackfillError(
        who,
        f"it did not take an alert ({said})",
        "The alert was not sent; it is kept and sent later",
        "Correct the address if it is wrong",
    )
