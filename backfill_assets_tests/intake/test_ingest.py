"""The door of the intake: one content, one copy, every row accounted for.

Lives here: naming by content, reuse, what happens when a file changes meanwhile, bounded memory.
Does not live here: what makes a record unusable (`test_json_lines.py`, `test_csv_records.py`) or a
file (`test_text_lines.py`).
"""

import gzip
import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from backfill_assets.intake import content_store
from backfill_assets.intake import ingest as door
from backfill_assets.intake.batches import Batch
from backfill_assets.intake.files import StillChanging
from backfill_assets.intake.ingest import copy_writer, ingest
from backfill_assets.intake.text_lines import Limits
from backfill_assets.kernel.place.folder import Folder
from backfill_assets_tests.landed import bad_rows, good_rows, land, stock, stock_rows, take_in

LINES = b'{"id": 1, "ok": true}\n{"id": 2}{"id": 3}\n\n{"id": 4, "ok": null}\n'


def test_a_copy_is_named_by_its_content_and_has_every_record_in_order(tmp_path: Path) -> None:
    intake = take_in(tmp_path, "a.jsonl", LINES)
    assert intake.sha256 == hashlib.sha256(LINES).hexdigest()
    assert intake.parquet.parent == tmp_path / "stock"
    assert intake.parquet.name.startswith(intake.sha256 + ".")
    assert (intake.rows, intake.bad_rows, intake.refused) == (3, 1, None)
    assert [r["__row_number"] for r in stock_rows(intake)] == [1, 2, 3]
    assert intake.types == {"id": "BIGINT", "ok": "BOOLEAN"}
    assert good_rows(intake) == [{"id": "1", "ok": "true"}, {"id": "4", "ok": None}]


def test_the_same_content_is_parsed_once_whatever_its_name(tmp_path: Path) -> None:
    first = take_in(tmp_path, "a.jsonl", LINES)
    written = first.parquet.stat().st_mtime_ns
    assert take_in(tmp_path, "b/c.json", LINES) == first
    assert first.parquet.stat().st_mtime_ns == written, "who parses it writes it anew"


@pytest.mark.parametrize("damage", [b"", b"PAR1 torn"])
def test_a_torn_copy_is_made_again(tmp_path: Path, damage: bytes) -> None:
    first = take_in(tmp_path, "a.jsonl", LINES)
    first.parquet.write_bytes(damage)
    assert take_in(tmp_path, "a.jsonl", LINES) == first
    assert len(stock_rows(first)) == 3


def test_a_copy_of_another_parser_version_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = take_in(tmp_path, "a.jsonl", LINES)
    monkeypatch.setattr(content_store, "PARSER_VERSION", 7)
    after = take_in(tmp_path, "a.jsonl", LINES)
    assert after.parquet != before.parquet
    assert not before.parquet.exists()
    assert good_rows(after) == [{"id": "1", "ok": "true"}, {"id": "4", "ok": None}]


def test_whether_a_file_is_gzip_is_in_its_content_so_that_renaming_changes_nothing(
    tmp_path: Path,
) -> None:
    packed = gzip.compress(LINES)
    assert take_in(tmp_path, "a.jsonl", packed) == take_in(tmp_path, "a.jsonl.gz", packed)
    assert take_in(tmp_path, "plain.jsonl.gz", LINES).rows == 3


def test_an_unreadable_file_is_one_bad_row_numbered_zero(tmp_path: Path) -> None:
    content = gzip.compress(LINES * 1000)[:-9]
    for _ in range(2):
        intake = take_in(tmp_path, "a.jsonl.gz", content)
        assert (intake.rows, intake.bad_rows, intake.types) == (1, 1, {})
        assert intake.refused
        assert bad_rows(intake) == {0: intake.refused}


def test_nothing_of_a_file_is_used_that_breaks_after_many_good_rows(tmp_path: Path) -> None:
    content = gzip.compress(b"".join(b'{"id": %d}\n' % i for i in range(9_000)), mtime=0)
    intake = take_in(tmp_path, "a.jsonl.gz", content[:-4] + b"\0\0\0\1")
    assert intake.refused
    assert good_rows(intake) == []


