"""A copy in the stock: columns that appear late, facts in its footer, whole or not there.

Lives here: the writer and finding a copy again. Does not live here: what the records mean.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.landing import text_copies
from backfill_assets.landing.batches import Batch
from backfill_assets.landing.content_store import PARSER_VERSION
from backfill_assets.landing.text_copies import Facts, copy_path, read_facts, whole_file_batch, writing

FACTS = Facts("f" * 64, 3, 1, {"a": "STRING", "b": "BIGINT"})
BATCHES = [Batch(1, 2, {"a": ["x", None]}, {1: ("text", "why")}), Batch(3, 1, {"a": ["z"], "b": ["7"]}, {})]


def written(folder: Path, batches: list[Batch], facts: Facts = FACTS) -> Path:
    target = copy_path(folder, facts.sha256, "jsonl")
    with writing(folder) as writer:
        for batch in batches:
            writer.write(batch)
        writer.publish(target, facts, [1, 2])
    return target


def test_columns_that_appear_late_are_null_before(tmp_path: Path) -> None:
    rows = pq.read_table(written(tmp_path, BATCHES)).to_pylist()
    own = ["__row_number", "__bad_text", "__bad_reason"]
    assert [[r[n] for n in own] for r in rows] == [[1, None, None], [2, "text", "why"], [3, None, None]]
    assert [(r["a"], r["b"]) for r in rows] == [("x", None), (None, None), ("z", "7")]


def test_every_source_column_is_text(tmp_path: Path) -> None:
    schema = pq.read_schema(written(tmp_path, BATCHES))
    assert {f.name: f.type for f in schema if not f.name.startswith("__")} == {"a": pa.string(), "b": pa.string()}


def test_row_groups_are_filled_from_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_copies, "GROUP_ROWS", 4)
    batches = [Batch(i, 1, {"a": ["x"]}, {}) for i in range(1, 10)]
    footer = pq.read_metadata(written(tmp_path, batches))
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [4, 4, 1]


def test_the_facts_are_read_back_from_the_footer(tmp_path: Path) -> None:
    path = written(tmp_path, BATCHES)
    assert read_facts(path, FACTS.sha256, [1, 2]) == FACTS
    assert read_facts(path, FACTS.sha256, [1, 3]) is None
    assert read_facts(path, "0" * 64, [1, 2]) is None
    assert read_facts(tmp_path / "nothing", FACTS.sha256, [1, 2]) is None


def test_a_copy_whose_rows_are_not_those_it_promises_is_none(tmp_path: Path) -> None:
    assert read_facts(written(tmp_path, BATCHES[:1]), FACTS.sha256, [1, 2]) is None


def test_a_foreign_parquet_file_is_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    assert read_facts(tmp_path / "x.parquet", FACTS.sha256, [1, 2]) is None


def test_another_parser_version_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = written(tmp_path, BATCHES)
    monkeypatch.setattr(text_copies, "PARSER_VERSION", PARSER_VERSION + 1)
    assert copy_path(tmp_path, FACTS.sha256, "jsonl") != before
    assert read_facts(before, FACTS.sha256, [1, 2]) is None


def test_the_row_for_a_whole_file_is_numbered_zero(tmp_path: Path) -> None:
    facts = Facts("e" * 64, 1, 1, {}, "cut off")
    (row,) = pq.read_table(written(tmp_path, [whole_file_batch("cut off")], facts)).to_pylist()
    assert row == {"__row_number": 0, "__bad_text": "", "__bad_reason": "cut off"}


def test_a_copy_that_fails_midway_leaves_nothing(tmp_path: Path) -> None:
    broken = Batch(3, 1, {"a": [7]}, {})  # type: ignore[list-item]
    with pytest.raises(TypeError):
        written(tmp_path, [BATCHES[0], broken])
    assert list(tmp_path.iterdir()) == []
