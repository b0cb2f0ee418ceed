"""What holds an entity is found whatever wraps it, its neighbours are not, and writing over keeps every length.

Tested here: `lake.traces` on files. Not tested here: erasing from the log of a table (`lake.test_forgotten`).
"""

import contextlib
import gzip
import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.lake.forgotten import compact
from backfill_assets.lake.home import Lake
from backfill_assets.lake.traces import Trace, holds, traced
from backfill_assets_tests.files import bare_lake

ANN, TEN = Trace({"entity": "ann-77"}), Trace({"entity": "10"})
WHOLE = Trace({"entity": "ann-77"}, is_whole=True)
SHORT = Trace({"entity": "ab"}, {"entity": ("who",)})
TWO = Trace({"plant": "north", "machine": "press-9"})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path)


@pytest.mark.parametrize(
    ("trace", "text", "held"),
    [
        (ANN, b"ann-77", True),
        (ANN, b"by ann-77.", True),
        (ANN, rb'{"why": "line\nann-77 \"x\""}', True),
        (ANN, b"ann-778", False),
        (ANN, b"joann-77", False),
        (ANN, b"ann-77-b", False),
        (Trace({"entity": 'J\u00f6 "x"'}), json.dumps(json.dumps({"e": 'J\u00f6 "x"'})).encode(), True),
        (TEN, b'{"rows": 10, "entity": 101}', False),
        (TEN, b'{"entity": 10}', True),
        (TEN, rb"{\"minValues\":{\"entity\":\"10\"}}", True),
        (ANN, b"ann-77 the elder", True),
        (WHOLE, b'{"entity":"ann-77","n":1}', True),
        (WHOLE, rb'{"stats":"{\"minValues\":{\"entity\":\"ann-77\"}}"}', True),
        (WHOLE, b"k1,ann-77,3", True),
        (WHOLE, b"k1\tann-77\n", True),
        (WHOLE, b'{"entity":"ann-77 the elder"}', False),
        (WHOLE, b'{"mail":"ann-77@home","why":"as ann-77 said"}', False),
        (SHORT, b'{"who": "ab", torn', True),
        (SHORT, b'{"entity": "ab"}', True),
        (SHORT, b'{"whose": "ab", "entity": "abc"}', False),
        (SHORT, b'{"entity": "a"}', False),
        (TWO, b"north press-9", True),
        (TWO, b"north press-8", False),
    ],
)
def test_a_line_holds_the_entity_and_not_its_neighbours(trace: Trace, text: bytes, held: bool) -> None:
    assert trace.is_in(text) is held
    masked = trace.masked(text)
    assert (trace.is_in(masked), masked == text) == (False, not held)
    assert len(masked) == len(text) or b"u00f6" in text, "of an escaped sign one is left"


def test_files_of_every_kind_are_read_as_what_they_hold(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "kinds"
    folder.mkdir()
    for name, value in (("held", "ann-77"), ("free", "bob-78")):
        table = pa.table({"entity": [value] * 3, "n": [1, 2, 3]})
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        (folder / f"{name}.gz").write_bytes(gzip.compress(f"x\n{value}\n".encode()))
        (folder / f"{name}.log").write_text(f"x\n{value}\n")
        with contextlib.closing(sqlite3.connect(folder / f"{name}.db")) as opened, opened:
            opened.execute("CREATE TABLE t (a TEXT, b BLOB)")
            opened.execute("INSERT INTO t VALUES (?, ?)", ("x" * 5000, value.encode()))
    (folder / "link").symlink_to(folder / "held.log")
    assert {p.name for p in traced(lake, [folder], ANN)} == {"held.parquet", "held.gz", "held.log", "held.db"}


def test_a_deleted_row_leaves_no_bytes_in_a_database(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("PRAGMA secure_delete = OFF")
        opened.execute("CREATE TABLE t (a TEXT)")
        opened.executemany("INSERT INTO t VALUES (?)", [("bob",), (" ann-77",)])
        opened.execute("DELETE FROM t WHERE a = ' ann-77'")
    assert holds(lake, path, ANN)
    compact([path])
    assert not holds(lake, path, ANN)