def test_a_file_that_changes_meanwhile_waits_for_the_next_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = land(tmp_path / "landing", "a.jsonl", LINES)
    monkeypatch.setattr(door, "file_sha256", lambda _: "0" * 64)
    with pytest.raises(StillChanging):
        ingest(file, "jsonl", stock(tmp_path))
    with pytest.raises(StillChanging):
        ingest(replace(file, size=1), "jsonl", stock(tmp_path))
    assert list((tmp_path / "stock").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n\n \r\n"])
def test_an_empty_file_of_json_lines_has_no_rows_and_is_no_fault(
    tmp_path: Path, content: bytes
) -> None:
    intake = take_in(tmp_path, "a.jsonl", content)
    assert (intake.rows, intake.bad_rows, intake.refused, intake.types) == (0, 0, None, {})
    assert stock_rows(intake) == []


GIANTS = """
import resource, sys
from pathlib import Path
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.intake.ingest import ingest
from backfill_assets.intake.listing import list_landing
folder = Path(sys.argv[1])
def taken(name, format):
    (file,) = list_landing(name, folder, format).files
    intake = ingest(file, format, Folder(str(folder / "stock")))
    print(name, intake.rows, intake.bad_rows, intake.refused)
taken("warm.jsonl", "jsonl")
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
taken("giant.jsonl", "jsonl")
taken("quoted.csv", "csv")
taken("bomb.jsonl.gz", "jsonl")
"""


@pytest.mark.usefixtures("processes")
def test_giant_lines_and_bombs_fit_into_little_memory(tmp_path: Path) -> None:
    land(tmp_path, "warm.jsonl", LINES)
    land(tmp_path, "bomb.jsonl.gz", gzip.compress(bytes(70 << 20)))
    for name, head in (("giant.jsonl", b""), ("quoted.csv", b'a,b\n1,"\n')):
        with land(tmp_path, name, head).path.open("r+b") as sparse:
            sparse.truncate(80 << 20)
    done = subprocess.run(
        [sys.executable, "-c", GIANTS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "warm.jsonl 3 1 None",
        "giant.jsonl 1 1 None",
        "quoted.csv 1 1 None",
        "bomb.jsonl.gz 1 1 it decompresses more than 250 fold: a decompression bomb",
    ], done.stderr


def test_a_flood_of_unusable_rows_refuses_the_file_as_a_whole_with_the_count(
    tmp_path: Path,
) -> None:
    limits = Limits(max_bad_rows=100, batch_rows=10)
    flood = gzip.compress(b"{\n" * 1_000)
    most = 100 + len(flood) // 4
    intake = take_in(tmp_path, "a.jsonl.gz", flood, limits)
    why = f"more than {most} of its rows are unusable: too many to keep each; the first: not JSON: "
    assert (intake.rows, intake.bad_rows) == (1, 1)
    assert (intake.refused or "").startswith(why)
    paid_for = b"{" + b" " * 10 + b"\n"
    assert take_in(tmp_path, "b.jsonl", paid_for * 1_000, limits).bad_rows == 1_000, (
        "rows that were really sent"
    )


BATCHES = [
    Batch(1, 2, {"a": ["x", None]}, {1: ("text", "why")}),
    Batch(3, 1, {"a": ["z"], "b": ["7"]}, {}),
]


def written(folder: Path, batches: list[Batch]) -> Path:
    store = Folder(str(folder))
    with copy_writer(store) as writer:
        for batch in batches:
            writer.write(batch)
        store.put("a.parquet", writer.finished())
    return folder / "a.parquet"


def test_columns_that_appear_late_are_null_before(tmp_path: Path) -> None:
    rows = pq.read_table(written(tmp_path, BATCHES)).to_pylist()
    own = ["__row_number", "__bad_text", "__bad_reason"]
    assert [[r[n] for n in own] for r in rows] == [
        [1, None, None],
        [2, "text", "why"],
        [3, None, None],
    ]
    assert [(r["a"], r["b"]) for r in rows] == [("x", None), (None, None), ("z", "7")]
