"""A table against its ledger: what vacuum took, commits that are gone, and the days of rows without
a time. Its contents are in the content store: a link to an appended file, and of a change the rows
that it changed. Not here: what commits bring (`intake.test_source_log`), scans and loads
(`end_to_end.test_table_sources`)."""

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.ledger import FileRecord, RowCounts
from backfill_assets.intake.source_log import TableFile, TableListing, known_content
from backfill_assets.intake.source_position import Position, TableState
from backfill_assets.intake.table_changes import (
    first_home_day,
    future_commits,
    note_read,
    reading_position,
    refuse_altered_columns,
    refuse_unknown_columns,
    take_in_content,
    with_recorded_contents,
)
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place.choice import place_at, place_of_others
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets_tests.delta_features import (
    delete_by_vector,
    inline_vector,
    rename_columns,
    retype_column,
)
from backfill_assets_tests.tables import added_files, append, brought, settings_text

NOON = datetime(2024, 3, 2, 12, tzinfo=UTC)
DAY = NOON.date()


def record(name: str = "3/part") -> FileRecord:
    nanoseconds = int(NOON.timestamp()) * 10**9
    return FileRecord(name, name * 8, 9, nanoseconds, NOON, DAY, {DAY: RowCounts(1, 0, 1)})


def listing(commits: range, *files: TableFile) -> TableListing:
    return TableListing(
        files, commits=commits, read=commits, position=Position(commits[-1], "", 0, TableState("t"))
    )


def test_a_version_that_was_recorded_stays_listed_when_its_commit_is_cleaned_away(
    tmp_path: Path,
) -> None:
    found = with_recorded_contents(
        listing(range(4, 6)), Folder(str(tmp_path)), [record()], Folder(str(tmp_path))
    )
    assert [(f.name, f.sha256) for f in found.files] == [("3/part", record().sha256)]
    with pytest.raises(LandingError, match="lacks version 4, which was not read yet"):
        with_recorded_contents(
            listing(range(5, 6)), Folder(str(tmp_path)), [record()], Folder(str(tmp_path))
        )


def test_no_commit_is_earlier_than_recorded_ones_that_the_log_no_longer_has(tmp_path: Path) -> None:
    stock, known, early = Folder(str(tmp_path)), record(), record().mtime_ns - 10**9
    again, later = (known_content(stock, name, 9, early, name * 8) for name in ("3/part", "4/part"))
    for left in (listing(range(3, 5), again, later), listing(range(4, 5), later)):
        found = with_recorded_contents(left, stock, [known], stock)
        assert {f.name: f.mtime_ns - known.mtime_ns for f in found.files} == {
            "3/part": 0,
            "4/part": 10**6,
        }
        assert found.position is not None
        assert found.position.state.time == known.mtime_ns // 10**6 + 1, (
            "commits after the next look are later still"
        )


def test_versions_that_brought_nothing_were_read_as_well(tmp_path: Path) -> None:
    note_read(listing(range(5)), [record()], Folder(str(tmp_path)), is_scanned=True)
    found = with_recorded_contents(
        listing(range(5, 6)), Folder(str(tmp_path)), [record()], Folder(str(tmp_path))
    )
    assert found.commits == range(5, 6)
    assert reading_position(Folder(str(tmp_path)), [record()]) is None, (
        "the ledger has what the table has not"
    )


def test_a_position_is_believed_while_the_ledger_is_as_it_was(tmp_path: Path) -> None:
    known, stock = record(), Folder(str(tmp_path))
    file = known_content(stock, known.path, known.size, known.mtime_ns, known.sha256)
    note_read(listing(range(5), file), [known], stock)
    assert reading_position(stock, [known, record("9/later")]) == listing(range(5)).position
    assert reading_position(stock, [replace(known, withdrawn=True)]) is None
    changes = record("4/changes")
    note_read(
        listing(range(5), *(replace(file, name=r.path, sha256=r.sha256) for r in (known, changes))),
        [known, changes],
        stock,
    )
    assert reading_position(stock, [known, changes]) is None, (
        "the store lost a copy, which is made from the table again"
    )


