"""A table that is laid out by nothing is adopted with folders by its day: its files get second names, no byte moves.
Not here: what is refused (`test_adoptable.py`), and what is done to an adopted table by Spark
(`end_to_end/test_adopted_tables_of_spark.py`)."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.core.states import State
from backfill_assets.lake.adopting import Adopted
from backfill_assets.lake.inspection import inspect
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.testing import rows_of
from backfill_assets_tests.lake.test_adopting import D1, D2, World, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Plain(World):
    """A table of others that nothing lays out: two files of one day, one of another with a column that came later."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        later = rows((D2, "b", 8)).append_column("note", pa.array(["new"]))
        write_deltalake(self.place, rows((D1, "a", 1)), mode="overwrite", schema_mode="overwrite", partition_by=[])
        write_deltalake(self.place, rows((D1, "b", 2)), mode="append")
        write_deltalake(self.place, later, mode="append", schema_mode="merge")

    def content(self, version: int | None = None) -> list[str]:
        return sorted(map(str, DeltaTable(self.place, version=version).to_pyarrow_table().to_pylist()))


@pytest.fixture
def world(tmp_path: Path) -> Plain:
    return Plain(tmp_path)


def test_files_get_second_names_and_readers_the_same_rows(world: Plain) -> None:
    before, files, version = world.content(), world.data(), DeltaTable(world.place).version()
    assert world.adopt() == Adopted("orders", version + 1, (D1, D2), 3)
    after = world.data()
    assert {path: after[path] for path in files} == files
    assert {*map(os.path.samefile, *zip(*links(world), strict=True))} == {True}
    assert (world.content(), world.content(version)) == (before, before)
    assert [[r["id"] for r in rows_of(world.lake, "orders", d)] for d in (D1, D2)] == [["a", "b"], ["b"]]
    assert set(world.states().values()) == {State.FRESH}
    found = inspect(world.lake, chosen_pipeline(world.lake).contracts[0], read=True, deep=True)
    assert (found.files, found.rows, found.lost, found.foreign, found.day_rows) == (3, 3, 0, (), {D1: 2, D2: 1})


def links(world: Plain) -> list[tuple[Path, Path]]:
    """Each second name with the first one."""
    return [(p, world.place / p.name) for p in world.place.glob("day=*/*.parquet") if (world.place / p.name).exists()]


def test_an_engine_takes_the_day_of_files_that_hold_it_from_their_folders(world: Plain, spark: "SparkSession") -> None:
    version = world.adopt().version
    frame = world.lake.store.frame(spark, "orders", version, "day")
    assert sorted(map(tuple, frame.collect())) == [(D1, "a", 1, None), (D1, "b", 2, None), (D2, "b", 8, "new")]


def test_a_call_that_was_killed_between_names_and_commit_goes_on(world: Plain) -> None:
    first = next(world.place.glob("*.parquet"))
    for day in (D1, D2):
        (world.place / f"day={day}").mkdir(exist_ok=True)
        (world.place / f"day={day}" / first.name).write_bytes(b"half a copy")
    before = world.content()
    world.adopt()
    assert world.content() == before
