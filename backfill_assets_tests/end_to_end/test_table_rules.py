"""A table that others change in any way, as a source: the lake holds what the table holds, now and
as of each commit.

Tested here: random histories of real commits, many keys at once, against the table's own rows. Not
tested here: the transform by itself (`pipeline.transforms.test_table_versions`), and a table's
vacuum (`test_table_history`).
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.scan import scan_all, withdraw_disputed
from backfill_assets.intake.too_late import release_late_rows
from backfill_assets.kernel.core.days import DayRange
from backfill_assets_tests.end_to_end.test_table_sources import DAYS, world_of
from backfill_assets_tests.end_to_end.worlds import World
from backfill_assets_tests.tables import SELECT, append, committed

pytestmark = pytest.mark.usefixtures("spark")
CLOCKS = {"version_ts": "v", "arrival_ts": "r", "seq": "s"}
UTC_MICROS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("at", UTC_MICROS),
        ("who", pa.string()),
        ("n", pa.int64()),
        ("v", UTC_MICROS),
        ("r", UTC_MICROS),
        ("s", pa.int64()),
        ("note", pa.int64()),
    ]
)
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
KEYS, COMMITS = 40, 9
Row = tuple[Any, ...]


def some(random: Random, keys: int = KEYS) -> pa.Table:
    """Rows of some keys, whose own clocks are equal, or behind, more often than not; some keys have
    several."""
    chosen = [f"k{random.randrange(keys):03}" for _ in range(random.randint(1, keys))]
    rows = [
        (
            key,
            NOON,
            random.choice("AB"),
            random.randint(0, 3),
            NOON + timedelta(hours=random.randint(0, 3)),
            NOON + timedelta(hours=random.randint(0, 2)),
            random.randint(0, 2),
            random.randint(0, 1),
        )
        for key in chosen
    ]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def half(random: Random) -> str:
    """A predicate for some keys, perhaps for some of their rows."""
    keys = ", ".join(f"'k{n:03}'" for n in random.sample(range(KEYS), KEYS // 3))
    return f"id IN ({keys})" + random.choice(("", " AND n < 2", " AND note = 0"))


def appended(table: str, random: Random) -> None:
    """New rows, which may be repeats."""
    write_deltalake(table, some(random), mode="append")


def repeated(table: str, random: Random) -> None:
    """The rows that are there, once more."""
    write_deltalake(table, DeltaTable(table).to_pyarrow_table(), mode="append")


def updated(table: str, random: Random) -> None:
    """UPDATE of a value, or of clocks alone, which may go back."""
    what = random.choice(
        ({"n": "n + 1"}, {"s": "0"}, {"v": "r"}, {"n": "3 - n", "r": "v"}, {"note": "1 - note"})
    )
    DeltaTable(table).update(what, predicate=half(random))


def deleted(table: str, random: Random) -> None:
    """DELETE of some rows of some keys."""
    DeltaTable(table).delete(half(random))


def replaced(table: str, random: Random) -> None:
    """DELETE of some keys; the next commits may put rows of these there again."""
    DeltaTable(table).delete(half(random))
    write_deltalake(table, some(random), mode="append")


def merged(table: str, random: Random) -> None:
    """MERGE by key, of one row each."""
    new = some(random).to_pandas().drop_duplicates("id")
    source = pa.Table.from_pandas(new, SCHEMA, preserve_index=False)
    merge = DeltaTable(table).merge(source, "s.id = t.id", "s", "t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def distinct(table: str, random: Random) -> None:
    """Overwrite with each row once."""
    rows = DeltaTable(table).to_pyarrow_table()
    write_deltalake(
        table, rows.group_by(SCHEMA.names).aggregate([]).select(SCHEMA.names), mode="overwrite"
    )


def restored(table: str, random: Random) -> None:
    """RESTORE of an earlier version."""
    if version := DeltaTable(table).version():
        DeltaTable(table).restore(random.randrange(version))


def compacted(table: str, random: Random) -> None:
    """OPTIMIZE."""
    DeltaTable(table).optimize.compact()


DEEDS: Sequence[Callable[[str, Random], None]] = (
    appended,
    appended,
    repeated,
    updated,
    updated,
    deleted,
    replaced,
    merged,
    distinct,
    restored,
    compacted,
)


def added_rows(table: str, version: int) -> list[Row]:
    """The rows that a commit put into the files it added, or into its change feed, in the order of
    the log."""
    text = (Path(table) / "_delta_log" / f"{version:020}.json").read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    kind = "cdc" if any("cdc" in action for action in actions) else "add"
    files = (
        pq.read_table(Path(table) / action[kind]["path"]) for action in actions if kind in action
    )
    rows = (row for rows in files for row in rows.to_pylist())
    came = (
        row for row in rows if row.get("_change_type", "insert") in ("insert", "update_postimage")
    )
    return [tuple(row[name] for name in SCHEMA.names) for row in came]


class Kept:
    """The table's own rows by what `select` reads of them, each with when it came by the log."""

    def __init__(self, given: Sequence[str]) -> None:
        self.names = ("id", "who", "n", *(CLOCKS[name] for name in CLOCKS if name in given))
        self.rows, self.places = Counter[Row](), dict[Row, list[tuple[int, int]]]()

    def read(self, row: Row) -> Row:
        """What `select` reads of a row."""
        return tuple(row[SCHEMA.names.index(name)] for name in self.names)

    def follow(self, table: str, version: int) -> None:
        """Take a commit over: of rows that are alike to `select` the one that came first goes
        first."""
        now = Counter(
            tuple(r.values())
            for r in DeltaTable(table, version=version).to_pyarrow_table().to_pylist()
        )
        came = now - self.rows
        for row in (self.rows - now).elements():
            self.places[self.read(row)].pop(0)
        for place, row in reversed([*enumerate(added_rows(table, version))]):
            if came[row] > 0:
                came[row] -= 1
                self.places.setdefault(self.read(row), []).append((version, place))
        for places in self.places.values():
            places.sort()
        self.rows = now

    def current(self) -> dict[str, tuple[str, int]]:
        """Of each key the row that counts: by the clocks that `select` gives, then by the log."""
        ranked = sorted(
            (*row[3:], places[-1], row) for row, places in self.places.items() if places
        )
        return {row[0]: (row[1], row[2]) for *_, row in ranked}


