"""The scan: what is new, a copy, altered, missing or unchanged, said by content and never by name or time.

Lives here: the comparison of folder and ledger, and what a scan appends. Does not live here: what becomes of the rows
(`end_to_end.test_ledger`).
"""

import os
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from backfill_assets.core.errors import LandingError
from backfill_assets.lake import scan as scanning
from backfill_assets.lake.deliveries import read_deliveries
from backfill_assets.lake.landing import list_landing
from backfill_assets.lake.ledger import FILES, FileRecord, read_files
from backfill_assets.lake.scan import Comparison, accept, compare, scan
from backfill_assets_tests.end_to_end.worlds import World, land, land_bytes, make_world
from backfill_assets_tests.lake.landed import land as plain_land
from backfill_assets_tests.oracle import Rules, delivery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-20"), date(2024, 3, 20))
DAY = date(2024, 3, 5)
SEEN = datetime(2024, 3, 10, tzinfo=UTC)


def recorded(folder: Path, name: str, content: bytes, usable: int = 1, withdrawn: bool = False) -> FileRecord:
    """The record of a file that was scanned with this content."""
    file = plain_land(folder, name, content)
    digest = sha256(content).hexdigest()
    return FileRecord(name, digest, file.size, file.mtime_ns, SEEN, DAY, {DAY: (1, 1 - usable, usable)}, withdrawn)


def compared(folder: Path, *records: FileRecord) -> Comparison:
    return compare(list_landing("**", folder, "csv"), records)


def test_nothing_moved_is_nothing_to_do(tmp_path: Path) -> None:
    assert compared(tmp_path, recorded(tmp_path, "a.csv", b"1")) == Comparison([], [], [], [])


def test_a_file_that_was_only_touched_is_the_same_and_one_with_other_bytes_is_altered(tmp_path: Path) -> None:
    same, other = recorded(tmp_path, "a.csv", b"1"), recorded(tmp_path, "b.csv", b"2")
    os.utime(tmp_path / "a.csv", (1, 1))
    plain_land(tmp_path, "b.csv", b"3")
    os.utime(tmp_path / "b.csv", (1, 1))
    assert compared(tmp_path, same, other) == Comparison([], [other], [], [])


def test_a_file_that_moved_is_new_at_its_new_place_and_not_missing_once_that_is_recorded(tmp_path: Path) -> None:
    old = recorded(tmp_path, "old.csv", b"1")
    new = recorded(tmp_path, "new.csv", b"1")
    (tmp_path / "old.csv").unlink()
    found = compared(tmp_path, old)
    assert ([f.name for f in found.fresh], found.missing) == (["new.csv"], [old])
    assert compared(tmp_path, old, new) == Comparison([], [], [], [old])


def test_a_file_without_a_usable_row_may_change_and_vanish_freely(tmp_path: Path) -> None:
    changed, gone = recorded(tmp_path, "a.csv", b"1", usable=0), recorded(tmp_path, "b.csv", b"2", usable=0)
    plain_land(tmp_path, "a.csv", b"3!")
    (tmp_path / "b.csv").unlink()
    found = compared(tmp_path, changed, gone)
    assert [f.name for f in found.fresh] == ["a.csv"]
    assert (found.altered, found.missing, found.lapsed) == ([], [], [changed, gone])


def test_a_withdrawn_content_that_lies_there_again_is_new(tmp_path: Path) -> None:
    found = compared(tmp_path, recorded(tmp_path, "a.csv", b"1", withdrawn=True))
    assert [f.name for f in found.fresh] == ["a.csv"]


def files_of(world: World) -> dict[str, tuple[int, bool]]:
    """Path -> rows, withdrawn."""
    return {r.path: (r.rows, r.withdrawn) for r in read_files(world.root / "tables" / FILES.name)}


def test_a_scan_records_each_content_once_and_a_second_one_writes_nothing(
    spark: "SparkSession", tmp_path: Path
) -> None:
    world = make_world(tmp_path, RULES)
    rows = [delivery(1, "2024-03-05 10:00"), delivery(2, "2024-03-06 10:00", key=" ")]
    land(world, "a.jsonl", rows)
    land(world, "copy/of/a.jsonl", rows)
    land_bytes(world, "none.jsonl", b"")
    workshop, _ = world.open()
    first = scan(workshop)
    assert first.new == {"a.jsonl": (2, 0), "none.jsonl": (0, 0)}
    assert first.copies == {"copy/of/a.jsonl": "a.jsonl"}
    version = DeltaTable(str(world.root / "tables" / FILES.name)).version()
    second = scan(workshop)
    assert (second.new, second.copies, second.is_clean) == ({}, {}, True)
    assert DeltaTable(str(world.root / "tables" / FILES.name)).version() == version
    assert files_of(world) == {"a.jsonl": (2, False), "copy/of/a.jsonl": (2, False), "none.jsonl": (0, False)}


