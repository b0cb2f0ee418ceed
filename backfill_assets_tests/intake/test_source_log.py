"""The log of a Delta table that others write says what each commit brought, and what cannot be read
is refused by name. Not here: rows (`intake.test_table_changes`) and loads
(`end_to_end.test_table_sources`)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.log_reading import list_log, log_versions
from backfill_assets.intake.source_log import brought_contents
from backfill_assets.intake.stored_names import doubted_columns, earlier_names
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets_tests.delta_features import rename_columns
from backfill_assets_tests.tables import SCHEMA, append, brought, committed, settings_text

DAY, NEXT = "2024-03-01 20:00", "2024-03-02 20:00"
ROW = ("a", "2024-03-01 10:00", "A", 1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two commits."""
    append(tmp_path / "orders", DAY, ROW)
    append(tmp_path / "orders", NEXT, ("b", *ROW[1:]), ("c", *ROW[1:]))
    return tmp_path / "orders"


def rewritten(table: Path, change: Callable[[dict[str, Any]], None], version: int = 1) -> None:
    """Let every action of a commit go through `change`."""
    log = table / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def test_a_commit_that_takes_files_out_brings_one_content(table: Path) -> None:
    DeltaTable(str(table)).delete("id = 'b'")
    *_, change = brought(table)
    assert (change.name, len(change.removed), len(change.added)) == ("2/changes", 1, 1)


def test_a_content_has_another_name_in_another_table_and_in_a_rewritten_commit(table: Path) -> None:
    before = {f.name: f.sha256 for f in brought(table)}
    rewritten(table, lambda action: action.get("add", {}).update(stats="{}"))
    edited = {f.name: f.sha256 for f in brought(table)}
    assert [before[name] == edited[name] for name in before] == [True, False]
    rewritten(table, lambda action: action.get("metaData", {}).update(id="another"), version=0)
    assert not {*edited.values()} & {f.sha256 for f in brought(table)}


def test_no_commit_is_earlier_than_the_one_before_and_its_own_clock_comes_first(
    table: Path,
) -> None:
    committed(table, "2024-02-01 10:00")
    first, second = brought(table)
    assert second.mtime_ns == first.mtime_ns + 1_000_000
    rewritten(
        table,
        lambda action: action.get("commitInfo", {}).update(inCommitTimestamp=1_800_000_000_000),
    )
    assert brought(table)[1].mtime_ns == 1_800_000_000_000 * 1_000_000


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda a: a.get("add", {}).update(deletionVector={"storageType": "u"}),
            "has a deletion vector without a place",
        ),
        (
            lambda a: a.update(protocol={"readerFeatures": ["ofTomorrow"]}),
            "needs the feature ofTomorrow",
        ),
        (
            lambda a: a.get("commitInfo", {}).pop("timestamp", 0),
            "does not say when it was committed",
        ),
        (
            lambda a: a.get("add", {}).update(path="s3://bucket/x.parquet"),
            "names the file s3://bucket/x.parquet, which lies elsewhere",
        ),
        (
            lambda a: a.get("add", {}).update(partitionValues={"who": "A"}),
            "does not say of which partition",
        ),
    ],
)
def test_what_would_give_other_rows_than_the_table_has_is_refused_by_the_version(
    table: Path, change: Callable[[dict[str, Any]], None], told: str
) -> None:
    rewritten(table, change)
    with pytest.raises(
        LandingError, match=f"the Delta table .*orders: version 1 {told}.*Nothing of it was read"
    ):
        brought(table)


