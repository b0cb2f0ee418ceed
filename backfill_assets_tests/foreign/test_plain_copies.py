"""Files of others with deleted rows or other names of columns are read by copies, which come with the
look that finds them and go a week after one that does not. Not here: how such a file is read
(`intake.test_plain_form`)."""

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from backfill_assets.foreign.observing import observe_table
from backfill_assets.foreign.plain_copies import COPIES, KEPT
from backfill_assets.intake.plain_form import SCATTERED
from backfill_assets.kernel.core.addresses import STATE_VARIABLE
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.testing import frozen_clock, new_lake, rows_of
from backfill_assets_tests.delta_features import (
    delete_by_vector,
    inline_vector,
    rename_columns,
    vector_in_file,
)
from backfill_assets_tests.tables import added_files

pytestmark = pytest.mark.usefixtures("storages")
D1, D2 = date(2024, 3, 1), date(2024, 3, 2)
ROWS = pa.table(
    {"day": pa.array([D1, D1, D2, D2], pa.date32()), "who": [*"abcd"], "n": [1, 2, 3, 4]}
)
NOON = 1_709_400_000_000


class Watched:
    """A table of others, and a lake that looks at it."""

    def __init__(self, folder: Path, by: list[str], address: str = "") -> None:
        self.table, self.address = folder / "orders", address or str(folder / "orders")
        write_deltalake(self.address, ROWS, partition_by=by or None)
        of = {"external": address or "../orders", "day": "day"}
        self.lake: Lake = new_lake(folder / "lake", D1, assets_only=True, tables={"orders": of})

    def look(self) -> list[date]:
        """The days that a look finds to be changed."""
        contracts = chosen_pipeline(self.lake).contracts
        return [*observe_table(self.lake, contracts, contracts[0]).days]

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """What readers of the lake see."""
        found = [row for day in (D1, D2) for row in rows_of(self.lake, "orders", day)]
        return sorted(tuple(row[c] for c in columns) for row in found)

    def copies(self) -> list[str]:
        return self.lake.table_place("orders").below(COPIES)

    def file_of(self, day: date) -> dict[str, Any]:
        """The action that added the file with the rows of a day."""
        added = added_files(self.address)
        return next((a for a in added if str(day) in a["path"]), added[0])


@pytest.fixture(params=[["day"], []], ids=["by the day", "not laid out"])
def watched(tmp_path: Path, request: pytest.FixtureRequest) -> Watched:
    made = Watched(tmp_path, request.param)
    assert made.look() == [D1, D2]
    return made


def test_a_vector_changes_the_days_whose_rows_it_takes_away_or_gives_back(watched: Watched) -> None:
    plain = watched.file_of(D1)
    first = delete_by_vector(watched.table, plain, vector_in_file(watched.table, {1}), 1, NOON)
    assert watched.look() == [D1]
    assert watched.rows("day", "who") == [(D1, "a"), (D2, "c"), (D2, "d")]
    assert len(watched.copies()) == 1
    second = delete_by_vector(watched.table, first, inline_vector({0, 1}), 2, NOON)
    assert watched.look() == [D1]
    assert watched.rows("day", "who") == [(D2, "c"), (D2, "d")]
    delete_by_vector(watched.table, second, first["deletionVector"], 3, NOON)
    assert watched.look() == [D1]
    assert watched.rows("day", "who") == [(D1, "a"), (D2, "c"), (D2, "d")]
    assert len(watched.copies()) == 2, "the first one, again, and one that runs may still read"


