"""Parquet that is read where it landed: the tables are those of copies, and no file can change
behind a load's back.

Tested here: stories of a lake with `in_place = true` beside one that copies. Not tested here: files
that end the engine (`intake.test_counting_in_place`).
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.erasure.landed_files import erase_landed_rows
from backfill_assets.erasure.traces import Trace
from backfill_assets.intake.content_store import DIGEST_CHARS, PARSER_VERSION
from backfill_assets.intake.counting import stored_contents
from backfill_assets.intake.files import LandingError, StillChanging
from backfill_assets.intake.forgotten import begin_erasure
from backfill_assets.intake.landed_rows import _numbered_copy
from backfill_assets.intake.ledger import read_files
from backfill_assets.intake.scan import scan_source, withdraw_disputed
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.candidate import Phases, RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets_tests.end_to_end.test_bucket_lake import machine
from backfill_assets_tests.end_to_end.worlds import (
    LONG_AGO,
    World,
    encoded,
    in_place,
    land_bytes,
    make_world,
    run,
    span,
)
from backfill_assets_tests.oracle import Rules, delivery, unruly

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("spark")]

RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-12"), date(2024, 3, 10))
DAYS = span(RULES)
FIRST = [delivery(1, "2024-03-02 10:00", key="a"), delivery(2, "2024-03-03 10:00", key="b")]


def parquet(
    *rows: dict[str, object], change: Callable[[pa.Table], pa.Table] = lambda table: table
) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(change(pq.read_table(pa.BufferReader(encoded("parquet", rows)))), sink)
    return bytes(sink.getvalue())


def inside(world: World) -> list[Path]:
    """The Parquet files of the content store that are no links."""
    return [p for p in (world.root / ".stock").glob("*.parquet") if not p.is_symlink()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A lake that read two deliveries in place and holds them."""
    world = in_place(make_world(tmp_path / "lake", RULES, "parquet"))
    land_bytes(world, "a.parquet", parquet(*FIRST))
    world.backfill(DAYS, "raw", "staging")
    return world


def steps_of_landing() -> Iterator[dict[str, bytes | None]]:
    """What lands one after the other, by name; None: the file goes."""
    rows = unruly(7, RULES.start)
    first = parquet(*rows[:40])
    yield {"a.parquet": first, "copy/of/a.parquet": first, "cut.parquet": b"PAR1"}
    yield {"a.parquet": None, "copy/of/a.parquet": None, "renamed.parquet": first}
    more = parquet(*rows[40:60], change=lambda t: t.append_column("n", pa.array(["x"] * 20)))
    yield {"more.parquet": more}
    narrow = parquet(
        *rows[60:70], change=lambda t: t.set_column(7, "value", t["value"].cast("int32"))
    )
    yield {"narrow.parquet": narrow}
    late = delivery(500, "2024-03-09 10:00", event="2024-03-01 10:00")
    yield {"late.parquet": parquet(*rows[70:], late)}
    finer = parquet(
        delivery(600, "2024-03-10 10:00"),
        change=lambda t: t.set_column(3, "event_ts", t["event_ts"].cast(pa.timestamp("ns"))),
    )
    yield {"finer.parquet": finer}


def test_the_tables_are_those_of_copies_whatever_lands_and_however(tmp_path: Path) -> None:
    worlds = [make_world(tmp_path / name, RULES, "parquet") for name in ("one", "other")]
    in_place(worlds[1])
    for step in steps_of_landing():
        for world in worlds:
            for name, content in step.items():
                if content is None:
                    (world.landing / name).unlink()
                else:
                    land_bytes(world, name, content)
        one, other = (replace(scan_source(w.open()[0]), example="") for w in worlds)
        assert one == other
        one_rows, other_rows = (
            (w.backfill(DAYS, "raw", "staging"), w.contents())[1] for w in worlds
        )
        assert one_rows == other_rows
    assert len(inside(worlds[0])) == 6
    assert sorted(p.name.partition(".")[2] for p in inside(worlds[1])) == [
        f"parquet-{PARSER_VERSION}.parquet",
        "us.parquet",
    ]


