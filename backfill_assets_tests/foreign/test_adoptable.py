"""Which tables of others a lake adopts, and which it refuses by name before it writes anything. A
table that is laid out by nothing is adopted with folders by its day: its files get second names, no
byte moves. Not here: tables that Spark wrote with features of its own
(`end_to_end/test_adopted_tables_of_spark.py`)."""

import os
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.engines.table_frames import read_frame
from backfill_assets.foreign.adoptable import (
    Adoption,
    adopted_contract,
    readers_of,
    refuse_other_store,
)
from backfill_assets.foreign.adopting import AdoptedTable, adopt_table
from backfill_assets.foreign.external import open_external
from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.states import State
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.testing import new_lake, rows_of
from backfill_assets.upkeep.inspection import inspect_table
from backfill_assets_tests.foreign.test_adopting import D1, D2, World, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = {
    "day": pa.array([D1, D2], pa.date32()),
    "id": ["a", "b"],
    "amount": pa.array([1, 2], pa.int64()),
}


def written(
    folder: Path, columns: dict[str, Any], by: list[str] | None = None, **more: Any
) -> Path:
    """A table of others, by day unless said otherwise."""
    write_deltalake(
        folder / "theirs",
        pa.table(columns),
        partition_by=["day"] if by is None else by or None,
        **more,
    )
    return folder / "theirs"


def refusal(
    folder: Path,
    place: Path,
    *,
    day: str = "day",
    key: tuple[str, ...] = ("id",),
    every: Calendar | None = None,
    **settings: Any,
) -> str:
    """The refusal to adopt a table; nothing was written then."""
    lake = new_lake(
        folder / "lake", D1, **{"assets_only": True, "access": {"readers": "everyone"}, **settings}
    )
    before = {p for p in place.rglob("*") if p.is_file()} if place.exists() else set()
    wanted = Adoption("orders", str(place), day, key, every=every)
    with pytest.raises(BackfillError) as caught:
        adopt_table(lake, wanted, chosen_pipeline(lake).contracts)
    assert before == ({p for p in place.rglob("*") if p.is_file()} if place.exists() else set())
    assert not lake.table_place("orders").local().exists()
    assert lake.place.names(".assets") == []
    return str(caught.value)


def constrained(folder: Path) -> Path:
    place = written(folder, PLAIN)
    DeltaTable(place).alter.add_constraint({"positive": "amount > 0"})
    return place


def of_a_lake(folder: Path) -> Path:
    place = written(folder, PLAIN)
    (place / "_delta_log" / ".head").write_text('{"version": 0, "sha256": ""}')
    return place


def without_a_file(folder: Path) -> Path:
    place = written(folder, PLAIN)
    next(place.glob("day=2024-01-02/*")).unlink()
    return place