def test_rows_without_a_time_belong_to_the_day_of_their_commit_and_of_a_file_to_the_first(
    tmp_path: Path,
) -> None:
    (tmp_path / "lake.toml").write_text(settings_text("orders"))
    settings = load_settings(tmp_path)
    assert first_home_day(record(), settings) == DAY
    early = replace(record(), mtime_ns=0)
    assert first_home_day(early, settings) == settings.start_date
    files = settings.source.model_copy(update={"table": None})
    assert (
        first_home_day(record(), settings.model_copy(update={"single": files}))
        == settings.start_date
    )


COMMITTED = "2024-03-01 20:00"
ODD = {
    "x": [float("nan"), -0.5, None],
    "d": pa.array([None, "1.10", "2.20"]).cast(pa.decimal128(9, 2)),
    "tags": [["a", None], [], None],
    "part": [{"n": 1}, {"n": None}, None],
    "raw": [b"\x00\xff", b"", None],
    "day": pa.array([0, 1, None], pa.date32()),
    "local": pa.array([0, 1, None], pa.timestamp("us")),
    "id": ["a", "b", "c"],
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "lake.toml").write_text(settings_text(tmp_path / "orders"))
    return open_lake(tmp_path / "lake")


@pytest.mark.slow
@pytest.mark.parametrize("is_local", [True, False])
def test_an_appended_object_of_any_name_is_fetched_once(
    tmp_path: Path, bucket_address: str, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    table, who = f"{bucket_address.rpartition('/')[0]}/raw/orders", "Ü b%/+=?#"
    append(table, COMMITTED, ("a", "2024-03-01 10:00", who, 1), partition_by=["who"])
    place_at(local_root(bucket_address)).write("lake.toml", settings_text("../raw/orders").encode())
    far, (file,) = open_lake(local_root(bucket_address)), brought(table)
    stored = take_in_content(far, file, is_local)
    assert (stored.rows, dict(stored.partition)) == (1, {"who": ("string", who)})
    place_of_others(table).delete_below("")
    again = take_in_content(far, file, is_local)
    assert (again.sha256, again.name, again.is_local) == (stored.sha256, stored.name, is_local)
    assert len(pq.read_table(again.parquet)) == 1
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "another machine"))
    seen = place_at(local_root(bucket_address)).at(far.stock.name).names()
    assert (stored.name in seen) == (not is_local), (
        "only another machine's engine needs it in the lake"
    )


def newest(lake: Lake) -> list[dict[str, Any]]:
    """The rows of the newest content, once it is in the store."""
    *_, last = brought(lake.root.parent / "orders")
    stored = take_in_content(lake, last)
    found: list[dict[str, Any]] = pq.read_table(stored.parquet).to_pylist()
    assert len(found) == stored.rows
    return found


def test_an_appended_file_is_a_link_and_is_decoded_once(lake: Lake, tmp_path: Path) -> None:
    append(tmp_path / "orders", COMMITTED, ("a", "2024-03-01 10:00", "A", 1), partition_by=["who"])
    (file,) = brought(tmp_path / "orders")
    stored = take_in_content(lake, file)
    assert (stored.parquet.resolve(), stored.rows) == (file.added[0].path, 1)
    assert dict(stored.partition) == {"who": ("string", "A")}
    before = stored.parquet.lstat()
    assert [*take_in_content(lake, file).partition["who"]] == ["string", "A"]
    assert stored.parquet.lstat() == before
    file.added[0].path.write_bytes(b"PAR1 torn")
    again = take_in_content(lake, file)
    assert (again.rows, again.bad_rows, "parquet" in (again.refused or "")) == (1, 1, True)
    file.added[0].path.unlink()
    stored.parquet.unlink()
    with pytest.raises(FileNotFoundError):
        take_in_content(lake, file)