def test_a_bound_of_bytes_says_which_files_stay(world: World) -> None:
    (large := world.landing / "large.parquet").write_bytes(parquet(*unruly(3, RULES.start)))
    os.utime(large, (LONG_AGO, LONG_AGO))
    settings = world.root / "lake.toml"
    settings.write_text(
        settings.read_text().replace("in_place = true", f"in_place = {large.stat().st_size}")
    )
    land_bytes(world, "small.parquet", parquet(delivery(9, "2024-03-04 10:00")))
    scan_source(world.open()[0])
    links = {p.resolve().name for p in (world.root / ".stock").glob("*.parquet") if p.is_symlink()}
    assert (links, len(inside(world))) == ({"a.parquet", "large.parquet"}, 1)
    settings.write_text(settings.read_text().replace('format = "parquet"', 'format = "csv"'))
    with pytest.raises(SettingsError, match="in_place is of Parquet"):
        world.open()


def test_a_file_that_changed_or_vanished_is_refused_by_name_until_it_is_back_or_accepted(
    world: World,
) -> None:
    path, before, held = (
        world.landing / "a.parquet",
        world.contents(),
        (world.landing / "a.parquet").read_bytes(),
    )
    path.unlink()
    with pytest.raises(LandingError, match=r"a.parquet \(missing\)"):
        world.backfill(DAYS, "raw", force=True)
    land_bytes(world, "a.parquet", parquet(FIRST[0]))
    with pytest.raises(LandingError, match=r"a.parquet \(altered\)"):
        world.backfill(DAYS, "raw", force=True)
    land_bytes(world, "a.parquet", held)
    world.backfill(DAYS, "raw", "staging", force=True)
    assert world.contents() == before
    land_bytes(world, "a.parquet", parquet(FIRST[0]))
    assert withdraw_disputed(world.open()[0], "resent") == ["a.parquet"]
    world.backfill(DAYS, "raw")
    assert [row["event_key"] for row in world.content("raw")] == ["a"]


def test_equal_bytes_under_another_mark_are_hashed_once_more(world: World) -> None:
    path, before = world.landing / "a.parquet", world.contents()
    shutil.copyfile(path, other := path.with_name(".a"))
    other.replace(path)  # another inode, time, and time of change
    world.backfill(DAYS, "raw", "staging", force=True)
    assert world.contents() == before
    (described,) = (p for p in (world.root / ".stock").glob("*.json") if "mark" in p.read_text())
    assert json.loads(described.read_text())["mark"][:2] == [
        path.stat().st_ino,
        path.stat().st_size,
    ]


@dataclass
class Meanwhile(Phases):
    """Phases of a load in which something else happens before its staged rows are counted."""

    happens: Callable[[], object] = lambda: None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        if name == "audit":
            self.happens()
        with super().phase(name):
            yield


@pytest.mark.parametrize("more", ["", 'beyond = "quarantine"\nwindow_days = 90\n'])
def test_a_file_that_is_replaced_while_the_engine_reads_it_gives_no_rows(
    world: World, more: str
) -> None:
    settings = world.root / "lake.toml"
    settings.write_text(settings.read_text().replace("[lateness]\n", f"[lateness]\n{more}"))
    path, before = world.landing / "a.parquet", world.fingerprints()

    def replaced() -> None:
        other = parquet(*({**row, "value": 9} for row in FIRST))
        assert len(other) == path.stat().st_size
        path.write_bytes(other)
        os.utime(path, (LONG_AGO, LONG_AGO))

    lake_session, pipeline = world.open()
    request = RebuildRequest(
        lake_session,
        KnownStates(lake_session.lake, pipeline),
        pipeline.tables[0],
        DAYS,
        Provenance("manual"),
        force=True,
    )
    with pytest.raises(StillChanging, match=r"landing/a.parquet"):
        run(replace(request, phases=Meanwhile(happens=replaced)))
    with pytest.raises(
        LandingError, match="neither in the stock nor in the landing"
    ):  # size and time are as before
        run(request)
    assert world.fingerprints() == before


def test_a_numbered_copy_is_made_of_the_proven_bytes_alone(world: World, tmp_path: Path) -> None:
    lake_session, _ = world.open()
    (stored,) = stored_contents(lake_session, read_files(lake_session.lake.store))
    land_bytes(world, "a.parquet", parquet(FIRST[0]))
    with pytest.raises(StillChanging):
        _numbered_copy(tmp_path / "scratch", stored)
    assert [*(tmp_path / "scratch/numbered").iterdir()] == [], (
        "it would be taken for the content once that is back"
    )


