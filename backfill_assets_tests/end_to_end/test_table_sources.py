"""A Delta table that others write, as a source: the tables of the lake are what the same rows
delivered as files give.

Tested here: appends, changes, compaction, from the log to training. Not tested here: the log by
itself (`intake.test_source_log`), changed rows (`intake.test_table_changes`), vacuum and rewritten
logs (`test_table_history`).
"""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from backfill_assets.intake.counting import ingest_into_lake
from backfill_assets.intake.landed_changes import look_at_landing
from backfill_assets.intake.ledger import read_files
from backfill_assets.intake.scan import scan_all
from backfill_assets.intake.source_log import TableListing
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.choice import place_at, place_of_others
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land_bytes
from backfill_assets_tests.tables import (
    SCHEMA,
    SELECT,
    append,
    committed,
    compacted,
    rows_in,
    rows_of_orders,
    settings_text,
)

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("spark")]
DAYS = DayRange(date(2024, 3, 1), date(2024, 3, 6))  # the last excluded
ROWS: dict[str, list[Sequence[Any]]] = {
    "2024-03-01 20:00": [("a", "2024-03-01 10:00", "A", 1), ("b", "2024-03-01 11:00", "B", 2)],
    "2024-03-02 20:00": [("c", "2024-03-02 10:00", "A", 3)],
    "2024-03-03 20:00": [("d", "2024-03-03 10:00", "B", 4), ("e", "2024-03-01 12:00", "A", 5)],
    "2024-03-04 20:00": [("a", "2024-03-01 10:00", "A", 7), ("f", "2024-03-04 10:00", "B", 6)],
}
CLICKS = """id AS event_key, CAST(at AS timestamp) AS event_ts, CAST(arrived AS timestamp) AS arrival_ts,
 who AS entity, 1 AS value, 0 AS flag"""
UP_TO_DATE = {"fresh", "pending"}  # the day behind the frontier
PLACES = ("seq", "source_file", "row_number", "row", "fingerprint", "log_change", "log_commit_ts")


@dataclass(frozen=True)
class Apart:
    """Where a table of others and the lakes over it lie: below folders, or below prefixes of a
    bucket."""

    of_others: Path | str
    of_lakes: Path | str

    @property
    def table(self) -> str:
        return f"{self.of_others}/raw/orders"

    @property
    def log(self) -> Place:
        return place_of_others(self.table)

    def world(self, name: str = "lake", others: str = "") -> World:
        """A lake over the table, which it names by its address or relative to itself."""
        named = "../raw/orders" if self.of_others == self.of_lakes else self.table
        return world_of(local_root(f"{self.of_lakes}/{name}"), named, others)


EVERYWHERE = ("in folders", "the table in a bucket", "both in a bucket")
everywhere = pytest.mark.parametrize(
    "apart",
    [EVERYWHERE[0], *(pytest.param(far, marks=pytest.mark.slow) for far in EVERYWHERE[1:])],
    indirect=True,
)