def test_a_rewritten_file_brings_the_rows_that_differ_of_any_type(
    lake: Lake, tmp_path: Path
) -> None:
    table = tmp_path / "orders"
    write_deltalake(str(table), pa.table({**ODD, "n": [1, 1, 1]}))
    write_deltalake(str(table), pa.table({**ODD, "n": [1, 1, 2]}), mode="overwrite")
    was, came = newest(lake)
    assert (was["_change_type"], was["n"], came["_change_type"], came["n"]) == (
        "delete",
        1,
        "insert",
        2,
    )
    assert {k: v for k, v in was.items() if k not in ("_change_type", "n")} == {
        k: pa.table(ODD).to_pylist()[2].get(k) for k in ODD
    }
    (stored,) = [take_in_content(lake, f) for f in brought(table) if f.name == "1/changes"]
    kinds = {f.name: f.type for f in pq.read_schema(stored.parquet)}
    assert {name: kinds[name] for name in ("d", "day", "local", "raw")} == {
        "d": pa.decimal128(9, 2),
        "day": pa.date32(),
        "local": pa.timestamp("us"),
        "raw": pa.binary(),
    }


def test_equal_rows_count_as_often_as_they_are_there(lake: Lake, tmp_path: Path) -> None:
    row = ("a", "2024-03-01 10:00", "A", 1)
    append(tmp_path / "orders", COMMITTED, row, row, row, partition_by=["who"])
    append(tmp_path / "orders", COMMITTED, row, ("b", *row[1:2], None, 2), mode="overwrite")
    assert [(r["_change_type"], r["id"], r["who"]) for r in newest(lake)] == [
        ("delete", "a", "A"),
        ("delete", "a", "A"),
        ("insert", "b", None),
    ]


def test_a_replaced_schema_keeps_the_keys_of_the_rows_that_went(lake: Lake, tmp_path: Path) -> None:
    table = tmp_path / "orders"
    append(table, COMMITTED, ("a", "2024-03-01 10:00", "A", 1))
    other = pa.table({"key": ["a"], "n": ["1"]})
    write_deltalake(str(table), other, mode="overwrite", schema_mode="overwrite")
    assert [(r["id"], r["key"], r["n"]) for r in newest(lake)] == [
        ("a", None, "1"),
        (None, "a", "1"),
    ]


def test_a_change_feed_says_what_changed(lake: Lake, tmp_path: Path) -> None:
    rows = [(key, "2024-03-01 10:00", "A", 1) for key in "abc"]
    append(
        tmp_path / "orders", COMMITTED, *rows, configuration={"delta.enableChangeDataFeed": "true"}
    )
    DeltaTable(str(tmp_path / "orders")).update({"n": "n + 1"}, predicate="id = 'b'")
    *_, last = brought(tmp_path / "orders")
    assert last.feed
    assert [(r["_change_type"], r["id"], r["n"]) for r in newest(lake)] == [
        ("delete", "b", 1),
        ("insert", "b", 2),
    ]


def test_changed_rows_stand_in_the_order_of_the_log(lake: Lake, tmp_path: Path) -> None:
    rows = [(key, "2024-03-01 10:00", who, 1) for key, who in ("zA", "yA", "xB", "wB")]
    append(tmp_path / "orders", COMMITTED, *rows, partition_by=["who"])
    append(
        tmp_path / "orders",
        COMMITTED,
        rows[3],
        *(("b", r[1], r[2], 2) for r in rows),
        mode="overwrite",
        partition_by=["who"],
    )
    *_, last = brought(tmp_path / "orders")
    files = [pq.read_table(data.path)["id"].to_pylist() for data in last.added]
    found = newest(lake)
    assert [r["_change_type"] for r in found] == ["delete"] * 3 + ["insert"] * 4
    assert [r["id"] for r in found[3:]] == [key for keys in files for key in keys if key != "w"]


