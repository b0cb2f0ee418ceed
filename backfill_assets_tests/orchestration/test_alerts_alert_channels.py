"""The webhook of alerts: a bad address is refused by its variable, no secret is shown.

Tested here: `orchestration.alerts`, with sinks on loopback. Not tested here: what is posted (`test_alerts`).
"""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.orchestration.alerts import DAY_SECONDS, MAIL_TO, WEBHOOK, Message, Posted, post, webhook
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.orchestration.sinks import SECRET, Hook

MESSAGE = Message("subject", "text")
AT_ONCE = (0.0, 0.0)


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


def about(subject: str) -> Callable[[list[str]], Message]:
    return lambda names: Message(f"{subject}: {', '.join(names)}", "")


@pytest.mark.parametrize("off", [timedelta(days=-3650), timedelta(hours=2), timedelta(days=3650)])
def test_a_clock_that_is_set_right_again_silences_no_news(posted: Posted, hook: Hook, off: timedelta) -> None:
    with set_to(Clock(off)):
        posted.post_news(hook.url, {"a": "1"}, about("news"), again=DAY_SECONDS)
    posted.post_news(hook.url, {"a": "1"}, about("news"), again=DAY_SECONDS)
    assert len(hook.kept) == 2