@pytest.fixture
def apart(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Apart:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    if request.param == EVERYWHERE[0]:
        return Apart(tmp_path, tmp_path)
    address = request.getfixturevalue("bucket_address")
    return Apart(address, tmp_path if request.param == EVERYWHERE[1] else address)


def of_others(folder: Path) -> Path:
    """A table that others write: an append for each of `ROWS`."""
    deliver(folder / "orders")
    return folder / "orders"


def deliver(table: Path | str) -> None:
    for at, rows in ROWS.items():
        append(table, at, *rows)


def world_of(root: Path, table: Path | str, others: str = "", select: str = SELECT) -> World:
    place_at(root).write(FILE_NAME, (settings_text(table, select, others) + SHARED).encode())
    return World(root)


def as_files(root: Path) -> World:
    """A lake to which the same rows were delivered as JSON lines, each with its arrival."""
    root.mkdir(parents=True)
    select = SELECT.replace("at AS event_ts", "CAST(at AS timestamp) AS event_ts")
    toml = settings_text("x", f"{select}, CAST(arrived AS timestamp) AS arrival_ts")
    (root / "lake.toml").write_text(
        toml.replace('table = "x"', 'files = "landing/*.jsonl"\nformat = "jsonl"') + SHARED
    )
    world = World(root)
    for number, (arrived, rows) in enumerate(ROWS.items()):
        told = [
            {"id": i, "at": at, "who": who, "n": n, "arrived": arrived} for i, at, who, n in rows
        ]
        land_bytes(world, f"{number}.jsonl", "".join(json.dumps(r) + "\n" for r in told).encode())
    return world


def test_an_append_only_table_gives_what_the_same_rows_give_as_files(tmp_path: Path) -> None:
    table = of_others(tmp_path)
    of_table, of_files = world_of(tmp_path / "lake", table), as_files(tmp_path / "other")
    for world in (of_table, of_files):
        world.backfill(DAYS)
    found, wanted = (w.contents(*PLACES) for w in (of_table, of_files))
    assert found == wanted
    assert len(found["training"]) > 3
    assert not [p for p in (of_table.root / ".stock").glob("*.parquet") if not p.is_symlink()], (
        "nothing is copied"
    )


def repeated(rows: Sequence[Any], key: str) -> int:
    """How many rows repeat the key of another."""
    return len(rows) - len({row[key] for row in rows})


def test_an_append_only_log_with_repeated_rows_becomes_a_table_without(tmp_path: Path) -> None:
    table = of_others(tmp_path)
    append(
        table, "2024-03-05 20:00", *ROWS["2024-03-01 20:00"], *ROWS["2024-03-04 20:00"]
    )  # a retried job
    append(table, "2024-03-05 20:00", *ROWS["2024-03-02 20:00"], *ROWS["2024-03-04 20:00"])
    log = rows_in(table)
    assert repeated(log, "id") == 8
    world = world_of(tmp_path / "lake", table)
    world.backfill(DAYS, "raw", "staging")
    current = [row for row in world.content("staging") if row["known_until"] is None]
    assert repeated(current, "event_key") == 0
    assert {r["event_key"]: r["value"] for r in current} == {
        "a": 7,
        "b": 2,
        "c": 3,
        "d": 4,
        "e": 5,
        "f": 6,
    }


def test_a_lake_in_a_bucket_copies_one(
    tmp_path: Path, bucket_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    here, far = (
        world_of(tmp_path / "lake", table := of_others(tmp_path)),
        World(local_root(bucket_address)),
    )
    place_at(far.root).write(FILE_NAME, (here.root / FILE_NAME).read_bytes())
    for world in (here, far):
        world.backfill(DAYS, "raw")
    assert far.fingerprints()["raw"] == here.fingerprints()["raw"] != {}
    shutil.rmtree(table)
    assert {path.is_file() for path in map(far.open()[0].lake.stock.local, copies_in(far))} == {
        True
    }


def copies_in(world: World) -> list[str]:
    return [name for name in world.open()[0].lake.stock.names() if name.endswith(".parquet")]


def story(table: Path | str, **options: Any) -> None:
    """Five commits of two partitions: an append, a new column, an UPDATE, a DELETE and a MERGE that
    moves an event."""
    options = {"partition_by": ["who"], **options}
    append(
        table,
        "2024-03-01 20:00",
        *ROWS["2024-03-01 20:00"],
        ("z", "2024-03-01 09:00", None, 9),
        **options,
    )
    more = SCHEMA.append(pa.field("note", pa.string()))
    append(
        table,
        "2024-03-02 20:00",
        ("c", "2024-03-02 10:00", "A", 3, "new"),
        schema=more,
        schema_mode="merge",
    )
    DeltaTable(str(table)).update({"n": "n + 100"}, predicate="id = 'a'")
    committed(table, "2024-03-03 20:00")
    DeltaTable(str(table)).delete("id = 'b'")
    committed(table, "2024-03-04 20:00")
    moved = rows_of_orders(
        [("c", "2024-03-03 10:00", "B", 3, "moved"), ("g", "2024-03-04 10:00", "B", 8, None)], more
    )
    merge = DeltaTable(str(table)).merge(moved, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    committed(table, "2024-03-05 20:00")


@everywhere
@pytest.mark.parametrize("feed", ["false", "true"])
def test_changed_and_deleted_rows_of_a_table_leave_what_the_table_holds(
    apart: Apart, feed: str
) -> None:
    story(apart.table, configuration={"delta.enableChangeDataFeed": feed})
    world = apart.world()
    world.backfill(DAYS)
    newest = {r["event_key"]: r for r in world.content("staging") if r["known_until"] is None}
    assert {k: (r["entity"], r["value"], r["event_ts"]) for k, r in newest.items()} == {
        r["id"]: (r["who"], r["n"], r["at"].replace(tzinfo=None)) for r in rows_in(apart.table)
    }
    by_day = Counter((str(r["arrival_date"]), r["op"]) for r in world.content("raw"))
    assert by_day == {
        ("2024-03-01", "upsert"): 3,
        ("2024-03-02", "upsert"): 1,
        ("2024-03-03", "delete"): 1,
        ("2024-03-03", "upsert"): 1,
        ("2024-03-04", "delete"): 1,
        ("2024-03-05", "delete"): 1,
        ("2024-03-05", "upsert"): 2,
    }, "rows of rewritten files that did not change are no deliveries"
    assert world.content("quarantine") == []


@everywhere
def test_a_late_commit_makes_days_stale_and_a_compaction_none(apart: Apart) -> None:
    deliver(table := apart.table)
    world = apart.world()
    world.backfill(DAYS)
    before = world.fingerprints()
    compacted(table, "2024-03-05 20:00")
    report = scan_all(world.open()[0])
    assert (report.new, report.is_clean, set.union(*world.states().values())) == (
        {},
        True,
        UP_TO_DATE,
    )
    assert [*read_again(world)] == [], "every commit was read before"
    append(table, "2024-03-01 22:00", ("late", "2024-03-02 10:00", "B", 50))
    assert list(scan_all(world.open()[0]).new.values()) == [(1, 0)]
    assert world.days_in("stale", "raw") == {date(2024, 3, 5)}, (
        "no commit is earlier than the one before it"
    )
    world.backfill(DAYS)
    changed = {
        d
        for d, entry in world.fingerprints()["staging"].items()
        if before["staging"].get(d) != entry
    }
    assert changed == {date(2024, 3, 2)}


def read_again(world: World) -> range:
    listing = look_at_landing(world.open()[0]).listing
    assert isinstance(listing, TableListing)
    return listing.read


@everywhere
def test_a_scan_that_was_killed_goes_on_and_a_lost_store_is_filled_again(apart: Apart) -> None:
    story(apart.table)
    world, whole = apart.world(), apart.world("whole")
    whole.backfill(DAYS)
    session = world.open()[0]
    for file in look_at_landing(session).comparison.fresh[:4]:
        ingest_into_lake(session, file)
    world.backfill(DAYS)
    assert world.contents() == whole.contents()
    stock = session.lake.stock
    changes = [r.sha256 for r in read_files(session.lake.store) if r.path.endswith("/changes")]
    stock.delete(
        next(
            name
            for name in stock.names()
            if name.startswith(changes[0]) and name.endswith(".parquet")
        )
    )
    assert [*read_again(world)] == [*range(5)], (
        "who wants the copy again must know where its rows lie"
    )
    stock.delete_below("")
    world.backfill(DAYS, force=True)
    assert world.contents() == whole.contents()


def test_a_mistyped_column_is_refused_and_a_column_that_came_later_is_null_before(
    tmp_path: Path,
) -> None:
    table = tmp_path / "orders"
    story(table)
    payload = 'payload = { who = "STRING", note = "STRING" }'
    select = "id AS event_key, at AS event_ts, who, note"
    wrong = world_of(tmp_path / "wrong", table, payload, select.replace("note", "nota AS note"))
    for world in (wrong, world_of(tmp_path / "lake", table, payload, select)):
        toml = world.root / "lake.toml"
        of_who = '[features]\nentity = ["who"]\ncolumns = [{ name = "c", agg = "count", days = 7 }]'
        rule = '[labels]\nlabel = "count_ahead() > 0"'
        text = toml.read_text().replace("[features]\nwindows_days = [1, 2]", of_who)
        toml.write_text(text.replace("[labels]\nhorizon_days = 1", f"{rule}\nhorizon_days = 1"))
    with pytest.raises(SettingsError, match=r"has no column nota.*Nothing was read.*note"):
        scan_all(wrong.open()[0])
    world.backfill(DAYS, "raw")
    found = {(r["event_key"], r["note"]) for r in world.content("raw")}
    assert {("a", None), ("c", "new"), ("c", "moved")} <= found
    assert world.content("quarantine") == []


def test_a_table_beside_files_has_ledgers_of_its_own(tmp_path: Path) -> None:
    table = of_others(tmp_path)
    root = tmp_path / "lake"
    root.mkdir()
    toml = settings_text(table).replace("[source]", "[sources.orders]")
    toml = toml.replace("[features]", '[features]\nsource = "orders"').replace(
        "[labels]", '[labels]\nsource = "clicks"'
    )
    clicks = (
        f'[sources.clicks]\nfiles = "landing/*.jsonl"\nformat = "jsonl"\nselect = """{CLICKS}"""\n'
    )
    (root / "lake.toml").write_text(toml + clicks + SHARED)
    world = World(root)
    click = {"id": "x", "at": "2024-03-02 10:00:00", "arrived": "2024-03-05 10:00:00", "who": "A"}
    land_bytes(world, "a.jsonl", f"{json.dumps(click)}\n".encode())
    world.backfill(DAYS)
    assert (len(world.content("raw_orders")), len(world.content("raw_clicks"))) == (7, 1)
    assert set.union(*world.states().values()) <= UP_TO_DATE
    assert len(world.content("training")) > 1
