"""A file with deleted rows, or with other names of columns, has the rows of a plain one, and a name
that says which. Not here: where copies go (`foreign.test_plain_copies`)."""

from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from backfill_assets.intake.plain_form import PlainForm, plain_form
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.tables.embedded import duckdb_cursor
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.delta_features import delete_by_vector, inline_vector, rename_columns
from backfill_assets_tests.tables import added_files, append

REST = ("2024-03-01 10:00", "A", 1)
NOON = 1_709_400_000_000


def copied(
    lake: Lake, form: PlainForm, table: Path, name: str, *columns: str
) -> list[dict[str, object]]:
    target = lake.root / "copy.parquet"
    with duckdb_cursor(lake) as engine:
        kinds = dict.fromkeys(columns, "VARCHAR")
        count = form.copy_rows(engine, name, table / name, kinds, target)
    rows: list[dict[str, object]] = pq.read_table(target).to_pylist()
    assert len(rows) == count
    return rows


def form_of(table: Path) -> PlainForm:
    return plain_form(place_of_others(str(table)), DeltaTable(str(table)))


def test_a_plain_file_is_read_as_it_lies_and_one_with_a_vector_by_a_copy(
    lake: Lake, tmp_path: Path
) -> None:
    table = tmp_path / "orders"
    append(table, "2024-03-01 20:00", *[(key, *REST) for key in "abc"])
    (added,) = added_files(table)
    name, before = added["path"], form_of(table)
    assert [before.id_of(name), before.deleted_in(name)] == ["", 0]
    first = delete_by_vector(table, added, inline_vector({1}), 1, NOON)
    one = form_of(table)
    delete_by_vector(table, first, inline_vector({1, 2}), 2, NOON)
    two = form_of(table)
    assert [one.deleted_in(name), two.deleted_in(name)] == [1, 2]
    assert len({before.id_of(name), one.id_of(name), two.id_of(name)}) == 3
    assert copied(lake, one, table, name, "id") == [{"id": "a"}, {"id": "c"}]
    assert copied(lake, two, table, name, "id", "none") == [{"id": "a", "none": None}]


def test_columns_of_a_mapped_table_have_its_names(lake: Lake, tmp_path: Path) -> None:
    table = tmp_path / "orders"
    append(table, "2024-03-01 20:00", ("a", *REST))
    rename_columns(table, {"id": "key"})
    (added,) = added_files(table)
    form = form_of(table)
    assert form.id_of(added["path"])
    assert [form.stored_name("key"), form.stored_name("who")] == ["id", "who"]
    assert copied(lake, form, table, added["path"], "key", "n") == [{"key": "a", "n": "1"}]
