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
from backfill_assets.orchestration import alert_channels
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
    """One that tries again at once."""
    return Outbox(tmp_path, pause=0.0)


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
    for _ in range(3):
        (error,) = box.deliver(ways.ways())
        assert str(error).startswith("the mail of alerts: it did not take an alert (UnicodeEncodeError)")
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


def test_it_is_not_tried_again_at_once(tmp_path: Path) -> None:
    box, ways = Outbox(tmp_path), Ways(down={"webhook"})
    box.put(Message("one", "text"))
    assert (deliver(box, ways), deliver(box, ways), ways.tried.total()) == (1, 0, 2)


@pytest.mark.parametrize("off", [timedelta(hours=2), timedelta(days=400)])
def test_what_was_put_off_by_a_clock_that_ran_ahead_is_tried_once_the_clock_is_right(
    tmp_path: Path, off: timedelta
) -> None:
    box, ways = Outbox(tmp_path), Ways(down={"mail"})
    with set_to(Clock(off)):
        box.put(Message("one", "text"))
        deliver(box, ways)
        box.tell({"table": "words"}, lambda _: Message("told", ""), again=24 * 3600.0)
    ways.down.clear()
    box.tell({"table": "words"}, lambda _: Message("told", ""), again=24 * 3600.0)
    assert (deliver(box, ways), len(box.waiting())) == (0, 0)
    assert sorted(subject for name, subject in ways.took if name == "mail") == ["one", "told", "told"]


def test_a_message_that_nobody_takes_keeps_no_other_waiting(box: Outbox) -> None:
    ways = Ways()
    for subject in ("poison", "one", "two"):
        box.put(Message(subject, "text"))
    deliver(box, ways)
    assert {subject for _, subject in ways.took} == {"one", "two"}
    assert len(box.waiting()) == 1


def tick(box: Outbox, ways: "Ways", clock: Clock, minutes: int, every: timedelta = timedelta(seconds=10)) -> None:
    """Deliver as often of the clock."""
    for _ in range(timedelta(minutes=minutes) // every):
        deliver(box, ways)
        clock.off += every


@pytest.mark.parametrize("many", [1, 2])
def test_many_messages_that_nobody_takes_keep_no_other_waiting_either(tmp_path: Path, many: int) -> None:
    box, ways = Outbox(tmp_path), Ways()
    for subject in (*["poison"] * many * alert_channels.FAILURES_AT_ONCE, "one"):
        box.put(Message(subject, "text"))
    with set_to(Clock(stopped=1e9)) as clock:
        tick(box, ways, clock, minutes=many)
    assert sorted(ways.took) == [("mail", "one"), ("webhook", "one")]


def test_an_address_that_is_down_holds_no_good_one_back_and_is_tried_ever_more_seldom(tmp_path: Path) -> None:
    box, ways, many = Outbox(tmp_path), Ways(down={"mail"}), 2 * alert_channels.SENT_AT_ONCE
    for n in range(many):
        box.put(Message(str(n), "text"))
    with set_to(Clock(stopped=1e9)) as clock:
        for _ in range(2):
            deliver(box, ways)
            clock.off += timedelta(seconds=10)
        assert sorted(ways.took) == sorted(("webhook", str(n)) for n in range(many)), "two ticks"
        tick(box, ways, clock, 60, timedelta(seconds=15))
        first = ways.tried["mail"]
        assert many < first <= 8 * many, "each in an hour"
        tick(box, ways, clock, 60, timedelta(seconds=15))
        assert ways.tried["mail"] - first < first / 2
        ways.down.clear()
        clock.off += timedelta(hours=1)
        tick(box, ways, clock, minutes=1)
    assert (len(ways.took), len(box.waiting())) == (2 * many, 0)


def test_after_years_of_tries_it_is_tried_once_an_hour(tmp_path: Path) -> None:
    box, ways = Outbox(tmp_path), Ways(down={"mail"})
    box.put(Message("one", "text"))
    deliver(box, ways)
    (path,) = (tmp_path / "waiting").iterdir()
    path.write_text(path.read_text().replace('"tries": 1', '"tries": 9999'))
    with set_to(Clock()) as clock:
        for minutes, tries in ((59, 1), (61, 2)):
            clock.off = timedelta(minutes=minutes)
            deliver(box, ways)
            assert ways.tried["mail"] == tries


def test_an_address_that_is_down_costs_a_tick_few_tries(box: Outbox) -> None:
    ways = Ways(down={"webhook", "mail"})
    for n in range(10):
        box.put(Message(str(n), "text"))
    assert deliver(box, ways) == 2 * alert_channels.FAILURES_AT_ONCE
    assert len(box.waiting()) == 10


class Full(Outbox):
    """One on a disk without space."""

    def put(self, message: Message) -> None:
        raise OSError(28, "no space left")


def test_a_message_counts_as_told_only_once_it_is_kept(box: Outbox) -> None:
    with pytest.raises(OSError, match="no space"):
        Full(box.folder).tell({"name": "words"}, lambda _: Message("one", "text"))
    box.tell({"name": "words"}, lambda _: Message("one", "text"))
    box.tell({"name": "words"}, lambda _: Message("one", "text"))
    assert len(box.waiting()) == 1


@pytest.mark.parametrize("years", [-10, 10])
def test_a_clock_that_is_set_right_again_keeps_no_alert_waiting_and_silences_no_news(
    tmp_path: Path, years: int
) -> None:
    box, ways, again = Outbox(tmp_path), Ways(down={"webhook", "mail"}), DAY_SECONDS
    with set_to(Clock(timedelta(days=365 * years))):
        box.tell({"name": "words"}, lambda _: Message("one", "text"), again=again)
        deliver(box, ways)
    ways.down.clear()
    assert (deliver(box, ways), len(box.waiting())) == (0, 0)
    box.tell({"name": "words"}, lambda _: Message("two", "text"), again=again)
    assert len(box.waiting()) == 1