def history(
    folder: Path, seed: int, given: Sequence[str]
) -> tuple[World, dict[int, dict[str, tuple[str, int]]]]:
    """A lake over a table of many commits; and by version what the lake must hold of it."""
    random, table, kept = Random(seed), str(folder / "orders"), Kept(given)
    feed = {"delta.enableChangeDataFeed": random.choice(("true", "false"))}
    write_deltalake(table, some(random), configuration=feed)
    wanted, followed = {}, 0
    for number in range(COMMITS):
        if number:
            random.choice(DEEDS)(table, random)
        for version in range(followed, DeltaTable(table).version() + 1):
            committed_as(table, version)
            kept.follow(table, version)
            wanted[version] = kept.current()
        followed = DeltaTable(table).version() + 1
    more = "".join(f", {CLOCKS[name]} AS {name}" for name in given)
    return world_of(folder / "lake", table, select=SELECT + more), wanted


def time_of(version: int) -> datetime:
    """When a commit was made: some on each day."""
    return NOON + timedelta(hours=4 + 4 * version)


def committed_as(table: str, version: int) -> None:
    """Let the newest commit, which is of this version or later, say its time."""
    newest = DeltaTable(table).version()
    for earlier in range(version, newest + 1):
        committed(table, time_of(earlier).strftime("%Y-%m-%d %H:%M"), last=newest - earlier + 1)


def held(world: World, at: datetime | None = None) -> dict[str, tuple[str, int]]:
    """By key what the lake holds now, or what was known then."""
    found = dict[str, tuple[str, int]]()
    for row in world.content("staging"):
        since, until = row["known_from"], row["known_until"]
        plain = None if at is None else at.replace(tzinfo=None)
        if until is None if plain is None else since <= plain and (until is None or plain < until):
            assert row["event_key"] not in found
            found[row["event_key"]] = (row["entity"], row["value"])
    return found


