"""A mirror of an Iceberg table gives a source and an input the rows that pyiceberg reads at every
snapshot. Not here: the command (`test_mirror_command`), and columns alone
(`test_mirrored_columns`)."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

from backfill_assets.iceberg.mirror import UnreadableSnapshot, mirror_table
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.replayed_table import ObservedTable, ReplayedTable, counted

D1, D2 = date(2024, 3, 1), date(2024, 3, 2)
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("day", pa.date32()),
        ("v", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("parts", pa.list_(pa.string())),
    ]
)


def rows(*given: tuple[int, date | None, str]) -> pa.Table:
    columns = [{"id": number, "day": day, "v": text} for number, day, text in given]
    return pa.Table.from_pylist(columns, SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    found = SqlCatalog(
        "shop", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    found.create_namespace("shop")
    return found


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows((1, D1, "a"), (2, D2, "b"), (3, D1, "c")))
    return made


class Doors:
    """A mirror as a source and as an input of a lake."""

    def __init__(self, lake: Lake, table: Table, folder: Path) -> None:
        self.table, self.place = table, place_of_others(str(folder))
        mirror_table(table, self.place)
        self.source, self.input = (
            ReplayedTable(lake, str(folder)),
            ObservedTable(lake, str(folder), "day"),
        )

    def assert_same(self) -> None:
        """Both have the rows that pyiceberg reads now."""
        self.table.refresh()
        mirror_table(self.table, self.place)
        expected = counted(self.table.scan().to_arrow().to_pylist())
        assert self.source.read_on() == expected
        days = counted(r for r in self.table.scan().to_arrow().to_pylist() if r["day"])
        assert self.input.look() == days


def _widened(table: Table) -> None:
    with table.update_schema() as change:
        change.update_column("id", LongType())
    table.append(rows((9, D2, "wide")).cast(SCHEMA.set(0, pa.field("id", pa.int64()))))


def _partitioned(table: Table) -> None:
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform())
    table.append(rows((9, D2, "laid out"), (10, None, "without a day")))
    with table.update_spec() as change:
        change.add_field("v", IdentityTransform())
    table.append(rows((9, D2, "again")))


def _upserted(table: Table) -> None:
    table.upsert(rows((1, D1, "other"), (12, D2, "new")), join_cols=["id"])


def _column_added(table: Table) -> None:
    with table.update_schema() as change:
        change.add_column("note", StringType())
    table.append(rows((9, D2, "x")).append_column("note", pa.array(["n"])))


def _rolled_back(table: Table) -> None:
    first = table.metadata.snapshot_log[0].snapshot_id
    table.append(rows((9, D2, "gone")))
    table.manage_snapshots().rollback_to_snapshot(first).commit()


CHANGES: dict[str, Callable[[Table], Any]] = {
    "rows come": lambda table: table.append(rows((7, D2, "g"))),
    "a row is deleted": lambda table: table.delete("id == 2"),
    "a day is overwritten": lambda table: table.overwrite(
        rows((8, D1, "h")), "day == '2024-03-01'"
    ),
    "rows are upserted": _upserted,
    "a type is widened": _widened,
    "a column is added": _column_added,
    "files are laid out otherwise": _partitioned,
    "an earlier snapshot is the newest": _rolled_back,
}


@pytest.mark.parametrize("change", CHANGES)
def test_both_doors_have_the_rows_of_each_snapshot(
    lake: Lake, table: Table, tmp_path: Path, change: str
) -> None:
    doors = Doors(lake, table, tmp_path / "mirror")
    doors.assert_same()
    CHANGES[change](table)
    doors.assert_same()
    table.append(rows((20, D2, "z")).cast(table.schema().select(*SCHEMA.names).as_arrow()))
    doors.assert_same()
    assert doors.input.days == {D2}


def test_a_renamed_column_keeps_its_values_and_gives_its_name_away(
    lake: Lake, table: Table, tmp_path: Path
) -> None:
    place = place_of_others(str(tmp_path / "mirror"))
    mirror_table(table, place)
    with table.update_schema() as change:
        change.rename_column("v", "w")
    with table.update_schema() as change:
        change.add_column("v", StringType())
    mirror_table(table, place)
    found = ObservedTable(lake, str(tmp_path / "mirror"), "day").look()
    assert found == counted(table.scan().to_arrow().to_pylist())


def test_what_was_mirrored_is_not_read_again(table: Table, tmp_path: Path) -> None:
    place = place_of_others(str(tmp_path / "mirror"))
    table.append(rows((7, D2, "g")))
    first, again = mirror_table(table, place), mirror_table(table, place)
    assert (first.version, first.snapshots, first.files) == (1, 2, 2)
    assert (again.version, again.snapshots, again.files) == (1, 0, 0)


def newest_replaces_files(table: Table, *expired: int) -> None:
    """Let the newest snapshot say so, as engines do after they rewrote files, and others be gone."""
    *others, newest = table.metadata.snapshots
    held = [snapshot for snapshot in others if snapshot.snapshot_id not in expired]
    replacing = newest.model_copy(update={"summary": Summary(Operation.REPLACE)})
    table.metadata = table.metadata.model_copy(update={"snapshots": [*held, replacing]})


@pytest.mark.parametrize("is_expired", [False, True])
def test_replaced_files_change_nothing_unless_a_snapshot_before_them_is_gone(
    table: Table, tmp_path: Path, is_expired: bool
) -> None:
    place = place_of_others(str(tmp_path / "mirror"))
    mirror_table(table, place)
    table.append(rows((7, D2, "g")))
    between = table.metadata.snapshots[-1].snapshot_id
    table.append(rows((8, D2, "h")))
    newest_replaces_files(table, *([between] if is_expired else []))
    done = mirror_table(table, place)
    lines = map(json.loads, place.read(commit_name(done.version)).splitlines())
    changes = {line["add"]["dataChange"] for line in lines if "add" in line}
    assert changes == {is_expired}, "rows of the snapshot that is gone come with it"


def test_a_table_that_was_made_anew_is_refused(
    catalog: SqlCatalog, table: Table, tmp_path: Path
) -> None:
    place = place_of_others(str(tmp_path / "mirror"))
    mirror_table(table, place)
    catalog.drop_table("shop.orders")
    with pytest.raises(BackfillError, match=r"is no mirror of this table.*Name an empty folder"):
        mirror_table(catalog.create_table("shop.orders", SCHEMA), place)


def keep_newest_snapshot(table: Table) -> None:
    """Expire all others, and delete the files that only they have, as an owner's upkeep does."""
    others = [s.snapshot_id for s in table.metadata.snapshots[:-1]]
    table.maintenance.expire_snapshots().by_ids(others).commit()
    needed = {task.file.file_path for task in table.scan().plan_files()}
    folder = Path(table.location().removeprefix("file://"))
    for file in folder.rglob("*.parquet"):
        if f"file://{file}" not in needed:
            file.unlink()