def test_a_content_that_was_taken_in_without_its_place_is_looked_for_while_it_is_there(
    lake: Lake, tmp_path: Path
) -> None:
    append(tmp_path / "orders", COMMITTED, ("a", "2024-03-01 10:00", "A", 1))
    (file,) = brought(tmp_path / "orders")
    described = lake.stock.local(f"{file.sha256}.json")
    assert take_in_content(lake, file).rows_before == 0
    described.write_text(described.read_text().replace(', "rows_before": 0', ""))
    assert take_in_content(lake, replace(file, added=())).rows_before is None, (
        "as an earlier release left it"
    )
    assert take_in_content(lake, file).rows_before == 0


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"id": ["1"]}, {"key": ["1"]}, "version 1 has no column id any more, and select reads it"),
        (
            {"id": ["1"]},
            {"id": [1.0]},
            "version 1 made id double, which was string, and select reads it",
        ),
        ({"id": [1.0]}, {"id": ["1"]}, "version 1 made id string, which was double"),
        ({"id": [True]}, {"id": [1]}, "version 1 made id bigint, which was boolean"),
        ({"id": [1]}, {"id": ["1"]}, ""),
        ({"id": ["1"], "x": [1.0]}, {"id": ["1"], "y": ["1"]}, ""),
    ],
)
def test_a_column_that_is_lost_or_of_another_kind_is_refused_where_select_reads_it(
    tmp_path: Path, before: dict[str, list[Any]], after: dict[str, list[Any]], why: str
) -> None:
    for columns in (before, after):
        write_deltalake(
            str(tmp_path / "orders"), pa.table(columns), mode="overwrite", schema_mode="overwrite"
        )
    (tmp_path / "lake.toml").write_text(settings_text("orders", "id AS event_key"))
    files, source = brought(tmp_path / "orders"), load_settings(tmp_path).source
    found, names = listing(range(2), *files), {f.name for f in files}
    with pytest.raises(LandingError, match=f"{why}.*first_version = 1") if why else nullcontext():
        refuse_altered_columns(found, names, source)
    refuse_altered_columns(found, {files[0].name}, source)


MADE = "version 2 made n {}, which was bigint"


@pytest.mark.parametrize(
    ("kind", "select", "told"),
    [
        ("double", "CAST(n AS STRING) AS event_key", MADE.format("double")),
        ("long", "CAST(n AS STRING) AS event_key", ""),
        ("decimal(20,0)", "n AS event_key", ""),
        ("decimal(22,2)", "id AS event_key, n AS amount", ""),
        ("decimal(22,2)", "CAST(CAST(n AS DECIMAL(22,2)) AS STRING) AS event_key", ""),
        (
            "decimal(22,2)",
            "CAST(n AS STRING) AS event_key",
            r"made n decimal\(22,2\), which was bigint: event_key takes n.*In select, write CAST\(CAST\(n AS",
        ),
        ("integer", "hash(n) AS event_key", r"made n int, which was bigint: event_key takes n"),
    ],
)
def test_a_type_that_a_commit_without_files_gave_is_refused_where_rows_go_that_came_before(
    tmp_path: Path, kind: str, select: str, told: str
) -> None:
    table, noon = tmp_path / "orders", int(NOON.timestamp() * 1000)
    append(table, "2024-03-01 20:00", *[(key, "2024-03-01 10:00", "A", 1) for key in "ab"])
    retype_column(table, "n", kind, 1, noon)
    delete_by_vector(table, added_files(table)[0], inline_vector({1}), 2, noon)
    (tmp_path / "lake.toml").write_text(settings_text("orders", select))
    source = load_settings(tmp_path).source
    for first, words in ((0, told), (1, ""), (2, "")):
        files = brought(table, first)
        with pytest.raises(LandingError, match=words) if words else nullcontext():
            refuse_altered_columns(listing(range(3), *files), {f.name for f in files}, source)


def test_a_file_that_is_older_than_a_wider_type_has_its_values_in_that_type(
    lake: Lake, tmp_path: Path
) -> None:
    table, noon = tmp_path / "orders", int(NOON.timestamp() * 1000)
    append(table, "2024-03-01 20:00", ("a", "2024-03-01 10:00", "A", 1))
    retype_column(table, "n", "decimal(22,2)", 1, noon)
    for first, kind in ((0, pa.int64()), (1, pa.decimal128(22, 2))):
        (file,) = brought(table, first)
        stored = take_in_content(lake, file)
        assert pq.read_schema(stored.parquet).field("n").type == kind
        assert pq.read_table(stored.parquet)["n"].to_pylist() == [1]


