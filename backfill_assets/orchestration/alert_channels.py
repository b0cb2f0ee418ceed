"""Where alerts go, by a webhook that takes JSON and by mail, and the alerts on their way.

Here: addresses from environment variables (they hold secrets), sending, and the folder `LAKE/.alerts/INSTANCE`, which
keeps a message until every address took it and remembers what was sent. Not here: which alerts, and when (`alerts`).
"""

import html
import smtplib
import ssl
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from backfill_assets.core.clock import utc_now
from backfill_assets.core.digests import digest_of
from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.lake.files import read_json, write_json

WEBHOOK, MAIL_TO, SMTP = "BACKFILL_ASSETS_ALERT_WEBHOOK", "BACKFILL_ASSETS_ALERT_MAIL", "BACKFILL_ASSETS_ALERT_SMTP"
UI_URL, DEFAULT_UI_URL = "BACKFILL_ASSETS_UI_URL", "http://127.0.0.1:3000"  # where `dagster dev` listens
TIMEOUT_SECONDS = 10.0  # of one attempt as a whole; a sensor's tick has sixty
DEFAULT_SMTP = "smtp://localhost:25"
SCHEMES = {"smtp": 25, "smtps": 465}
SENT_AT_ONCE = 20  # messages of one tick
FAILURES_AT_ONCE = 2  # per address and tick
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 30.0, 3600.0  # before a message is tried again: doubled each time
TELL_AGAIN_SECONDS = 24 * 3600.0


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
        webhook, url, smtp = (environment.get(name, "").strip() for name in (WEBHOOK, UI_URL, SMTP))
        mail_to = tuple(a.strip() for a in environment.get(MAIL_TO, "").split(",") if a.strip())
        place = smtp or DEFAULT_SMTP
        is_place = _is_address(place, SCHEMES) and not any(urlsplit(place)[2:])
        for variable, good, why in (
            (WEBHOOK, not webhook or _is_address(webhook), "is no http:// or https:// address"),
            (UI_URL, not url or _is_address(url), "is no http:// or https:// address"),
            (MAIL_TO, all("@" in a for a in mail_to), "is no list of mail addresses, separated by commas"),
            (SMTP, is_place, "is no smtp://USER:PASSWORD@HOST:PORT (signs like / # ? @ in it are written as %2F …)"),
        ):
            if not good:  # never with the value: it may hold a password, and this is printed
                where = f"the environment variable {variable}"
                raise SettingsError(where, f"it {why}", "No alert can be sent", "Correct or unset it")
        return cls(webhook, mail_to, place)

    def ways(self) -> dict[str, Callable[[Message], None]]:
        """A function per address that sends a message, or raises BackfillError or what a library raises."""
        found: dict[str, Callable[[Message], None]] = {"webhook": partial(post, self.webhook)} if self.webhook else {}
        found |= {"mail": partial(mail, self.smtp, self.mail_to)} if self.mail_to else {}
        return {name: partial(_in_time, self.seconds, f"the {name}", send) for name, send in found.items()}


def _in_time(seconds: float, way: str, send: Callable[[Message], None], message: Message) -> None:
    """Send in a thread that is left alone after `seconds`: a server that sends a byte now and then ends no timeout."""
    failed: list[Exception] = []

    def try_it() -> None:
        try:
            send(message)
        except Exception as error:  # noqa: BLE001 - raised again below, in the caller's thread
            failed.append(error)

    trying = threading.Thread(target=try_it, daemon=True)
    trying.start()
    trying.join(seconds)
    if trying.is_alive():
        raise unsent(way, f"no answer within {seconds:g} s")
    for error in failed:
        raise error


def ui_url(environment: Mapping[str, str]) -> str:
    """Where people see Dagster, without a slash at its end; the default where none is set or it cannot be one."""
    url = environment.get(UI_URL, "").strip()
    return url.rstrip("/") if _is_address(url) else DEFAULT_UI_URL


def _is_address(url: str, schemes: Collection[str] = ("http", "https")) -> bool:
    """Whether the URL has one of the schemes, a host, and a port that is a number where there is one."""
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # its text quotes what it could not read, which may be a password
        return False


def post(url: str, message: Message) -> None:
    """POST `{"text": …, "subject": …, facts}`: `text` is what Slack and Mattermost show; they take <, > and & escaped,
    so that no text of a lake can call a whole channel."""
    import requests

    text = f"{message.subject}\n{message.text}\n{message.facts.get('url', '')}".strip()
    body = {**message.facts, "subject": message.subject, "text": html.escape(text, quote=False)}
    try:
        # Nothing of the answer but its first lines is read: `stream`.
        with requests.post(url, json=body, timeout=TIMEOUT_SECONDS, allow_redirects=False, stream=True) as answer:
            why = "" if 200 <= answer.status_code < 300 else f"HTTP {answer.status_code}"
            why += ", a redirect, which is not followed" if answer.is_redirect else ""
    except requests.RequestException as error:
        why = type(error).__name__
    if why:
        raise unsent(f"the webhook at {urlsplit(url).hostname}", why) from None  # its address is a secret


