"""The webhook of alerts: a bad address is refused by its variable, no secret is shown, one deadline holds for all.

Tested here: `orchestration.alert_channels`, with sinks on loopback. Not tested here: what is posted (`test_alerts`).
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.orchestration.alert_channels import MAIL_TO, TRIES, WEBHOOK, Message, Posted, Tries, post, webhook
from backfill_assets.orchestration.alerts import DAY_SECONDS
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.orchestration.sinks import SECRET, Hook

MESSAGE = Message("subject", "text")
DOWN = "http://127.0.0.1:9/x"
AT_ONCE = Tries(pauses_seconds=(0.0, 0.0))


@pytest.fixture
def posted(tmp_path: Path) -> Posted:
    return Posted(place_of(tmp_path), "alerts", AT_ONCE)


@pytest.mark.parametrize(
    ("variable", "value"),
    [(WEBHOOK, f"ftp://x/{SECRET}"), (WEBHOOK, f"http://[{SECRET}"), (MAIL_TO, f"{SECRET}@example.org")],
)
def test_an_address_that_cannot_be_one_is_refused_by_its_variable_and_not_shown(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable) as refused:
        webhook({variable: value})
    assert SECRET not in str(refused.value)


def test_a_message_is_tried_again_and_a_refusal_names_no_address() -> None:
    with contextlib.closing(Hook(status=500)) as hook:
        with pytest.raises(BackfillError, match="HTTP 500") as refused:
            post(hook.url, MESSAGE, AT_ONCE)
        assert len(hook.kept) == 3
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_not_followed_and_is_a_failure_by_name(status: int) -> None:
    with contextlib.closing(Hook()) as other, contextlib.closing(Hook(status, to=other.url)) as hook:
        with pytest.raises(BackfillError, match=f"HTTP {status}"):
            post(hook.url, MESSAGE, AT_ONCE)
        assert (len(hook.kept), other.kept) == (3, [])


def drip(line: socket.socket, over: threading.Event) -> None:
    """Answer a header of a byte at a time, for as long as somebody reads."""
    with line, contextlib.suppress(OSError):
        line.recv(65536)
        line.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
        while not over.wait(0.02):
            line.sendall(b"x")


def test_a_header_that_never_ends_is_given_up_at_the_deadline() -> None:
    assert TRIES.deadline_seconds - sum(TRIES.pauses_seconds) > 5, "there is time for three tries"
    over, tries = threading.Event(), Tries(0.4)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: drip(server.accept()[0], over))
        thread.start()
        began = time.monotonic()
        with pytest.raises(BackfillError, match="no answer in time"):
            post(f"http://127.0.0.1:{server.getsockname()[1]}/x", MESSAGE, tries)
        assert time.monotonic() - began >= tries.deadline_seconds
        over.set()
        thread.join()


def about(subject: str) -> Callable[[list[str]], Message]:
    return lambda names: Message(f"{subject}: {', '.join(names)}", "")


def subjects(hook: Hook) -> list[str]:
    return [each["subject"] for each in hook.kept]


def test_what_the_webhook_did_not_take_is_posted_by_whoever_finds_it_next_and_only_once(
    posted: Posted, hook: Hook
) -> None:
    found = {"a": "words", "b": "words"}
    with pytest.raises(BackfillError):
        posted.post_news(DOWN, found, about("down"))
    for words in ("words", "words", "others"):
        posted.post_news(hook.url, {**found, "b": words}, about("news"))
    assert subjects(hook) == ["news: a, b", "news: b"]


def test_a_name_that_was_good_in_between_is_news_again(posted: Posted, hook: Hook) -> None:
    for found, judged in (({"a": "1"}, "a"), ({}, "b"), ({"a": "1"}, "a"), ({}, "a"), ({"a": "1"}, "a")):
        posted.post_news(hook.url, found, about("news"), judged.__eq__)
    assert subjects(hook) == ["news: a", "news: a"]


@pytest.mark.parametrize("off", [timedelta(days=-3650), timedelta(hours=2), timedelta(days=3650)])
def test_a_clock_that_is_set_right_again_silences_no_news(posted: Posted, hook: Hook, off: timedelta) -> None:
    with set_to(Clock(off)):
        posted.post_news(hook.url, {"a": "1"}, about("news"), again=DAY_SECONDS)
    posted.post_news(hook.url, {"a": "1"}, about("news"), again=DAY_SECONDS)
    assert len(hook.kept) == 2
