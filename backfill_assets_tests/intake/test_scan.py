"""The scan: what is new, a copy, altered, missing or unchanged, said by content and never by name
or time. Not here: the comparison of folder and ledger (`test_landed_changes`), what becomes of the
rows (`end_to_end.test_ledger`)."""

import hashlib
import os
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from io import BufferedReader
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake import counting
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.counting import stored_contents
from backfill_assets.intake.deliveries import read_deliveries
from backfill_assets.intake.files import LandingError, landed_object
from backfill_assets.intake.ledger import FILES, FileRecord, read_files
from backfill_assets.intake.scan import _ingested_or_waiting, scan_source, withdraw_disputed
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import StoreRefused
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets_tests.end_to_end.worlds import (
    LONG_AGO,
    World,
    land,
    land_bytes,
    make_world,
    span,
)
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.intake.test_limited_decoding import SKEWED
from backfill_assets_tests.oracle import Rules, delivery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.on_spark("it makes Spark fail over one content of several")

RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-20"), date(2024, 3, 20))
SEEN = datetime(2024, 3, 10, tzinfo=UTC)


@pytest.fixture
def world(spark: "SparkSession", tmp_path: Path) -> World:
    """A lake in which nothing landed."""
    return make_world(tmp_path, RULES)


def files_of(world: World) -> dict[str, tuple[int, bool]]:
    """Path -> rows, withdrawn."""
    return {path: (r.rows, r.withdrawn) for path, r in records_of(world).items()}


def records_of(world: World) -> dict[str, FileRecord]:
    return {r.path: r for r in read_files(open_lake(world.root).store)}


def set_to(world: World, old: str, new: str) -> None:
    """Another text in the settings."""
    toml = world.root / "lake.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_a_scan_records_each_content_once_and_a_second_one_writes_nothing(world: World) -> None:
    rows = [delivery(1, "2024-03-05 10:00"), delivery(2, "2024-03-06 10:00", key=" ")]
    land(world, "a.jsonl", rows)
    land(world, "copy/of/a.jsonl", rows)
    land_bytes(world, "none.jsonl", b"")
    lake_session, _ = world.open()
    first = scan_source(lake_session)
    assert first.new == {"a.jsonl": (2, 1), "none.jsonl": (0, 0)}
    assert first.copies == {"copy/of/a.jsonl": "a.jsonl"}
    version = DeltaTable(str(world.root / "tables" / FILES.name)).version()
    second = scan_source(lake_session)
    assert (second.new, second.copies, second.is_clean) == ({}, {}, True)
    assert DeltaTable(str(world.root / "tables" / FILES.name)).version() == version
    assert files_of(world) == {
        "a.jsonl": (2, False),
        "copy/of/a.jsonl": (2, False),
        "none.jsonl": (0, False),
    }


def test_rows_without_a_usable_arrival_get_the_files_earliest_usable_day_for_good(
    world: World,
) -> None:
    late = delivery(2, "2024-03-11 00:00:01", key="k2")
    land(world, "a.jsonl", [delivery(1, "2024-03-07 10:00"), delivery(3, "2024-03-06 10:00"), late])
    land_bytes(world, "lost.jsonl", b"no json\n")
    lake_session, _ = world.open()
    assert scan_source(lake_session, SEEN).example, "why one of them is unusable"
    records = records_of(world)
    assert records["a.jsonl"].home_day == date(2024, 3, 6)
    assert records["a.jsonl"].days == {date(2024, 3, 6): (2, 1, 1), date(2024, 3, 7): (1, 0, 1)}
    assert (records["lost.jsonl"].home_day, records["lost.jsonl"].usable_rows) == (RULES.start, 0)
    land(world, "b.jsonl", [late])
    scan_source(lake_session, SEEN + timedelta(days=9))
    newer = records_of(world)
    assert newer["a.jsonl"] == records["a.jsonl"], "time alone makes no row usable"
    assert newer["b.jsonl"].days == {date(2024, 3, 11): (1, 0, 1)}