def mail(server: str, to: tuple[str, ...], message: Message) -> None:
    """Send one mail to all addresses, from the login's name where that is an address, else from the first of them."""
    place = urlsplit(server)
    user, password = unquote(place.username or ""), unquote(place.password or "")
    host, port = place.hostname or "", place.port or SCHEMES[place.scheme]
    letter = EmailMessage()
    letter["Subject"] = _as_unicode(" ".join(f"backfill_assets: {message.subject}".split()))
    letter["From"], letter["To"] = user if "@" in user else to[0], ", ".join(to)
    facts = "\n".join(f"{name}: {value}" for name, value in message.facts.items() if value)
    letter.set_content(_as_unicode(f"{message.text}\n\n{facts}\n"))
    tls = ssl.create_default_context()
    secure = partial(smtplib.SMTP_SSL, context=tls) if place.scheme == "smtps" else smtplib.SMTP
    try:
        with secure(host, port, timeout=TIMEOUT_SECONDS) as connection:
            if user and place.scheme == "smtp":
                connection.starttls(context=tls)
            if user:
                connection.login(user, password)
            connection.send_message(letter)
    except (OSError, smtplib.SMTPException) as error:
        raise unsent(f"the mail server {host}:{port}", f"{type(error).__name__}: {error}") from None


def _as_unicode(text: str) -> str:
    """`text` with bytes of a name that are no UTF-8 (lone surrogates) as escapes: no letter can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def unsent(way: str, why: str) -> BackfillError:
    """The failure of an attempt to send, without any secret."""
    return BackfillError(
        way,
        f"it did not take an alert ({why})",
        "The alert was not sent; it is kept and sent later",
        "Correct the address if it is wrong",
    )


@dataclass(frozen=True)
class Outbox:
    """The alerts of one instance of Dagster in one lake; deleting the folder sends old news once more and loses what
    waits. `pause`: seconds until a message is tried for the second time."""

    folder: Path
    pause: float = PAUSE_SECONDS

    def put(self, message: Message) -> None:
        """Keep a message until it is delivered."""
        name = f"{time.time_ns():020d} {uuid.uuid4().hex}.json"
        write_json(self.folder / "waiting" / name, {**asdict(message), "sent": []})

    def tell(
        self,
        found: Mapping[str, str],
        is_over: Callable[[str], bool],
        message: Callable[[list[str]], Message],
        again: float | None = None,
    ) -> None:
        """Put the message of the names in `found` whose words were not sent before (with `again`: not within so many
        seconds), in order, if any. Names not in `found` that are over will be news when they come back."""
        path = self.folder / "told.json"
        with self._lock():
            sent, now = read_json(path), utc_now().timestamp()
            fresh = [n for n, words in found.items() if not _was_sent(sent.get(n), digest_of(words), now, again)]
            if fresh:  # the message first: sent twice is better than never
                self.put(message(fresh))
            kept = {n: v for n, v in sent.items() if n in found or not is_over(n)}
            kept |= {n: [digest_of(found[n]), now] for n in fresh}
            if kept != sent:
                write_json(path, kept)

    def deliver(self, channels: Channels) -> list[BackfillError]:
        """Send what waits to every address that did not take it yet; returns why some did not take it. These are tried
        again later, ever more seldom, and keep no other message waiting."""
        errors, failures, ways = list[BackfillError](), Counter[str](), channels.ways()
        if not ways:
            return []
        with self._lock():
            for path, kept in self._due()[:SENT_AT_ONCE]:
                message = Message(kept["subject"], kept["text"], kept["facts"])
                for name, send in ways.items():
                    if name in kept["sent"] or failures[name] >= FAILURES_AT_ONCE:
                        continue
                    try:
                        send(message)
                    except Exception as error:  # noqa: BLE001 - of that address alone, whatever its library raises
                        # Another library's words may quote an address or a password.
                        errors.append(error if isinstance(error, BackfillError) else unsent(name, type(error).__name__))
                        failures[name] += 1
                        kept["failures"] = kept.get("failures", 0) + 1
                    else:
                        kept["sent"].append(name)
                        write_json(path, kept)
                if ways.keys() <= {*kept["sent"]}:
                    path.unlink(missing_ok=True)
                else:  # also where an address was skipped: the places of the next tick are for others
                    write_json(path, {**kept, "tries": kept.get("tries", 0) + 1, "tried": utc_now().timestamp()})
        return errors

    def waiting(self) -> int:
        """How many messages are not delivered yet."""
        return len(list((self.folder / "waiting").glob("*.json")))

    def _due(self) -> list[tuple[Path, dict[str, Any]]]:
        """The messages to try now: those that failed least first, of these those never tried, then the oldest."""
        found = [(path, read_json(path)) for path in sorted((self.folder / "waiting").glob("*.json"))]
        due = [(path, kept) for path, kept in found if not self._pauses(kept)]
        return sorted(due, key=lambda each: (each[1].get("failures", 0), each[1].get("tries", 0)))

    def _pauses(self, kept: Mapping[str, Any]) -> bool:
        tries, tried = int(kept.get("tries", 0)), float(kept.get("tried", 0.0))
        pause = min(self.pause * 2.0 ** min(tries - 1, 10), LONGEST_PAUSE_SECONDS)
        return 0 <= utc_now().timestamp() - tried < pause  # negative where a clock that ran ahead was set right

    def _lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / "lock")


def _was_sent(before: Any, words: str, now: float, again: float | None) -> bool:
    if not isinstance(before, list) or before[0] != words:
        return False
    return again is None or 0 <= now - before[1] < again