def test_a_partition_column_of_bytes_is_refused_by_its_name(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    bytes_as_who = SCHEMA.set(2, pa.field("who", pa.binary()))
    append(table, DAY, ("a", ROW[1], b"\xff", 1), schema=bytes_as_who, partition_by=["who"])
    told = (
        "the Delta table .*orders: version 0 has the partition column who of type BINARY.*Nothing "
        "of it was read"
    )
    with pytest.raises(LandingError, match=told):
        brought(table)


def test_a_table_may_begin_with_what_it_holds_at_a_version(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    for key, who in (("a", "w 0%"), ("b", None), ("c", "C")):
        append(table, DAY, (key, *ROW[1:2], who, 1), partition_by=["who"])
    DeltaTable(str(table)).delete("id = 'c'")
    append(table, NEXT, ("d", *ROW[1:]), partition_by=["who"])
    first, second, third = brought(table, 3)
    assert [{f.name.split("/")[0] for f in (first, second)}, third.name.split("/")[0]] == [
        {"3"},
        "4",
    ]
    assert all(f.is_readable for f in (first, second, third))
    assert {f.added[0].partition["who"] for f in (first, second)} == {"w 0%", None}


def test_a_commit_by_which_reading_begins_is_another_content_than_its_changes_alone(
    table: Path,
) -> None:
    rename_columns(table, {"id": "id_now"})
    (changes,) = (file for file in brought(table) if file.name == "1/changes")
    (all_of_it,) = brought(table, 1)
    assert all_of_it.name == "1/changes"
    assert [len(changes.added), len(all_of_it.added)] == [1, 2]
    assert changes.sha256 != all_of_it.sha256


def test_names_that_columns_had_are_forgotten_where_reading_begins(table: Path) -> None:
    rename_columns(table, {"id": "number"}, 0)
    rename_columns(table, {"id": "id_now"}, 1)
    log = list_log(place_of_others(str(table)))
    states = [brought_contents(log, log_versions(log), first)[1] for first in (0, 1)]
    assert [earlier_names(s.paths, s.schema) for s in states] == [{"number": "id_now"}, {}]


def test_a_column_that_was_gone_where_reading_began_and_came_back_is_doubted(table: Path) -> None:
    append(table, "2024-03-03 20:00", ROW)
    for version, without in enumerate(((), ("n",), ())):
        rename_columns(table, {}, version, without=without)
    log = list_log(place_of_others(str(table)))
    states = [brought_contents(log, range(3), first)[1] for first in (0, 1, 2)]
    doubted = [doubted_columns(state.paths, state.schema) for state in states]
    assert doubted == [frozenset(), {"n"}, frozenset()], "of a restored table, from version 1 on"


def test_the_files_of_a_commit_follow_one_another_and_what_was_held_before_comes_first(
    tmp_path: Path,
) -> None:
    table = tmp_path / "orders"
    for keys in ("ab", "cde", "f"):
        append(table, DAY, *((key, ROW[1], key, 1) for key in keys), partition_by=["who"])
    by_commit = [
        [f.rows_before for f in brought(table) if f.name.startswith(f"{v}/")] for v in range(3)
    ]
    assert by_commit == [[0, 1], [0, 1, 2], [0]]
    own = {f.name: f.rows_before for f in brought(table) if f.name.startswith("1/")}
    begun = {f.name: f.rows_before for f in brought(table, 1) if f.name.startswith("1/")}
    assert {name: begun[name] for name in own} == own, (
        "a content that was loaded before stays where it was"
    )
    assert sorted(before for name, before in begun.items() if name not in own) == [-2, -1]
    rewritten(table, lambda action: action.get("add", {}).update(stats=None))
    sizes = [f.size for f in brought(table) if f.name.startswith("1/")]
    assert [f.rows_before for f in brought(table) if f.name.startswith("1/")] == [
        0,
        sizes[0] * 8,
        sum(sizes[:2]) * 8,
    ], "without statistics a row takes a bit or more"
    rewritten(
        table,
        lambda action: action.get("add", {}).update(stats=json.dumps({"numRecords": 1 << 39})),
    )
    with pytest.raises(
        LandingError, match="version 1 has rows that no number of 63 bits can order"
    ):
        brought(table)


def test_a_commit_by_a_clock_far_ahead_counts_as_of_the_look_and_holds_no_later_one_up(
    table: Path,
) -> None:
    committed(table, "2099-01-01 10:00")
    append(table, "2024-03-03 20:00", ROW)
    log, look = list_log(place_of_others(str(table))), 1_795_000_000_000
    (first, ahead, last), state = brought_contents(log, log_versions(log), look=look)
    assert [f.mtime_ns // 1_000_000 for f in (ahead, last)] == [look, 1_709_496_000_000]
    assert [bool(f.committed_ms) for f in (first, ahead, last)] == [False, True, False]
    assert state.time == 1_709_496_000_000


def test_a_commit_knows_which_columns_the_table_had_before(table: Path) -> None:
    append(
        table,
        NEXT,
        ROW,
        schema=SCHEMA.set(2, SCHEMA.field(2).with_name("whom")),
        mode="overwrite",
        schema_mode="overwrite",
    )
    assert [sorted(f.lacking) for f in brought(table)] == [[], [], ["who"]]
    append(
        table,
        NEXT,
        ROW,
        schema=SCHEMA.set(2, SCHEMA.field(2).with_name("WHO")),
        mode="overwrite",
        schema_mode="overwrite",
    )
    assert sorted(brought(table)[-1].lacking) == ["whom"], "to SQL the other one is there"


def test_half_a_commit_and_a_lost_one_are_named(table: Path) -> None:
    append(table, "2024-03-03 20:00", ROW)
    log = table / "_delta_log" / f"{2:020d}.json"
    whole = log.read_text()
    log.write_text(whole[: len(whole) // 2])
    with pytest.raises(LandingError, match="version 2 is no JSON"):
        brought(table)
    log.write_text(whole)
    (table / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(LandingError, match="its log lacks version 1, which was not read yet"):
        log_versions(list_log(place_of_others(str(table))))


def test_a_log_without_its_first_commits_and_a_checkpoint_is_named(table: Path) -> None:
    (table / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(
        LandingError, match="version 1 cannot be opened, as by a lost commit before it"
    ):
        brought(table)
    with pytest.raises(LandingError, match="Nothing of it was read"):
        brought(table, 1)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            '"orders"',
            '"s3a://bucket/orders"',
            r"is no path, no s3://…, az://…, gs://… and no SCHEMA.TABLE",
        ),
        (
            '"orders"',
            '"unity:main.shop.orders"',
            r"is no path, no s3://…, az://…, gs://… and no SCHEMA.TABLE",
        ),
        (
            'table = "orders"',
            'table = "orders"\nfiles = "x/*.csv"\nformat = "csv"',
            "needs no files and no format",
        ),
        ('table = "orders"', 'files = "orders"\nformat = "delta"', 'named by table = "PATH"'),
        (
            'table = "orders"',
            'files = "x/*.csv"\nformat = "csv"\nfirst_version = 3',
            "first_version is of a table",
        ),
        (
            'table = "orders"',
            'table = "orders"\npayload = { Row_Seq = "BIGINT" }',
            "row_seq is a name of raw itself",
        ),
        (
            'table = "orders"',
            'table = "orders"\ndialect = { separator = ";" }',
            "dialect.separator",
        ),
    ],
)
def test_settings_that_name_no_table_are_refused(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    (tmp_path / "lake.toml").write_text(settings_text("orders").replace(old, new))
    with pytest.raises(SettingsError, match=told):
        load_settings(tmp_path)
