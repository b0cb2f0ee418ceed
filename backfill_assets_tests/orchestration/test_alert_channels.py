"""Addresses of alerts: bad ones are refused by their variable, and no secret is ever shown or sent over an open line.

Tested here: `orchestration.alert_channels`, with sinks on loopback. Not tested here: what is told (`test_alerts`).
"""

import smtplib
import socket
import threading
from collections.abc import Iterator
from email.message import Message as Letter
from functools import partial
from pathlib import Path

import pytest
from pydantic import AnyUrl

from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.orchestration.alert_channels import (
    MAIL_TO,
    SMTP,
    WEBHOOK,
    Message,
    Outbox,
    addresses,
    mail,
    post,
)
from backfill_assets_tests.orchestration.sinks import SECRET, Hook, mail_server


@pytest.fixture
def letters() -> Iterator[tuple[str, list[Letter]]]:
    """A mail server's address and the letters it took."""
    with mail_server() as found:
        yield found


MESSAGE = Message("subject", "text")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (WEBHOOK, f"ftp://x/{SECRET}"),
        (WEBHOOK, f"http://[{SECRET}"),
        (MAIL_TO, SECRET),
        (MAIL_TO, f"a@example.org\nBcc: {SECRET}@example.org"),
        (SMTP, f"{SECRET}://x"),
        (SMTP, f"smtps://me:{SECRET}/x@example.org"),
        (SMTP, f"smtps://me:12{SECRET}#x@example.org:465"),
        (SMTP, "smtp://me:12345#x@example.org"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_by_its_variable_and_not_shown(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable) as refused:
        addresses({variable: value})
    assert SECRET not in str(refused.value)


def test_a_webhook_that_is_down_does_not_silence_mail(tmp_path: Path, letters: tuple[str, list[Letter]]) -> None:
    server, kept = letters
    box = Outbox(tmp_path)
    box.put(MESSAGE)
    ways = addresses({WEBHOOK: "http://127.0.0.1:9/x", MAIL_TO: "a@example.org", SMTP: server}).ways()
    (error,) = box.deliver(ways)
    assert "the webhook of alerts" in str(error)
    assert (len(kept), len(box.waiting())) == (1, 1)


def test_a_webhook_that_refuses_is_told_without_its_address() -> None:
    hook = Hook(status=500)
    try:
        with pytest.raises(BackfillError, match="HTTP 500") as refused:
            post(hook.url, MESSAGE)
    finally:
        hook.close()
    assert SECRET not in str(refused.value)


def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    box.put(MESSAGE)
    ways = addresses({MAIL_TO: "a@example.org", SMTP: f"smtp://user:{SECRET}@127.0.0.1:9"}).ways()
    (error,) = box.deliver(ways)
    assert "The alert was not sent" in str(error)
    assert SECRET not in str(error)


def test_a_login_is_never_sent_over_an_open_line(letters: tuple[str, list[Letter]]) -> None:
    server, kept = letters
    open_line = AnyUrl(server.replace("smtp://", f"smtp://user:{SECRET}@"))
    with pytest.raises(smtplib.SMTPNotSupportedError, match="STARTTLS"):
        mail(open_line, "a@example.org", MESSAGE)
    assert not kept


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_is_a_failure_by_name(status: int) -> None:
    other = Hook()
    hook = Hook(status, to=other.url)
    try:
        with pytest.raises(BackfillError, match=f"HTTP {status}"):
            post(hook.url, MESSAGE)
    finally:
        hook.close()
        other.close()
    assert (len(hook.kept), other.kept) == (1, [])


def test_the_body_of_an_answer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        taken: list[bytes] = []

        def serve() -> None:
            line, _ = server.accept()
            taken.append(line.recv(65536))
            line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nsome")
            taken.append(line.recv(65536) or b"closed")
            line.close()

        thread = threading.Thread(target=serve)
        thread.start()
        post(url, MESSAGE)
        thread.join()
    assert len(taken) == 2


def test_a_letter_holds_what_is_no_unicode_as_escapes(letters: tuple[str, list[Letter]]) -> None:
    server, kept = letters
    mail(AnyUrl(server), "a@example.org", Message("caf\udce9", "text \udce9", {"lake": "/lakes/caf\udce9"}))
    (letter,) = kept
    body = letter.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert str(letter["Subject"]).endswith(r"caf\udce9")
    assert r"text \udce9" in body.decode()
    assert r"lake: /lakes/caf\udce9" in body.decode()


@pytest.mark.parametrize("way", ["webhook", "mail"])
def test_whatever_a_library_raises_is_that_ways_failure_and_shows_no_secret(tmp_path: Path, way: str) -> None:
    password = f"p\u00e4ss{SECRET}".replace("\u00e4", "%C3%A4")
    with mail_server() as (server, _):
        login = AnyUrl(server.replace("//", f"//u:{password}@"))
        hostile = {
            "webhook": partial(post, f"http://{'a' * 70}.example/{SECRET}"),
            "mail": partial(mail, login, "a@example.org\nBcc: b@example.org"),
        }
        box = Outbox(tmp_path)
        box.put(MESSAGE)
        (error,) = box.deliver({way: hostile[way]})
    assert SECRET not in str(error)
    assert len(box.waiting()) == 1
