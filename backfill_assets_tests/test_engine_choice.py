"""On which days of `.ci/run` what takes turns is on Spark. Not here: what takes them (the marker
`in_turn`, examples and guides; modules marked `long`, on one engine), and tests on either
engine."""

import pytest

from backfill_assets_tests.engine_choice import (
    EVERY_THIRD,
    TURN,
    TURNS,
    is_between_turns,
    is_of_today,
    of_today,
    why_no_sail,
)

NAMES = ("readme", "orders", "late-data", "ä")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_on_spark_on_one_of_the_days_of_all_turns(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    on_spark = 0
    for day in range(20_000, 20_000 + TURNS):
        monkeypatch.setenv(TURN, str(day))
        on_spark += not is_between_turns(name)
    assert on_spark == (TURNS if why_no_sail() else 1)


def test_a_run_with_turns_plays_a_long_module_every_third_day(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = list[bool]()
    request.node.add_marker(pytest.mark.long)
    for day in range(20_000, 20_000 + TURNS):
        monkeypatch.setenv(TURN, str(day))
        played.append(is_of_today(request.node))
    assert played.count(True) == TURNS // EVERY_THIRD
    monkeypatch.delenv(TURN)
    assert is_of_today(request.node)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_without_turns_has_all_on_spark(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(TURN, raising=False)
    assert not is_between_turns(name)
    assert of_today(NAMES) == [*NAMES]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_turns_plays_a_name_every_third_day_and_on_that_of_spark(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    played = list[bool]()
    for day in range(20_000, 20_000 + TURNS):
        monkeypatch.setenv(TURN, str(day))
        played.append(bool(of_today([name])))
        assert played[-1] or is_between_turns(name) or why_no_sail()
    assert played.count(True) == TURNS // EVERY_THIRD
