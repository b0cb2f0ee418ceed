"""Tables of other programs by their place.

Tested here: `lake.embedded`. Not tested here: what is done with their rows (`operations.test_reconcile_sides`).
"""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from backfill_assets.lake.embedded import data_files_at, delta_rows, is_delta

pytestmark = pytest.mark.quick


def test_a_delta_folder_gives_a_version_and_its_rows(tmp_path: Path) -> None:
    assert not is_delta(str(tmp_path))
    for value in (1, 2):
        write_deltalake(tmp_path / "t", pa.table({"n": [value]}), mode="append")
    assert is_delta(str(tmp_path / "t"))
    with duckdb.connect() as engine:
        for wanted, version, rows in ((None, 1, [(1,), (2,)]), (0, 0, [(1,)])):
            found, query = delta_rows(engine, tmp_path / "t", wanted)
            assert (found, engine.execute(f"FROM ({query}) ORDER BY n").fetchall()) == (version, rows)


def test_a_folder_a_pattern_and_a_path_name_data_files_only(tmp_path: Path) -> None:
    for name in ("b.parquet", "deep/a.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [1]}), tmp_path / name)
    (tmp_path / "notes.md").write_text("no data")
    assert data_files_at(str(tmp_path)) == [str(tmp_path / "b.parquet"), str(tmp_path / "deep/a.parquet")]
    assert data_files_at(f"{tmp_path}/*.parquet") == [str(tmp_path / "b.parquet")]
    assert data_files_at(f"{tmp_path}/notes.md") == []
