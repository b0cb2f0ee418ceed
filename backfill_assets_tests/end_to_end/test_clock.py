"""Lakes whose clock is wrong for a while: ahead or behind, by seconds, hours or years, and then
right again.

Tested here: the ledger of files after such a scan, and that no row stays in quarantine for it. Not
tested here: sensors with a clock that jumps (`test_late_data`, `dagster.adapter.test_simulation`).
"""

import os
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets.intake.landed_changes import compare_sources
from backfill_assets.intake.scan import scan_source, withdraw_disputed
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.reading.account import accounts_by_table
from backfill_assets_tests.clocks import JUMPS, Clock, set_to
from backfill_assets_tests.end_to_end.worlds import LONG_AGO, World, land, make_world
from backfill_assets_tests.oracle import Row, Rules, delivery

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("clocks")]
START = date(2024, 3, 1)
RULES = Rules(START, datetime.fromisoformat("2024-03-09"), date(2024, 3, 8))
DAYS = DayRange(START, date(2024, 3, 6))
TABLES = ("raw", "staging", "quarantine")


def rows_of(number: int) -> list[Row]:
    """Deliveries of two arrival days, one of them unusable."""
    seq = number * 10
    rows = [delivery(seq + n, f"2024-03-0{number + n} 10:00", key=f"k{seq + n}") for n in (0, 1)]
    return [*rows, delivery(seq + 2, f"2024-03-0{number} 10:00", key=" ")]


def put(world: World, number: int, rows: list[Row], written: int = LONG_AGO) -> None:
    os.utime(land(world, f"{number}.jsonl", rows), (written, written))


@pytest.fixture
def world(tmp_path: Path, spark: object) -> World:
    world = make_world(tmp_path / "lake", RULES)
    for number in (1, 3):
        put(world, number, rows_of(number))
    return world


@pytest.fixture
def at_once(tmp_path: Path, world: World) -> World:
    """The same files in a lake whose clock was never wrong."""
    made = make_world(tmp_path / "at once", RULES)
    for number in (1, 3):
        put(made, number, rows_of(number))
    made.backfill(DAYS)
    return made


def adds_up(world: World) -> bool:
    """Whether each row that landed is in raw, in quarantine or a duplicate, once, by tables and
    receipts."""
    lake_session, pipeline = world.open()
    (found,) = accounts_by_table(
        lake_session.lake, read_view(lake_session.lake, pipeline.contracts)
    ).values()
    held = len(world.content("raw")) + len(world.content("quarantine"))
    return (
        not (found.wrong or found.waiting or found.surplus)
        and found.rows == held + found.duplicates
    )


@pytest.mark.parametrize("off", JUMPS)
def test_an_altered_file_is_followed_once_accepted_whatever_clock_scanned_it(
    world: World, off: timedelta
) -> None:
    with set_to(Clock(off)):
        world.backfill(DAYS)
    put(world, 1, rows_of(1)[:1], LONG_AGO + 1)
    assert scan_source(world.open()[0]).altered == ("1.jsonl",)
    assert withdraw_disputed(world.open()[0], "resent") == ["1.jsonl"]
    assert withdraw_disputed(world.open()[0], "again") == [], "nothing is accepted twice"
    assert list(scan_source(world.open()[0]).new) == ["1.jsonl"]
    assert not compare_sources(world.open()[0]).disputed
    world.backfill(DAYS)
    assert len(world.content("raw")) == 3
    assert adds_up(world)


@pytest.mark.parametrize("loaded", [False, True])
def test_rows_that_a_clock_behind_took_for_rows_of_the_future_leave_the_quarantine_at_the_next_scan(
    world: World, at_once: World, *, loaded: bool
) -> None:
    years = datetime.now() - datetime.fromisoformat("2014-03-05")  # noqa: DTZ005 - any day before the files' own
    with set_to(Clock(-years)):
        if loaded:
            world.backfill(DAYS)
            assert world.content("raw") == []
            assert len(world.content("quarantine")) == 6
        else:
            scan_source(world.open()[0])
    assert not compare_sources(world.open()[0]).is_scanned
    scan_source(world.open()[0])
    assert compare_sources(world.open()[0]).is_scanned, "once is enough"
    world.backfill(DAYS)
    for table in TABLES:
        assert world.content(table) == at_once.content(table), table
    assert adds_up(world)
    assert world.states() == at_once.states()


def test_a_content_that_lands_again_in_a_younger_file_is_scanned_anew_and_loaded(
    world: World, at_once: World
) -> None:
    years = datetime.now() - datetime.fromisoformat("2014-03-05")  # noqa: DTZ005
    for number in (1, 3):  # their own times were taken from the same wrong clock
        put(world, number, rows_of(number), int(datetime.fromisoformat("2014-03-01").timestamp()))
    with set_to(Clock(-years)):
        world.backfill(DAYS)
    scan_source(world.open()[0])
    assert len(world.content("quarantine")) == 6, "nothing proves the clock wrong"
    for number in (1, 3):
        (world.landing / f"{number}.jsonl").unlink()
    scan_source(world.open()[0])
    for number in (1, 3):
        put(world, number, rows_of(number))
    world.backfill(DAYS)
    for table in TABLES:
        assert world.content(table) == at_once.content(table), table
    assert adds_up(world)
