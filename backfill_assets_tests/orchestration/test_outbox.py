"""Alerts on their way: none is lost, none is delivered twice to one address, none keeps another waiting.

Tested here: `Outbox` of `orchestration.alert_channels`. Not tested here: what is told (`test_alerts`).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.orchestration.alert_channels import Message, Outbox
from backfill_assets.orchestration.alerts import DAY_SECONDS
from backfill_assets_tests.clocks import Clock, set_to


@dataclass
class Ways:
    """Addresses that keep what they take; `down` ones take nothing, and nobody takes `poison`."""

    down: set[str] = field(default_factory=set)
    took: list[tuple[str, str]] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)

    def ways(self) -> dict[str, Callable[[Message], None]]:
        return {"webhook": lambda m: self.take("webhook", m), "mail": lambda m: self.take("mail", m)}

    def take(self, name: str, message: Message) -> None:
        self.tried[name] += 1
        if name in self.down or message.subject == "poison":
            raise BackfillError(name, "it did not take an alert", "Kept", "Wait")
        self.took.append((name, message.subject))


@pytest.fixture
def box(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path)


def deliver(box: Outbox, ways: "Ways") -> int:
    return len(box.deliver(ways.ways()))


def test_what_an_address_did_not_take_is_sent_to_it_later_and_to_no_other_again(box: Outbox) -> None:
    ways = Ways(down={"webhook"})
    box.put(Message("one", "text"))
    assert (deliver(box, ways), deliver(box, ways), len(box.waiting())) == (1, 1, 1)
    ways.down.clear()
    assert (deliver(box, ways), len(box.waiting())) == (0, 0)
    assert sorted(ways.took) == [("mail", "one"), ("webhook", "one")]


class Unfit(Ways):
    """Mail that cannot be encoded, or fails with whatever else a library raises; the webhook takes all."""

    def take(self, name: str, message: Message) -> None:
        if name == "mail":
            message.text.encode("ascii")
        super().take(name, message)


def test_one_that_a_way_cannot_take_goes_the_other_way_once_and_blocks_none_after_it(box: Outbox) -> None:
    ways = Unfit()
    for text in ("caf\udce9", "plain"):
        box.put(Message(text[:3], text))
    (error,) = box.deliver(ways.ways())
    assert str(error).startswith("the mail of alerts: it did not take an alert (UnicodeEncodeError)")
    for _ in range(3):
        box.deliver(ways.ways())
    assert sorted(ways.took) == [("mail", "pla"), ("webhook", "caf"), ("webhook", "pla")]
    assert len(box.waiting()) == 1


class Killed(dict[str, Callable[[Message], None]]):
    """The first address only, and a kill before the next."""

    def items(self) -> Any:
        yield from [*super().items()][:1]
        raise KeyboardInterrupt


def test_what_one_way_took_is_kept_before_the_next_is_tried(box: Outbox) -> None:
    ways = Ways()
    box.put(Message("one", "text"))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            box.deliver(Killed(ways.ways()))
    assert ways.took == [("webhook", "one")]


@pytest.mark.parametrize("off", [timedelta(hours=2), timedelta(days=400)])
def test_what_was_put_off_by_a_clock_that_ran_ahead_is_tried_once_the_clock_is_right(
    tmp_path: Path, off: timedelta
) -> None:
    box, ways = Outbox(tmp_path), Ways(down={"mail"})
    with set_to(Clock(off)):
        box.put(Message("one", "text"))
        deliver(box, ways)
        box.queue({"table": "words"}, lambda _: Message("told", ""), again=24 * 3600.0)
    ways.down.clear()
    box.queue({"table": "words"}, lambda _: Message("told", ""), again=24 * 3600.0)
    assert (deliver(box, ways), len(box.waiting())) == (0, 0)
    assert sorted(subject for name, subject in ways.took if name == "mail") == ["one", "told", "told"]


def test_a_message_that_nobody_takes_keeps_no_other_waiting(box: Outbox) -> None:
    ways = Ways()
    for subject in ("poison", "one", "poison", "two"):
        box.put(Message(subject, "text"))
    for _ in range(3):
        deliver(box, ways)
    assert {subject for _, subject in ways.took} == {"one", "two"}
    assert len(box.waiting()) == 2


def test_an_address_that_is_down_costs_a_tick_one_try_and_holds_no_good_one_back(box: Outbox) -> None:
    ways = Ways(down={"mail"})
    for n in range(10):
        box.put(Message(str(n), "text"))
    assert deliver(box, ways) == 1
    assert ways.took == [("webhook", str(n)) for n in range(10)]
    ways.down.clear()
    assert (deliver(box, ways), len(box.waiting()), len(ways.took)) == (0, 0, 20)


class Full(Outbox):
    """One on a disk without space."""

    def put(self, message: Message) -> None:
        raise OSError(28, "no space left")


def test_a_message_counts_as_told_only_once_it_is_kept(box: Outbox) -> None:
    with pytest.raises(OSError, match="no space"):
        Full(box.folder).queue({"name": "words"}, lambda _: Message("one", "text"))
    box.queue({"name": "words"}, lambda _: Message("one", "text"))
    box.queue({"name": "words"}, lambda _: Message("one", "text"))
    assert len(box.waiting()) == 1


@pytest.mark.parametrize("years", [-10, 10])
def test_a_clock_that_is_set_right_again_keeps_no_alert_waiting_and_silences_no_news(
    tmp_path: Path, years: int
) -> None:
    box, ways, again = Outbox(tmp_path), Ways(down={"webhook", "mail"}), DAY_SECONDS
    with set_to(Clock(timedelta(days=365 * years))):
        box.queue({"name": "words"}, lambda _: Message("one", "text"), again=again)
        deliver(box, ways)
    ways.down.clear()
    assert (deliver(box, ways), len(box.waiting())) == (0, 0)
    box.queue({"name": "words"}, lambda _: Message("two", "text"), again=again)
    assert len(box.waiting()) == 1