def test_the_snapshot_that_was_read_last_may_expire_and_lose_its_files(
    lake: Lake, table: Table, tmp_path: Path
) -> None:
    doors = Doors(lake, table, tmp_path / "mirror")
    doors.assert_same()
    table.overwrite(rows((1, D1, "other"), (5, D2, "new")))
    table.append(rows((6, D2, "g")))
    keep_newest_snapshot(table)
    doors.assert_same()
    keep_newest_snapshot(table)
    doors.assert_same()


def delete_by_values(table: Table) -> int:
    """Commit a file that deletes rows by their values, as streaming engines write it; gives the
    snapshot."""
    (task, *_) = table.scan().plan_files()
    told: dict[str, Any] = {
        "content": DataFileContent.EQUALITY_DELETES,
        "file_path": f"{task.file.file_path}.deletes",
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": 1,
        "file_size_in_bytes": task.file.file_size_in_bytes,
        "equality_ids": [1],
    }
    deleting = DataFile.from_args(**told)
    deleting.spec_id = 0
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as change:
        change.append_data_file(deleting)
    return table.metadata.snapshots[-1].snapshot_id


def newest_has_files_of(table: Table, version: int) -> None:
    """Let the newest snapshot have the files of an earlier one, as after a rewrite of data files,
    which takes deletes in."""
    *others, newest = table.metadata.snapshots
    rewritten = newest.model_copy(update={"manifest_list": others[version].manifest_list})
    table.metadata = table.metadata.model_copy(update={"snapshots": [*others, rewritten]})


def test_equality_deletes_are_refused_and_a_later_snapshot_without_them_is_read(
    lake: Lake, table: Table, tmp_path: Path
) -> None:
    doors = Doors(lake, table, tmp_path / "mirror")
    table.append(rows((5, D2, "e")))
    unreadable = delete_by_values(table)
    refusal = rf"snapshot {unreadable} cannot be read \(.*equality deletes"
    with pytest.raises(UnreadableSnapshot, match=refusal):
        mirror_table(table, doors.place)
    assert DeltaTable(doors.place.uri()).version() == 1, "what comes before is mirrored"
    table.append(rows((7, D2, "later")))
    with pytest.raises(UnreadableSnapshot, match="equality deletes"):
        mirror_table(table, doors.place)
    newest_has_files_of(table, 0)
    done = mirror_table(table, doors.place)
    assert (done.version, done.passed_over) == (2, [unreadable])
    assert f"passed over {unreadable}, which cannot be read" in str(done)
    assert doors.source.read_on() == counted(table.scan().to_arrow().to_pylist())


def test_files_of_the_newest_snapshot_that_are_gone_are_named_and_nothing_is_lost(
    lake: Lake, table: Table, tmp_path: Path
) -> None:
    doors = Doors(lake, table, tmp_path / "mirror")
    table.append(rows((7, D2, "g")))
    (newest,) = {task.file.file_path for task in table.scan().plan_files()} - {
        task.file.file_path
        for task in table.scan(snapshot_id=table.metadata.snapshots[0].snapshot_id).plan_files()
    }
    file = Path(newest.removeprefix("file://"))
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(UnreadableSnapshot, match="cannot be read"):
        mirror_table(table, doors.place)
    assert DeltaTable(doors.place.uri()).version() == 0
    file.write_bytes(content)
    doors.assert_same()


def as_format_3(metadata: TableMetadata) -> TableMetadata:
    """The metadata as an upgrade to format v3 with row lineage leaves it."""
    told = json.loads(metadata.model_dump_json())
    lineage = {"first-row-id": 0, "added-rows": 3}
    snapshots = [snapshot | lineage for snapshot in told["snapshots"]]
    upgraded = told | {"format-version": 3, "next-row-id": 3, "snapshots": snapshots}
    return TableMetadataV3.model_validate(upgraded)


def test_a_table_of_format_3_with_row_lineage_is_mirrored(
    lake: Lake, table: Table, tmp_path: Path
) -> None:
    table.metadata = as_format_3(table.metadata)
    doors = Doors(lake, table, tmp_path / "mirror")
    assert doors.source.read_on() == counted(table.scan().to_arrow().to_pylist())
