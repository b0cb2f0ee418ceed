"""A copy of a text file in the content store: columns that appear late, whole or not there.

Tested here: the writer. Not tested here: what the records mean, finding a copy again, and another parser version
(`test_ingest`).
"""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from backfill_assets.landing import ingest
from backfill_assets.landing.batches import Batch
from backfill_assets.landing.ingest import copy_path, writing

SHA256 = "f" * 64
BATCHES = [Batch(1, 2, {"a": ["x", None]}, {1: ("text", "why")}), Batch(3, 1, {"a": ["z"], "b": ["7"]}, {})]


def written(folder: Path, batches: list[Batch]) -> Path:
    target = copy_path(folder, SHA256, "jsonl")
    with writing(folder) as writer:
        for batch in batches:
            writer.write(batch)
        writer.publish(target)
    return target


def test_columns_that_appear_late_are_null_before(tmp_path: Path) -> None:
    rows = pq.read_table(written(tmp_path, BATCHES)).to_pylist()
    own = ["__row_number", "__bad_text", "__bad_reason"]
    assert [[r[n] for n in own] for r in rows] == [[1, None, None], [2, "text", "why"], [3, None, None]]
    assert [(r["a"], r["b"]) for r in rows] == [("x", None), (None, None), ("z", "7")]


def test_row_groups_are_filled_from_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "GROUP_ROWS", 4)
    batches = [Batch(i, 1, {"a": ["x"]}, {}) for i in range(1, 10)]
    footer = pq.read_metadata(written(tmp_path, batches))
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [4, 4, 1]


def test_a_copy_that_fails_midway_leaves_nothing(tmp_path: Path) -> None:
    broken = Batch(3, 1, {"a": [7]}, {})  # type: ignore[list-item]
    with pytest.raises(TypeError):
        written(tmp_path, [BATCHES[0], broken])
    assert list(tmp_path.iterdir()) == []