MONTH = Calendar(Unit.MONTH)
FIRSTS = pa.array([date(2024, 1, 1), date(2024, 2, 1)], pa.date32())
LATER = utc_today() + timedelta(days=400)
REFUSED: dict[str, tuple[Callable[[Path], Path], dict[str, Any], str]] = {
    "no table": (lambda f: f / "nothing", {}, "no Delta table lies in"),
    "several days in a file": (
        lambda f: written(f, PLAIN, by=[]),
        {},
        "holds days from 2024-01-01 to 2024-01-02: a day can be replaced only",
    ),
    "no day in a file": (
        lambda f: written(f, {**PLAIN, "day": pa.array([D1, None], pa.date32())}, by=[]),
        {},
        "1 row(s) have no day",
    ),
    "a text as day, by nothing": (
        lambda f: written(f, {**PLAIN, "day": ["2024-01-01"] * 2}, by=[]),
        {},
        "no DATE, and no STRING that names",
    ),
    "by another column": (lambda f: written(f, PLAIN, by=["id"]), {}, "laid out by id"),
    "by two columns": (lambda f: written(f, PLAIN, by=["day", "id"]), {}, "laid out by day, id"),
    "a day that is no day": (
        lambda f: written(f, {**PLAIN, "day": ["2024-01-01", "other"]}),
        {},
        "'other', which is no day until next year",
    ),
    "a day written otherwise": (
        lambda f: written(f, {**PLAIN, "day": ["20240101", "20240102"]}),
        {},
        "is no day",
    ),
    "a month written as such": (
        lambda f: written(f, {**PLAIN, "day": ["2024-01", "2024-02"]}),
        {"every": MONTH},
        "with a DATE there, of a month its first day (and say --every month)",
    ),
    "first days of months, of which nobody says that they are days": (
        lambda f: written(f, {**PLAIN, "day": FIRSTS}),
        {},
        "each of its 2 days is the first of a month, and may stand for all of it. It was not "
        "adopted. Say --every month if it does, else --every day",
    ),
    "a day within a month": (
        lambda f: written(f, PLAIN),
        {"every": MONTH},
        "it has rows of 2024-01-02, which names no partition: every month",
    ),
    "a number as day": (
        lambda f: written(f, {**PLAIN, "day": pa.array([1, 2], pa.int64())}),
        {},
        "no DATE, and no STRING that names",
    ),
    "a far day": (
        lambda f: written(f, {**PLAIN, "day": pa.array([D1, LATER], pa.date32())}),
        {},
        "which is no day until",
    ),
    "no day": (
        lambda f: written(f, {**PLAIN, "day": pa.array([D1, None], pa.date32())}),
        {},
        "1 row(s) have no day",
    ),
    "no key": (
        lambda f: written(f, {**PLAIN, "id": ["a", None]}),
        {},
        "break what its key promises: 2024-01-02",
    ),
    "a repeated key": (
        lambda f: written(f, {**PLAIN, "day": pa.array([D1, D1], pa.date32()), "id": ["a", "a"]}),
        {},
        "1 day(s) break what its key promises: 2024-01-01",
    ),
    "an unknown key": (
        lambda f: written(f, PLAIN),
        {"key": ("number",)},
        "it has no column number",
    ),
    "a type of none": (
        lambda f: written(f, {**PLAIN, "weight": pa.array([1, 2], pa.float32())}),
        {},
        "no column of a lake has the type of weight",
    ),
    "a constraint": (
        constrained,
        {},
        "the table has a CHECK constraint (delta.constraints.positive)",
    ),
    "a file that is gone": (
        without_a_file,
        {},
        "1 file(s) that are gone, first day=2024-01-02/part-",
    ),
    "of a lake": (of_a_lake, {}, "a lake made it"),
    "appends only": (
        lambda f: written(f, PLAIN, configuration={"delta.appendOnly": "true"}),
        {},
        "no day can be replaced",
    ),
    "an input": (
        lambda f: written(f, PLAIN),
        {"tables": {"theirs": {"external": "../theirs", "day": "day"}}},
        "is a source or a table of this lake already",
    ),
    "more readers": (
        lambda f: written(f, PLAIN),
        {"access": {"readers": "owner"}},
        'Write readers = "everyone" below [access]',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_lake_cannot_keep_as_it_lies_is_refused_by_name(case: str, tmp_path: Path) -> None:
    make, more, words = REFUSED[case]
    place = make(tmp_path)
    if place.exists():
        place.chmod(0o755)
    assert words in refusal(tmp_path, place, **more)


@pytest.mark.parametrize(
    ("place", "lake", "fix"),
    [
        ("s3://bucket/raw/orders", "/lake", "--lake s3://bucket/raw/lake"),
        ("az://bucket/orders", "s3://bucket/lake", "--lake az://bucket/lake"),
        ("/orders", "s3://bucket/lake", "copy it to s3://"),
    ],
)
def test_a_table_that_the_lake_cannot_lead_to_is_refused(place: str, lake: str, fix: str) -> None:
    refuse_other_store(Adoption("orders", place, "day"), f"{place}/../another")
    with pytest.raises(
        BackfillError, match=f"{place} does not lie where the lake {lake} can lead to it.*{fix}"
    ):
        refuse_other_store(Adoption("orders", place, "day"), lake)


def test_a_name_that_the_lake_has_is_refused(tmp_path: Path) -> None:
    place, lake = written(tmp_path, PLAIN), new_lake(tmp_path / "lake", D1, assets_only=True)
    place.chmod(0o700)
    other = lake.table_place("orders").prepared("_delta_log").parent
    with pytest.raises(BackfillError, match=f"the lake has a table orders, in {other}"):
        adopt_table(lake, Adoption("orders", str(place), "day", ("id",)), ())


def test_its_contract_is_what_the_table_is(tmp_path: Path) -> None:
    place = written(
        tmp_path, {**PLAIN, "day": ["2024-01-01", "2024-01-02"]}, description="What was sold."
    )
    contract = adopted_contract(
        Adoption("shop__orders", str(place), "day", ("id",)),
        open_external("shop__orders", str(place)),
    )
    assert [(c.name, c.type, c.nullable) for c in contract.columns] == [
        ("day", "DATE", False),
        ("id", "STRING", False),
        ("amount", "BIGINT", True),
    ]
    assert (contract.description, contract.made_by, contract.key) == (
        "What was sold.",
        "shop/orders",
        ("id",),
    )


@pytest.mark.parametrize(
    ("mode", "umask", "readers"),
    [(0o700, 0o077, ""), (0o750, 0o077, "group"), (0o755, 0o027, "everyone"), (0o755, 0o022, "")],
)
def test_readers_of_the_folder_are_held_against_the_lakes(
    tmp_path: Path, mode: int, umask: int, readers: str
) -> None:
    tmp_path.chmod(mode)
    assert readers_of(tmp_path, umask) == readers


class Plain(World):
    """A table of others that nothing lays out: two files of one day, one of another with a column
    that came later."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        later = rows((D2, "b", 8)).append_column("note", pa.array(["new"]))
        write_deltalake(
            self.place,
            rows((D1, "a", 1)),
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=[],
        )
        write_deltalake(self.place, rows((D1, "b", 2)), mode="append")
        write_deltalake(self.place, later, mode="append", schema_mode="merge")

    def content(self, version: int | None = None) -> list[str]:
        return sorted(
            map(str, DeltaTable(self.place, version=version).to_pyarrow_table().to_pylist())
        )


@pytest.fixture
def world(tmp_path: Path) -> Plain:
    return Plain(tmp_path)


def test_files_get_second_names_and_readers_the_same_rows(world: Plain) -> None:
    before, files, version = world.content(), world.data(), DeltaTable(world.place).version()
    assert world.adopt() == AdoptedTable("orders", version + 1, (D1, D2), 3)
    after = world.data()
    assert {path: after[path] for path in files} == files
    assert {*map(os.path.samefile, *zip(*links(world), strict=True))} == {True}
    assert (world.content(), world.content(version)) == (before, before)
    assert [[r["id"] for r in rows_of(world.lake, "orders", d)] for d in (D1, D2)] == [
        ["a", "b"],
        ["b"],
    ]
    assert set(world.states().values()) == {State.FRESH}
    found = inspect_table(
        world.lake, chosen_pipeline(world.lake).contracts[0], read=True, deep=True
    )
    assert (found.files, found.rows, found.lost, found.foreign, found.day_rows) == (
        3,
        3,
        0,
        (),
        {D1: 2, D2: 1},
    )


def links(world: Plain) -> list[tuple[Path, Path]]:
    """Each second name with the first one."""
    return [
        (p, world.place / p.name)
        for p in world.place.glob("day=*/*.parquet")
        if (world.place / p.name).exists()
    ]


def test_an_engine_takes_the_day_of_files_that_hold_it_from_their_folders(
    world: Plain, spark: "SparkSession"
) -> None:
    version = world.adopt().version
    frame = read_frame(spark, world.lake, "orders", version, "day")
    assert sorted(map(tuple, frame.collect())) == [
        (D1, "a", 1, None),
        (D1, "b", 2, None),
        (D2, "b", 8, "new"),
    ]


def test_a_call_that_was_killed_between_names_and_commit_goes_on(world: Plain) -> None:
    first = next(world.place.glob("*.parquet"))
    for day in (D1, D2):
        (world.place / f"day={day}").mkdir(exist_ok=True)
        (world.place / f"day={day}" / first.name).write_bytes(b"half a copy")
    before = world.content()
    world.adopt()
    assert world.content() == before