def test_rows_without_a_usable_arrival_get_the_files_earliest_usable_day_for_good(
    spark: "SparkSession", tmp_path: Path
) -> None:
    world = make_world(tmp_path, RULES)
    late = delivery(2, "2024-03-11 00:00:01", key="k2")
    land(world, "a.jsonl", [delivery(1, "2024-03-07 10:00"), delivery(3, "2024-03-06 10:00"), late])
    land_bytes(world, "lost.jsonl", b"no json\n")
    workshop, _ = world.open()
    scan(workshop, SEEN)
    records = {r.path: r for r in read_files(world.root / "tables" / FILES.name)}
    assert records["a.jsonl"].home_day == date(2024, 3, 6)
    assert records["a.jsonl"].days == {date(2024, 3, 6): (2, 1, 1), date(2024, 3, 7): (1, 0, 1)}
    assert (records["lost.jsonl"].home_day, records["lost.jsonl"].usable_rows) == (RULES.start, 0)
    land(world, "b.jsonl", [late])
    scan(workshop, SEEN + timedelta(days=9))
    newer = {r.path: r for r in read_files(world.root / "tables" / FILES.name)}
    assert newer["a.jsonl"] == records["a.jsonl"], "time alone makes no row usable"
    assert newer["b.jsonl"].days == {date(2024, 3, 11): (1, 0, 1)}


def test_a_file_that_is_still_being_written_waits_for_the_next_scan(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, RULES)
    land(world, "a.jsonl", [delivery(1, "2024-03-05 10:00")])
    workshop, _ = world.open()
    with monkeypatch.context() as patch:
        patch.setattr(scanning, "settle", lambda file: False)
        assert list(scan(workshop).waiting) == ["a.jsonl"]
    assert files_of(world) == {}
    assert scan(workshop).new == {"a.jsonl": (1, 0)}


def test_only_the_named_paths_are_accepted(spark: "SparkSession", tmp_path: Path) -> None:
    world = make_world(tmp_path, RULES)
    paths = [land(world, f"{n}.jsonl", [delivery(n, f"2024-03-0{n} 10:00")]) for n in (1, 2)]
    workshop, _ = world.open()
    scan(workshop)
    for path in paths:
        path.unlink()
    assert scan(workshop).missing == ("1.jsonl", "2.jsonl")
    assert scan(workshop).blocked == {date(2024, 3, 1), date(2024, 3, 2)}
    assert accept(workshop, "lost", ["2.jsonl"]) == ["2.jsonl"]
    assert scan(workshop).missing == ("1.jsonl",)
    assert files_of(world) == {"1.jsonl": (1, False), "2.jsonl": (1, True)}


def test_a_deleted_stock_is_made_again_and_a_lost_content_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    world = make_world(tmp_path, RULES)
    path = land(world, "a.jsonl", [delivery(1, "2024-03-05 10:00")])
    workshop, _ = world.open()
    scan(workshop)
    (record,) = read_files(world.root / "tables" / FILES.name)
    for kept in workshop.lake.stock.iterdir():
        kept.unlink()
    assert scanning.stocked(workshop, record).parquet.exists()
    for kept in workshop.lake.stock.iterdir():
        kept.unlink()
    path.unlink()
    with pytest.raises(LandingError, match="neither in the stock nor in the landing folder"):
        scanning.stocked(workshop, record)


def test_a_reader_that_loses_rows_is_found_out_before_anything_is_recorded(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, RULES)
    land(world, "a.jsonl", [delivery(1, "2024-03-05 10:00"), delivery(2, "2024-03-06 10:00")])
    workshop, _ = world.open()
    monkeypatch.setattr(scanning, "read_deliveries", lambda *asked: read_deliveries(*asked).where("seq = 1"))
    with pytest.raises(LandingError, match="it has 2 rows, Spark's reader gave 1"):
        scan(workshop)
    assert files_of(world) == {}