def test_a_forgotten_entity_leaves_the_file_and_the_content_of_before_is_gone(world: World) -> None:
    land_bytes(
        world,
        "b.parquet",
        parquet(*FIRST[:1], delivery(5, "2024-03-04 10:00", key="c", entity="ann-77")),
    )
    lake_session, _ = world.open()
    scan_source(lake_session)
    erase_landed_rows(
        lake_session,
        Trace({"entity": "ann-77"}),
        begin_erasure(lake_session.lake, {"entity": "ann-77"}, ""),
    )
    assert pq.read_table(world.landing / "b.parquet")["entity"].to_pylist() == ["A"]
    links = sorted(p.resolve().name for p in (world.root / ".stock").glob("*.parquet"))
    assert (links, inside(world)) == (["a.parquet", "b.parquet"], [])
    assert not scan_source(lake_session).new


def test_a_bucket_keeps_no_copy_and_machines_fetch_what_they_read(
    world: World, tmp_path: Path, bucket_address: str
) -> None:
    one, two, third = (
        World(machine(bucket_address, tmp_path / name)) for name in ("one", "two", "third")
    )
    place, other = (
        place_at(one.root),
        land_bytes(world, "b.parquet", parquet(delivery(9, "2024-03-04 10:00", key="c"))),
    )
    place.write(FILE_NAME, (world.root / FILE_NAME).read_bytes())
    for path in (world.landing / "a.parquet", other):
        place.write(f"landing/{path.name}", path.read_bytes())
    for lake in (world, one, two):
        lake.backfill(DAYS, "raw", force=True)
        assert lake.content("raw") == world.content("raw")
    assert {
        n.partition(".")[2] for n in place_at(third.root).names(".stock") if len(n) > DIGEST_CHARS
    } == {"json"}
    home = one.open()[0].lake
    spark = home.settings.spark.model_copy(update={"engine": "sc://elsewhere"})
    elsewhere = LakeSession(
        replace(home, settings=home.settings.model_copy(update={"spark": spark}))
    )
    names = {file.name for file in stored_contents(elsewhere, read_files(home.store))}
    assert len(names) == 2
    assert names <= {*place_at(third.root).names(".stock")}, "other machines read the bucket"
    place.write("landing/a.parquet", parquet(FIRST[0]))
    with pytest.raises(LandingError, match=r"a.parquet \(altered\)"):
        two.backfill(DAYS, "raw", force=True)


@dataclass(frozen=True)
class Rewriting(LakeSession):
    """A session before each of whose counts somebody writes a landed file anew."""

    path: Path = Path()

    def expect(self, rows: int) -> None:
        self.path.write_bytes(parquet(delivery(rows, "2024-03-04 10:00", value=rows)))
        super().expect(rows)


def test_a_file_that_is_rewritten_during_every_count_waits_alone(world: World) -> None:
    busy, new = (
        land_bytes(world, name, parquet(delivery(9, "2024-03-04 10:00")))
        for name in ("busy.parquet", "new.parquet")
    )
    new.write_bytes(parquet(delivery(10, "2024-03-04 11:00")))
    for path in (busy, new):
        os.utime(path, (LONG_AGO, LONG_AGO))
    report = scan_source(Rewriting(world.open()[0].lake, path=busy))
    assert (report.new, list(report.waiting)) == ({"new.parquet": (1, 0)}, ["busy.parquet"])
    settings = (
        world.root / "lake.toml"
    )  # all are counted again, and one that was read is rewritten meanwhile
    settings.write_text(
        settings.read_text().replace("early_tolerance_days = ", "early_tolerance_days = 1")
    )
    os.utime(busy, (LONG_AGO, LONG_AGO))
    report = scan_source(Rewriting(world.open()[0].lake, path=world.landing / "a.parquet"))
    assert (report.new, list(report.waiting)) == ({"busy.parquet": (1, 0)}, ["a.parquet"])
    assert {r.path: r.rows for r in read_files(world.open()[0].lake.store)} == {
        "a.parquet": 2,
        "busy.parquet": 1,
        "new.parquet": 1,
    }
    assert scan_source(world.open()[0]).altered == ("a.parquet",)