def test_a_row_that_is_only_put_there_has_no_other_key_than_an_equal_one_before(
    tmp_path: Path,
) -> None:
    for kind in (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(12, 4)):
        rows = pa.table({"id": pa.array([Decimal("1.50")], kind)})
        write_deltalake(str(tmp_path / "orders"), rows, mode="overwrite", schema_mode="overwrite")
    log = tmp_path / "orders" / commit_name(2)
    lines = log.read_text().splitlines()
    log.write_text("".join(f"{line}\n" for line in lines if '"remove"' not in line))
    (tmp_path / "lake.toml").write_text(settings_text("orders", "id AS event_key"))
    files, source = brought(tmp_path / "orders"), load_settings(tmp_path).source
    refuse_altered_columns(listing(range(3), *files), {f.name for f in files[:-1]}, source)
    with pytest.raises(LandingError, match=r"version 2 made id decimal\(12,4\)"):
        refuse_altered_columns(listing(range(3), *files), {files[-1].name}, source)


def test_a_column_that_was_renamed_since_its_type_changed_is_known_by_its_files(
    tmp_path: Path,
) -> None:
    table, noon = tmp_path / "orders", int(NOON.timestamp() * 1000)
    append(table, "2024-03-01 20:00", *[(key, "2024-03-01 10:00", "A", 1) for key in "ab"])
    retype_column(table, "n", "double", 1, noon)
    delete_by_vector(table, added_files(table)[0], inline_vector({1}), 2, noon)
    rename_columns(table, {"n": "later"}, 2)
    (tmp_path / "lake.toml").write_text(settings_text("orders", "id AS event_key, later AS n"))
    files, source = brought(table), load_settings(tmp_path).source
    with pytest.raises(LandingError, match="version 2 made later bigint, which was double"):
        refuse_altered_columns(listing(range(3), *files), {f.name for f in files}, source)


STORED = {"delta.columnMapping.physicalName": "col-1"}
FIELDS = [{"name": "now", "type": "long", "nullable": True, "metadata": STORED}]
VARIANT = {"name": "v", "type": "variant", "nullable": True, "metadata": {}}


@pytest.mark.parametrize(
    ("select", "told"),
    [
        ("now AS event_key", ""),
        ("before AS event_key", "its column before is called now now.*Name now in select"),
        (
            "twice AS event_key",
            "no column, or another one, was called twice.*first_version = 1 beside table",
        ),
        ("v AS event_key", "the column v of the table orders holds VARIANT.*Leave it out"),
        ("other AS event_key", ""),
        (
            "sha2(to_json(struct(*)), 256) AS event_key",
            "of all its columns.*before was renamed.*Name",
        ),
        ("now AS event_key, to_json(struct(*)) AS payload", ""),
    ],
)
def test_a_name_of_before_and_a_column_of_variant_are_refused_where_select_reads_them(
    tmp_path: Path, select: str, told: str
) -> None:
    schema = json.dumps({"type": "struct", "fields": [*FIELDS, VARIANT]})
    named = [("now", 1), ("before", 1), ("twice", 2), ("twice", 3)]
    paths = frozenset(json.dumps([n, f"/{n}", f"/col-{number}"]) for n, number in named)
    columns = frozenset({"now", "before", "twice", "v", "other"})
    state = TableState("t", schema, columns=columns, mapping="name", paths=paths)
    (tmp_path / "lake.toml").write_text(settings_text("orders", select))
    found = replace(listing(range(2)), position=Position(1, "", 0, state))
    with pytest.raises(BackfillError, match=told) if told else nullcontext():
        refuse_unknown_columns(found, load_settings(tmp_path).source)


def test_a_far_time_of_a_commit_is_told_whatever_it_is(tmp_path: Path) -> None:
    one = known_content(Folder(str(tmp_path)), "1/part", 9, 0, "1")
    far = (
        replace(one, committed_ms=4_070_944_800_000),
        replace(one, name="2/part", committed_ms=1 << 62),
    )
    told = future_commits([one, *far])
    assert list(told) == ["1/part", "2/part"]
    assert "its commit says 2099-01-01T10:00:00+00:00: it counts as of this look" in told["1/part"]