def test_a_file_that_is_still_being_written_waits_for_the_next_scan(world: World) -> None:
    rows = [delivery(1, "2024-03-05 10:00")]
    path, done = land(world, "a.jsonl", rows), Event()
    path.touch()

    def grow() -> None:
        while not done.wait(0.05):
            with path.open("ab") as growing:
                growing.write(b" ")

    writer = Thread(target=grow)
    writer.start()
    try:
        assert list(scan_source(world.open()[0]).waiting) == ["a.jsonl"]
    finally:
        done.set()
        writer.join()
    assert files_of(world) == {}
    land(world, "a.jsonl", rows)
    assert scan_source(world.open()[0]).new == {"a.jsonl": (1, 0)}


class Losing(LakeSession):
    """A session on an engine that sees only the first row of a content."""

    def expect(self, rows: int) -> None:
        for path in self.lake.root.glob(".stock/*.parquet"):
            pq.write_table(pq.read_table(path).slice(0, 1), path)
        super().expect(rows)


def test_a_reader_that_loses_rows_is_found_out_before_anything_is_recorded(world: World) -> None:
    land(world, "a.jsonl", [delivery(1, "2024-03-05 10:00"), delivery(2, "2024-03-06 10:00")])
    with pytest.raises(LandingError, match="it has 2 rows, Spark's reader gave 1"):
        scan_source(Losing(world.open()[0].lake))
    assert files_of(world) == {}


def test_a_deleted_or_altered_stock_is_made_again_and_a_lost_content_is_named(world: World) -> None:
    path = land(world, "a.jsonl", [delivery(1, "2024-03-05 10:00")])
    copy = land_bytes(world, "b.jsonl", path.read_bytes())
    lake_session, _ = world.open()
    scan_source(lake_session)
    path.unlink()
    record = records_of(world)["a.jsonl"]
    lake_session.lake.stock.delete_below("")
    (before,) = stored_contents(lake_session, [record])
    right = before.parquet.read_bytes()
    before.parquet.write_bytes(right + b" ")
    assert stored_contents(lake_session, [record]) == [before], "of any file with its content"
    assert before.parquet.read_bytes() == right
    lake_session.lake.stock.delete_below("")
    copy.unlink()
    with pytest.raises(LandingError, match="neither in the stock nor in the landing folder"):
        stored_contents(lake_session, [record])


def rewritten(path: Path, content: bytes, moment: int) -> None:
    """The file overwritten in place, as `cp` and a shell's `>` do: every hard link to it
    changes."""
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(content)
    os.utime(path, (moment, moment))


def test_a_landed_file_that_is_rewritten_in_place_costs_its_copy_no_row(
    spark: "SparkSession", tmp_path: Path
) -> None:
    world = make_world(tmp_path, RULES, "parquet")
    one = land(
        world,
        "a.parquet",
        [delivery(1, "2024-03-05 10:00"), delivery(2, "2024-03-05 11:00", key="k2")],
    )
    copy = land_bytes(world, "b.parquet", one.read_bytes())
    day = DayRange(date(2024, 3, 5), date(2024, 3, 6))
    world.backfill(day, "raw")
    other = land(world, "other.parquet", [delivery(101, "2024-03-05 12:00", key="k3")])
    rewritten(copy, other.read_bytes(), LONG_AGO + 9)
    other.unlink()
    lake_session, _ = world.open()
    assert scan_source(lake_session).altered == ("b.parquet",)
    withdraw_disputed(lake_session, "resent")
    world.backfill(day, "raw")
    assert sorted(row["seq"] for row in world.content("raw")) == [1, 2, 101]


