"""A table that others write loses rows to vacuum and commits to a cleaned log, is rewritten or made
anew: all by name.

Not here: what such a source gives otherwise (`test_table_sources`).
"""

from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.scan import scan_all, withdraw_disputed
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.log.log import commit_name
from backfill_assets_tests.end_to_end.test_table_sources import (
    DAYS,
    ROWS,
    UP_TO_DATE,
    Apart,
    apart,
    deliver,
    everywhere,
    world_of,
)
from backfill_assets_tests.tables import append, compacted, rows_in, vacuumed

__all__ = ("apart",)
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("spark")]


@everywhere
def test_what_vacuum_took_after_it_was_loaded_stays_and_is_refused_where_a_day_is_loaded_again(
    apart: Apart,
) -> None:
    deliver(table := apart.table)
    world = apart.world()
    world.backfill(DAYS)
    before = world.contents()
    compacted(table, "2024-03-05 20:00")
    vacuumed(table, "2024-03-05 20:30")
    if apart.log.is_store:
        assert scan_all(world.open()[0]).vanished == {}, "this machine has fetched its rows"
        world.open()[0].lake.stock.delete_below("")
    report = scan_all(world.open()[0])
    assert (len(report.vanished), report.is_clean, report.blocked) == (4, True, frozenset())
    world.backfill(DAYS)
    assert world.contents() == before
    with pytest.raises(
        LandingError, match=r"3/part-\S+: vacuum took its rows, for 2024-03-01.*Nothing was written"
    ):
        world.backfill(DAYS, "raw", force=True)
    append(table, "2024-03-05 21:00", ("g", "2024-03-05 10:00", "B", 8))
    world.backfill(DAYS)
    assert len(world.content("raw")) == len(before["raw"]) + 1, (
        "days that vacuum does not touch are loaded"
    )
    gone = next(iter(report.vanished))
    assert withdraw_disputed(world.open()[0], "not needed") == [], (
        "what raw still has is given up one by one only"
    )
    assert withdraw_disputed(world.open()[0], "not needed", [gone]) == [gone]


def test_what_vacuum_took_before_it_was_loaded_holds_its_day_back_until_a_person_gives_it_up(
    tmp_path: Path,
) -> None:
    table = tmp_path / "orders"
    for at, rows in list(ROWS.items())[:2]:
        append(table, at, *rows)
    compacted(table, "2024-03-02 21:00")
    vacuumed(table, "2024-03-02 22:00")
    append(table, "2024-03-03 20:00", *ROWS["2024-03-03 20:00"])
    append(table, "2024-03-04 20:00", ("g", "2024-03-04 10:00", "B", 8))
    world = world_of(tmp_path / "lake", table)
    report = scan_all(world.open()[0])
    assert (len(report.missing), report.blocked) == (
        2,
        frozenset({date(2024, 3, 1), date(2024, 3, 2)}),
    )
    with pytest.raises(
        LandingError, match=r"0/part-\S+ \(missing\).*2 day\(s\) from 2024-03-01 need it"
    ):
        world.backfill(DAYS, "raw")
    world.backfill(DayRange(date(2024, 3, 3), date(2024, 3, 5)), "raw")
    assert {r["event_key"] for r in world.content("raw")} == {"d", "e", "g"}
    assert len(withdraw_disputed(world.open()[0], "the owner has a copy")) == 2
    world.backfill(DAYS)
    assert {r["reason"] for r in world.content("quarantine")} == {"vacuum took its rows"}
    assert set.union(*world.states().values()) <= UP_TO_DATE
    assert scan_all(world.open()[0]).is_clean


@everywhere
@pytest.mark.parametrize("how", ["edited", "anew"])
def test_a_table_that_is_no_longer_the_one_that_was_read_is_disputed_and_not_believed(
    apart: Apart, how: str
) -> None:
    deliver(table := apart.table)
    world = apart.world()
    world.backfill(DAYS)
    before = world.contents()
    if how == "edited":
        edited = (
            apart.log.read(name := commit_name(1))
            .replace(b"2024", b"2025")
            .replace(b'"add"', b'"add" ')
        )
        apart.log.write(name, edited)
        append(table, "2024-03-05 21:00", ("g", "2024-03-05 10:00", "B", 8))
    else:
        apart.log.delete_below("")
        for at, rows in ROWS.items():
            append(table, at, *[(f"n{i}", *others) for i, *others in rows])
    report = scan_all(world.open()[0])
    disputed = report.altered + report.missing
    assert (len(disputed), len(report.new), report.is_clean) == (
        1 if how == "edited" else 4,
        0,
        False,
    )
    assert set(report.waiting.values()) == {
        "it is of another table than was read, or of a rewritten log"
    }
    with pytest.raises(LandingError, match="need it"):
        world.backfill(DAYS, "raw")
    assert world.contents() == before
    withdraw_disputed(world.open()[0], "the owner made it anew")
    world.backfill(DAYS)
    keys = {r["event_key"] for r in world.content("raw")}
    assert keys == ({*"abcdefg"} if how == "edited" else {f"n{i}" for i in "abcdef"})


@everywhere
def test_versions_that_the_log_lost_before_they_were_read_stop_the_source_by_their_names(
    apart: Apart,
) -> None:
    deliver(table := apart.table)
    world = apart.world()
    world.backfill(DAYS)
    before = world.contents()
    DeltaTable(str(table)).create_checkpoint()
    for version in range(3):
        apart.log.delete(commit_name(version))
    append(table, "2024-03-05 21:00", ("g", "2024-03-05 10:00", "B", 8))
    world.backfill(DAYS)
    assert len(world.content("raw")) == len(before["raw"]) + 1, "what was read is not needed again"
    other = apart.world("other")
    with pytest.raises(
        LandingError, match=r"its log lacks versions 0 to 2, which were not read yet"
    ):
        scan_all(other.open()[0])
    begun = apart.world("begun", "first_version = 3")
    begun.backfill(DAYS)
    held = [(r["id"], r["n"]) for r in rows_in(table)]
    assert sorted((r["event_key"], r["value"]) for r in begun.content("raw")) == sorted(held)
    assert {r["arrival_date"].day for r in begun.content("raw")} == {4, 5}, (
        "what it holds came with that version"
    )