@pytest.mark.parametrize(
    "given", [(), ("version_ts",), ("arrival_ts",), ("version_ts", "arrival_ts", "seq")]
)
@pytest.mark.parametrize("seed", range(1))
def test_the_lake_holds_what_the_table_holds_now_and_as_of_each_commit(
    tmp_path: Path, seed: int, given: Sequence[str]
) -> None:
    world, wanted = history(tmp_path, seed, given)
    last = max(wanted)
    days = DayRange(date(2024, 3, 1), time_of(last).date() + timedelta(days=2))
    world.backfill(days, "raw")
    world.backfill(days, "staging")
    assert held(world) == wanted[last]
    if "arrival_ts" not in given:
        for version, rows in wanted.items():
            assert held(world, time_of(version)) == rows, f"as of version {version}"
    assert world.content("quarantine") == []


def test_a_column_that_the_table_lost_is_refused_and_a_version_to_begin_with_leads_out(
    tmp_path: Path,
) -> None:
    table = tmp_path / "orders"
    append(
        table,
        "2024-03-01 20:00",
        ("a", "2024-03-01 10:00", "A", 1),
        ("b", "2024-03-01 10:00", "B", 2),
    )
    world = world_of(tmp_path / "lake", table)
    world.backfill(DAYS)
    before = world.contents()
    renamed = DeltaTable(str(table)).to_pyarrow_table().rename_columns(["id", "at", "whom", "n"])
    write_deltalake(str(table), renamed, mode="overwrite", schema_mode="overwrite")
    committed(table, "2024-03-02 20:00")
    with pytest.raises(
        LandingError, match=r"version 1 has no column who any more.*first_version = 1 beside table"
    ):
        scan_all(world.open()[0])
    assert world.contents() == before
    mended = world_of(
        tmp_path / "lake", table, "first_version = 1", SELECT.replace("who AS", "whom AS")
    )
    withdraw_disputed(mended.open()[0], "as the owner named it")
    mended.backfill(DAYS)
    assert held(mended) == {"a": ("A", 1), "b": ("B", 2)}


def test_a_commit_by_a_clock_far_ahead_is_told_and_holds_no_later_one_up(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    for key, at in (
        ("a", "2024-03-01 20:00"),
        ("b", "2099-01-01 20:00"),
        ("c", "2024-03-02 20:00"),
    ):
        append(table, at, (key, "2024-03-01 10:00", "A", 1))
    world = world_of(tmp_path / "lake", table)
    report = scan_all(world.open()[0])
    assert [name.partition("/")[0] for name in report.ahead] == ["1"]
    assert scan_all(world.open()[0]).ahead == {}, "it is told once"
    world.backfill(DAYS)
    assert held(world) == {"a": ("A", 1), "c": ("A", 1)}
    DeltaTable(str(table)).update({"n": "2"}, predicate="id = 'b'")
    committed(table, "2024-03-03 20:00")
    world.backfill(DAYS)
    assert held(world) == {"a": ("A", 1), "b": ("A", 2), "c": ("A", 1)}


def test_an_update_that_comes_too_late_leaves_the_row_that_it_replaced_until_it_is_released(
    tmp_path: Path,
) -> None:
    table = tmp_path / "orders"
    append(
        table,
        "2024-03-01 20:00",
        ("a", "2024-03-01 10:00", "A", 1),
        ("b", "2024-03-01 10:00", "B", 2),
    )
    DeltaTable(str(table)).update({"n": "7"}, predicate="id = 'a'")
    committed(table, "2024-03-04 20:00")
    DeltaTable(str(table)).delete("id = 'b'")
    committed(table, "2024-03-05 10:00")
    world = world_of(tmp_path / "lake", table)
    path = tmp_path / "lake" / "lake.toml"
    path.write_text(path.read_text() + '[lateness]\nbeyond = "quarantine"\nwindow_days = 1\n')
    world.backfill(DAYS)
    assert held(world) == {"a": ("A", 1)}, "a row that is gone is never too late"
    release_late_rows(world.open()[0], DAYS, "they count")
    world.backfill(DAYS)
    assert held(world) == {"a": ("A", 7)}
