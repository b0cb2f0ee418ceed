"""Names and sizes of data files by a checkpoint and the commits behind it, held equal to what
delta-rs opens. Not here: files that are gone or altered (`kernel.tables.test_store`)."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import checkpoint_name, commit_name
from backfill_assets.kernel.log.logged_sizes import logged_sizes
from backfill_assets.kernel.tables.data_files import live_files
from backfill_assets_tests.logs import place_of

DAYS = ("2024-03-01", "2024-03-02", "2024-03-03")
WRITES = st.lists(
    st.tuples(st.sampled_from(DAYS), st.sampled_from(("append", "overwrite", "checkpoint"))),
    min_size=1,
    max_size=8,
)


def write(path: Path, day: str, how: str, number: int = 0) -> None:
    """One step of a table's history: rows of a day beside or in place of its others, or a
    checkpoint."""
    if how == "checkpoint":
        DeltaTable(path).create_checkpoint()
        return
    rows = pa.table({"day": [day], "number": [number]})
    if how == "overwrite":
        write_deltalake(path, rows, mode="overwrite", predicate=f"day = '{day}'")
    else:
        write_deltalake(path, rows, mode="append", partition_by=["day"])


def table_with_checkpoint(path: Path) -> Path:
    """Two days, a checkpoint, and a third day behind it."""
    for how, day in (("append", 0), ("append", 1), ("checkpoint", 1), ("append", 2)):
        write(path, DAYS[day], how)
    return path


@settings(max_examples=15)
@given(history=WRITES)
def test_a_table_has_the_files_that_delta_rs_opens(
    history: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = table_with_checkpoint(tmp_path_factory.mktemp("table"))
    for number, (day, how) in enumerate(history):
        write(path, day, how, number)
    opened = DeltaTable(path)
    expected = {file.path: file.size for file in live_files(opened, "day")}
    assert logged_sizes(place_of(path), opened.version()) == expected


def test_an_earlier_version_has_the_files_that_it_had(tmp_path: Path) -> None:
    path = table_with_checkpoint(tmp_path)
    before = DeltaTable(path)
    write(path, DAYS[0], "overwrite", 7)
    found = logged_sizes(place_of(path), before.version())
    assert found == {file.path: file.size for file in live_files(before, "day")}


def test_nothing_is_said_of_a_table_without_a_checkpoint_or_before_it(tmp_path: Path) -> None:
    write(tmp_path, DAYS[0], "append")
    assert logged_sizes(place_of(tmp_path), 0) is None
    table_with_checkpoint(tmp_path)
    assert logged_sizes(place_of(tmp_path), 0) is None


def test_nothing_is_said_by_a_checkpoint_that_names_further_files(tmp_path: Path) -> None:
    version = DeltaTable(table_with_checkpoint(tmp_path)).version()
    kept = tmp_path / checkpoint_name(version - 1)
    found = pq.read_table(kept)
    further = pa.array([{"path": "more.parquet"}] * found.num_rows)
    at = found.column_names.index("sidecar")
    pq.write_table(found.set_column(at, "sidecar", further), kept)
    assert logged_sizes(place_of(tmp_path), version) is None


def test_nothing_is_said_by_a_torn_checkpoint_or_without_a_commit(tmp_path: Path) -> None:
    version = DeltaTable(table_with_checkpoint(tmp_path)).version()
    commit = tmp_path / commit_name(version)
    commit.rename(tmp_path / "aside")
    assert logged_sizes(place_of(tmp_path), version) is None
    (tmp_path / "aside").rename(commit)
    (tmp_path / checkpoint_name(version - 1)).write_bytes(b"PAR1")
    assert logged_sizes(place_of(tmp_path), version) is None


def test_a_torn_commit_behind_the_checkpoint_is_refused(tmp_path: Path) -> None:
    version = DeltaTable(table_with_checkpoint(tmp_path)).version()
    commit = tmp_path / commit_name(version)
    commit.write_bytes(commit.read_bytes()[:-9])
    with pytest.raises(BackfillError, match=f"version {version} of its log is torn"):
        logged_sizes(place_of(tmp_path), version)


def test_a_name_with_signs_that_a_log_writes_as_others_is_left_to_delta_rs(tmp_path: Path) -> None:
    rows = pa.table({"day": ["a b"], "number": [1]})
    write_deltalake(tmp_path, rows, partition_by=["day"])
    DeltaTable(tmp_path).create_checkpoint()
    assert logged_sizes(place_of(tmp_path), 0) is None