def test_a_table_in_a_bucket_has_its_copies_in_the_lake(
    tmp_path: Path, bucket_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    watched = Watched(tmp_path, ["day"], f"{bucket_address}/raw/orders")
    assert watched.look() == [D1, D2]
    delete_by_vector(watched.address, watched.file_of(D1), inline_vector({1}), 1, NOON)
    assert watched.look() == [D1]
    assert watched.rows("who") == [("a",), ("c",), ("d",)]
    assert len(watched.copies()) == 1


def test_a_copy_goes_a_week_after_the_look_that_took_it_out(watched: Watched) -> None:
    first = delete_by_vector(watched.table, watched.file_of(D1), inline_vector({0}), 1, NOON)
    watched.look()
    second = delete_by_vector(watched.table, first, inline_vector({0, 1}), 2, NOON)
    watched.look()
    assert len(watched.copies()) == 2
    delete_by_vector(watched.table, second, inline_vector({1}), 3, NOON)
    with frozen_clock(utc_now() + KEPT + timedelta(hours=1)):
        watched.look()
    assert len(watched.copies()) == 2, "what this look took out, and what it put there"
    assert watched.rows("who") == [("a",), ("c",), ("d",)]


def test_a_renamed_column_changes_every_day_and_is_read_by_its_name(watched: Watched) -> None:
    log = watched.table / commit_name(1)
    log.write_text(json.dumps({"commitInfo": {"timestamp": NOON}}) + "\n")
    rename_columns(watched.table, {"n": "amount"}, 1)
    assert watched.look() == [D1, D2]
    assert watched.rows("who", "amount") == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert watched.look() == []


def test_a_table_by_the_day_whose_files_lie_in_folders_of_any_name_is_read(tmp_path: Path) -> None:
    watched = Watched(tmp_path, ["day"])
    log = watched.table / commit_name(0)
    text = log.read_text()
    for action in added_files(watched.address):
        (watched.table / "aB").mkdir(exist_ok=True)
        (watched.table / action["path"]).rename(watched.table / "aB" / Path(action["path"]).name)
        text = text.replace(action["path"], f"aB/{Path(action['path']).name}")
    log.write_text(text.replace('"configuration":{}', f'"configuration":{{"{SCATTERED}":"true"}}'))
    assert watched.look() == [D1, D2]
    assert watched.rows("day", "who") == [(D1, "a"), (D1, "b"), (D2, "c"), (D2, "d")]
    assert watched.look() == []
    moved = next(a for a in added_files(watched.address) if a["partitionValues"]["day"] == str(D1))
    delete_by_vector(watched.table, moved, inline_vector({1}), 1, NOON)
    assert watched.look() == [D1]
    assert watched.rows("who") == [("a",), ("c",), ("d",)]


def test_a_vector_that_is_gone_is_refused_by_name(watched: Watched) -> None:
    vector = vector_in_file(watched.table, {1})
    delete_by_vector(watched.table, watched.file_of(D1), vector, 1, NOON)
    (lost,) = watched.table.glob("*.bin")
    lost.unlink()
    with pytest.raises(
        BackfillError, match="external table orders: a deletion vector of it cannot"
    ):
        watched.look()


def test_a_file_that_is_gone_is_refused_before_a_copy_is_made_of_it(watched: Watched) -> None:
    plain = watched.file_of(D1)
    delete_by_vector(watched.table, plain, inline_vector({1}), 1, NOON)
    (watched.table / plain["path"]).unlink()
    with pytest.raises(BackfillError, match=r"external table orders: its file .* is gone"):
        watched.look()
    assert watched.copies() == []


def test_a_column_called_as_the_number_of_a_row_is_refused_where_rows_of_its_file_are_deleted(
    watched: Watched, tmp_path: Path
) -> None:
    named = watched.table
    write_deltalake(
        str(named),
        ROWS.rename_columns(["day", "who", "File_Row_Number"]),
        mode="overwrite",
        schema_mode="overwrite",
    )
    watched.look()
    assert watched.rows("who", "File_Row_Number")[0] == ("a", 1)
    added = next(a for a in added_files(named, 1) if "add" not in a)
    delete_by_vector(named, added, inline_vector({0}), 2, NOON)
    with pytest.raises(BackfillError, match=r"the column File_Row_Number, .*rename the column"):
        watched.look()