def test_a_refused_file_is_one_bad_row_by_name_and_is_looked_at_again_under_another_select(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(world, "a.jsonl", [delivery(1, "2024-03-05 10:00")])
    bad = land(world, "bad.jsonl", [delivery(n, "2024-03-06 10:00", key=f"k{n}") for n in (2, 3)])
    sha = hashlib.sha256(bad.read_bytes()).hexdigest()
    lake_session, _ = world.open()
    with monkeypatch.context() as patch:
        patch.setattr(counting, "read_deliveries", poisoned(sha))
        report = scan_source(lake_session)
    assert report.new == {"a.jsonl": (1, 0), "bad.jsonl": (1, 1)}
    assert list(report.unreadable) == ["bad.jsonl"]
    assert "rows cannot be judged: [DIVIDE_BY_ZERO]" in report.unreadable["bad.jsonl"]
    world.backfill(span(RULES), "raw")
    assert [row["seq"] for row in world.content("raw")] == [1]
    (kept,) = world.content("quarantine")
    assert (kept["row_number"], kept["source_file"], kept["reason"]) == (
        0,
        sha,
        report.unreadable["bad.jsonl"],
    )
    set_to(world, "op AS op", "lower(op) AS op")
    world.backfill(span(RULES), "raw")
    assert sorted(row["seq"] for row in world.content("raw")) == [1, 2, 3]
    assert world.content("quarantine") == []


def test_two_faults_of_the_settings_in_turn_take_nothing_from_raw(
    spark: "SparkSession", tmp_path: Path
) -> None:
    world, day = (
        make_world(tmp_path, RULES, as_of=False),
        DayRange(date(2024, 3, 5), date(2024, 3, 6)),
    )
    land(world, "a.jsonl", [delivery(1, "2024-03-05 10:00")])
    land(
        world, "b.jsonl", [delivery(2, "2024-04-05 10:00", key="k2")]
    )  # else the first fault is refused at once
    world.backfill(day, "raw")
    set_to(world, "2024-03-01", "2030-01-01")
    with pytest.raises(
        SettingsError, match=r"none of 2 row\(s\) is usable that was: arrival_ts lies before"
    ):
        scan_source(world.open()[0])
    assert [r.usable_rows for r in records_of(world).values()] == [1, 1]
    set_to(world, "2030-01-01", "2024-04-01")
    scan_source(world.open()[0])
    assert [r.usable_rows for r in records_of(world).values()] == [0, 1]
    set_to(world, "2024-04-01", "2024-03-01")
    set_to(world, "landing/**", "elsewhere/**")
    (world.root / "elsewhere").mkdir()
    with pytest.raises(LandingError, match=r"a\.jsonl \(missing\).*Put the files? back"):
        world.backfill(day, "raw")
    assert files_of(world) == {"a.jsonl": (1, False), "b.jsonl": (1, False)}
    set_to(world, "elsewhere/**", "landing/**")
    world.backfill(day, "raw")
    assert [row["seq"] for row in world.content("raw")] == [1]


def poisoned(sha: str) -> Callable[..., Any]:
    """Reading that fails as soon as a row of this content is computed."""

    from pyspark.sql.functions import expr

    poison = expr(f"if(sha256 = '{sha}', cast(1 / 0 AS string), reason)")

    def read(
        session: "SparkSession", files: Sequence[StoredFile], settings: LakeSettings, _gone: str
    ) -> "DataFrame":
        return read_deliveries(session, files, settings).withColumn("reason", poison)

    return read


def test_a_file_that_would_kill_the_server_never_reaches_it_and_the_others_are_recorded(
    spark: "SparkSession", tmp_path: Path
) -> None:
    world = make_world(tmp_path, RULES, "parquet")
    land_bytes(world, "bomb.parquet", SKEWED)
    land(world, "good.parquet", [delivery(1, "2024-03-05 10:00")])
    report = scan_source(world.open()[0])
    assert report.new == {"bomb.parquet": (1, 1), "good.parquet": (1, 0)}
    assert "memory" in report.unreadable["bomb.parquet"]


class Refusing(Folder):
    """A place that lists an object and does not give it, as a store does with an archived one."""

    def open(self, name: str, **how: bool) -> BufferedReader:
        if name == "archived.csv":
            raise StoreRefused(
                self.uri(name), "the store does not take the request (InvalidObjectState)", "", ""
            )
        return super().open(name, **how)


def test_an_object_that_the_store_does_not_give_waits_by_name_and_others_are_read(
    tmp_path: Path,
) -> None:
    place = Refusing(str(tmp_path / "in"))
    fresh = [
        landed_object(place, f"{name}.csv", place.write(f"{name}.csv", b"a\n1\n"))
        for name in ("archived", "b")
    ]
    taken, waits = _ingested_or_waiting(LakeSession(bare_lake(tmp_path / "lake")), fresh)
    assert [file.name for file, _ in taken] == ["b.csv"]
    assert waits == {
        "archived.csv": "it cannot be read: the store does not take the request "
        "(InvalidObjectState)"
    }
