"""Tables of other programs by their place.

Tested here: `lake.locations`. Not tested here: what is done with their rows (`operations.test_reconcile_sides`).
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from backfill_assets.lake.locations import data_files_at, delta_rows

pytestmark = pytest.mark.quick


def test_a_delta_folder_gives_its_newest_version_and_rows(tmp_path: Path) -> None:
    assert delta_rows(str(tmp_path)) is None
    for value in (1, 2):
        write_deltalake(str(tmp_path / "t"), pa.table({"n": [value]}), mode="append")
    found = delta_rows(str(tmp_path / "t"))
    assert found is not None
    assert (found[0], found[1].to_table().num_rows) == (1, 2)


def test_a_folder_a_pattern_and_a_path_name_data_files_only(tmp_path: Path) -> None:
    for name in ("b.parquet", "deep/a.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [1]}), tmp_path / name)
    (tmp_path / "notes.md").write_text("no data")
    assert data_files_at(str(tmp_path)) == [str(tmp_path / "b.parquet"), str(tmp_path / "deep/a.parquet")]
    assert data_files_at(f"{tmp_path}/*.parquet") == [str(tmp_path / "b.parquet")]
    assert data_files_at(f"{tmp_path}/notes.md") == []
