"""What holds an entity is found whatever wraps it, its neighbours are not, and what nobody can
decode is listed. Not here: erasing (`erasure.test_forgotten`)."""

import bz2
import contextlib
import gzip
import html
import json
import lzma
import sqlite3
import struct
import time
import tracemalloc
import unicodedata
import zipfile
import zlib
from functools import reduce
from pathlib import Path
from urllib.parse import quote, quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.erasure.erasing import vacuum_databases
from backfill_assets.erasure.traces import OVERLAP, Budget, Search, SearchResult, Trace
from backfill_assets.intake.text_lines import Limits
from backfill_assets.kernel.tables.home import Lake

ANN, TEN = Trace({"entity": "ann-77"}), Trace({"entity": "10"})
WHOLE = Trace({"entity": "ann-77"}, is_whole=True)
SHORT = Trace({"entity": "ab"}, {"entity": ("who",)})
CELLS = Trace({"entity": "ab"}, in_cells=True)
SPELLED = Trace({"entity": "ann-77"}, spellings={"entity": ["Ann-77 "]})
TWO = Trace({"plant": "north", "machine": "press-9"})
ODD = 'René "d\'Or" & Søn'
HELD, NOT_HELD, UNREAD = SearchResult(held=True), SearchResult(), SearchResult(unread=True)


def holds(lake: Lake, path: Path, trace: Trace) -> bool:
    return Search(lake, trace).of(path).held


@pytest.mark.parametrize(
    ("trace", "text", "held"),
    [
        (ANN, b"ann-77", True),
        (ANN, b"by ann-77.", True),
        (ANN, rb'{"why": "line\nann-77 \"x\""}', True),
        (ANN, b"ann-778", False),
        (ANN, b"joann-77", False),
        (ANN, b"ann-77-b", False),
        (ANN, "éann-77".encode(), False),
        (ANN, b"who%3Dann-77%26x", True),
        (TEN, b'{"rows": 10, "entity": 101}', False),
        (TEN, b'{"entity": 10}', True),
        (TEN, rb"{\"minValues\":{\"entity\":\"10\"}}", True),
        (ANN, b"ann-77 the elder", True),
        (WHOLE, b'{"entity":"ann-77","n":1}', True),
        (WHOLE, rb'{"stats":"{\"minValues\":{\"entity\":\"ann-77\"}}"}', True),
        (WHOLE, b"k1,ann-77,3", True),
        (WHOLE, b"k1\tann-77\n", True),
        (WHOLE, b"<who>ann-77</who>", True),
        (WHOLE, b'{"entity":"ann-77 the elder"}', False),
        (WHOLE, b'{"mail":"ann-77@home","why":"as ann-77 said"}', False),
        (SHORT, b'{"who": "ab", torn', True),
        (SHORT, b'{"entity": "ab"}', True),
        (SHORT, b'{"whose": "ab", "entity": "abc"}', False),
        (SHORT, b'{"entity": "a"}', False),
        (SHORT, b"k1,ab,3", False),
        (CELLS, b"k1,ab,3", True),
        (CELLS, b"k1,abc,ab d", False),
        (SPELLED, b"k1,Ann-77 ,3", True),
        (SPELLED, b"k1,ann-77,3", True),
        (SPELLED, b"k1,ANN-77,3", False),
        (TWO, b"north press-9", True),
        (TWO, b"north press-8", False),
    ],
)
def test_a_line_holds_the_entity_and_not_its_neighbours(
    trace: Trace, text: bytes, held: bool
) -> None:
    assert trace.is_in(text) is held


@pytest.mark.parametrize(
    "text",
    [
        ODD.encode(),
        ODD.encode("latin-1"),
        ODD.encode("utf-16"),
        f"x,{ODD},1\n".encode("utf-16-be"),
        unicodedata.normalize("NFD", ODD).encode(),
        json.dumps(ODD).encode(),
        json.dumps(json.dumps(ODD)).encode(),
        json.dumps(ODD, ensure_ascii=False).encode(),
        json.dumps(ODD).replace("u00e9", "u00E9").encode(),
        ('"' + ODD.replace('"', '""') + '"').encode(),
        ("'" + ODD.replace("'", "''") + "'").encode(),
        html.escape(ODD).encode(),
        html.escape(ODD).encode("ascii", "xmlcharrefreplace"),
        ODD.replace("&", "&amp;").replace("é", "&eacute;").replace("ø", "&#xf8;").encode(),
        quote(ODD).encode(),
        quote_plus(ODD).encode(),
        b"Ren%e9 %22d%27Or%22%20%26 S%F8n",
        rb"""Ren\xC3\xA9 "d'Or" & S\xC3\xB8n""",
        rb"""Ren\xe9 \"d\'Or\" & S\xf8n""",
    ],
)
def test_a_value_is_found_however_it_is_encoded_or_escaped(
    lake: Lake, tmp_path: Path, text: bytes
) -> None:
    (path := tmp_path / "x.txt").write_bytes(b"a\n" + text if b"\0" not in text else text)
    assert holds(lake, path, Trace({"entity": ODD}))
    path.write_bytes(text.replace(b"n", b"m"))
    assert not holds(lake, path, Trace({"entity": ODD}))


def put_all_kinds(folder: Path, value: str) -> None:
    folder.mkdir()
    line = f"x\n{value}\n".encode()
    table = pa.table({"entity": [value] * 3, "n": [1, 2, 3]})
    pq.write_table(table, folder / "a [1]*.parquet", compression="zstd")
    for name, packed in (
        ("a.gz", gzip.compress(line)),
        ("a.bz2", bz2.compress(line)),
        ("a.xz", lzma.compress(line)),
    ):
        (folder / name).write_bytes(packed)
    (folder / "a.log").write_bytes(line)
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed_files:
        packed_files.writestr("empty", b"")
        packed_files.writestr("b.gz", gzip.compress(gzip.compress(line)))


def test_files_of_every_kind_are_read_as_what_they_hold_and_links_are_not_followed(
    lake: Lake, tmp_path: Path
) -> None:
    for name, value in (("held", "ann-77"), ("free", "bob-78")):
        put_all_kinds(tmp_path / name, value)
    (tmp_path / "held" / "link").symlink_to(tmp_path / "held" / "a.log")
    found = Search(lake, ANN).below([tmp_path / "held", tmp_path / "free"])
    assert {p.name for p, f in found.items() if f == HELD} == {
        p.name for p in (tmp_path / "free").iterdir()
    }
    assert {f for p, f in found.items() if p.parent.name == "free"} == {NOT_HELD}


def test_a_value_that_only_the_dictionary_of_a_file_holds_is_found(
    lake: Lake, tmp_path: Path
) -> None:
    """As pandas' categories leave it, at any depth; a value that rows use counts as rows do."""
    people = pa.DictionaryArray.from_arrays(pa.array([0, 0]), ["bob", "ann-77"])
    for column in (
        people,
        pa.StructArray.from_arrays([people], ["who"]),
        pa.ListArray.from_arrays([0, 1, 2], people),
    ):
        pq.write_table(
            pa.table({"entity": column}), path := tmp_path / "x.parquet", compression="zstd"
        )
        assert Search(lake, ANN).of(path) == HELD
        assert Search(lake, Trace({"entity": "ann-78"})).of(path) == NOT_HELD


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"PAR1 noise PAR1", UNREAD),
        (b"PAR1 ann-77 PAR1", HELD),
        (b"SQLite format 3\0" + bytes(5000), UNREAD),
        (b"\x1f\x8b noise", UNREAD),
        (b"PK\x03\x04 noise, ann-77", HELD),
        (gzip.compress(b"bob", mtime=0)[:-9], UNREAD),
        (reduce(lambda packed, _: gzip.compress(packed, mtime=0), range(5), b"bob"), UNREAD),
        (b"\x28\xb5\x2f\xfd\0\x01\x02", UNREAD),
        (b"", NOT_HELD),
        ("bob\n".encode("utf-16"), NOT_HELD),
        ("Søn\n".encode("latin-1"), NOT_HELD),
    ],
)
def test_what_nobody_can_decode_is_searched_as_bytes_and_counts_as_not_searched(
    lake: Lake, tmp_path: Path, content: bytes, found: SearchResult
) -> None:
    (path := tmp_path / "x#y?z%41.db").write_bytes(content)
    assert Search(lake, ANN).of(path) == found
    assert [p.name for p in tmp_path.iterdir() if p.is_file() and p.suffix == ".db"] == [path.name]
    assert Search(lake, ANN).of(tmp_path / "gone") == NOT_HELD


@pytest.mark.slow
def test_a_text_of_unknown_signs_is_not_searched_for_what_it_may_hold_otherwise(
    lake: Lake, tmp_path: Path
) -> None:
    ivan = Search(lake, Trace({"entity": "Иван"}))
    (path := tmp_path / "x.csv").write_bytes("k1,Пётр\n".encode("cp1251"))
    assert (ivan.of(path), Search(lake, ANN).of(path)) == (UNREAD, NOT_HELD)
    path.write_bytes(("k1,Пётр\n" * 100_000).encode())
    assert ivan.of(path) == NOT_HELD
    path.write_bytes(("k1,Пётр\n" * 100_000 + "Иван").encode("utf-16-le"))
    assert ivan.of(path) == HELD


def test_a_value_is_found_across_blocks_and_all_values_only_in_one_line(
    lake: Lake, tmp_path: Path
) -> None:
    path = tmp_path / "x.txt"
    held = {b"north" + b"," * OVERLAP + b"press-9\n": TWO}
    held |= {b"x" * ((1 << 20) - shift) + b",ann-77,": ANN for shift in range(0, 20, 3)}
    for content, trace in held.items():
        path.write_bytes(content)
        assert holds(lake, path, trace)
    path.write_bytes(b"north\npress-9\n" * 9)
    assert not holds(lake, path, TWO)


@pytest.mark.slow
def test_a_database_is_read_in_a_home_of_dagster_alone(lake: Lake, tmp_path: Path) -> None:
    """In its bytes a long value lies in pieces."""
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as opened, opened:
        opened.execute('CREATE TABLE "t""x" (a TEXT, b BLOB)')
        opened.execute('INSERT INTO "t""x" VALUES (?, ?)', ("north", long := b"press " * 2000))
    cells = Trace({"a": "north", "b": long.decode().strip()})
    assert Search(lake, cells).of(tmp_path / "x.db") == UNREAD
    assert Search(lake, cells, [tmp_path]).of(tmp_path / "x.db") == HELD
    assert Search(lake, ANN, [tmp_path]).of(tmp_path / "x.db") == NOT_HELD


def test_a_deleted_row_leaves_no_bytes_in_a_database_and_nothing_else_is_rewritten(
    lake: Lake, tmp_path: Path
) -> None:
    path = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("PRAGMA secure_delete = OFF")
        opened.execute("CREATE TABLE t (a TEXT)")
        opened.executemany("INSERT INTO t VALUES (?)", [("bob",), (" ann-77",)])
        opened.execute("DELETE FROM t WHERE a = ' ann-77'")
    assert holds(lake, path, ANN)
    (link := tmp_path / "link.db").symlink_to(path)
    (noise := tmp_path / "noise.db").write_bytes(b"no database " * 200)
    vacuum_databases([link, noise, tmp_path / "gone.db"])
    assert (holds(lake, path, ANN), noise.stat().st_size) == (True, 2400)
    vacuum_databases([path])
    assert not holds(lake, path, ANN)


def zip_of(members: int, plain: bytes) -> bytes:
    """A zip of so many members, each of the same text (packed once, for speed)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(plain) + packer.flush()
    crc, sizes = zlib.crc32(plain), (len(packed), len(plain))
    local = (
        struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0, crc, *sizes, 1, 0) + b"a" + packed
    )
    entry = struct.pack(
        "<IHHHHHHIIIHHHHH", 0x02014B50, 20, 20, 0, 8, 0, 0, crc, *sizes, 1, 0, 0, 0, 0
    )
    entries = b"".join(
        entry + struct.pack("<II", 0, len(local) * member) + b"a" for member in range(members)
    )
    where = (members, members, len(entries), len(local) * members, 0)
    return local * members + entries + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, *where)


@pytest.mark.slow
def test_all_that_is_packed_in_a_file_has_one_budget_and_the_rest_counts_as_not_searched(
    lake: Lake, tmp_path: Path
) -> None:
    path, text = tmp_path / "a.zip", b"x\n" * (1 << 19)
    path.write_bytes(zip_of(20, text))
    assert Search(lake, ANN).of(path) == NOT_HELD
    path.write_bytes(zip_of(200, text))
    began = time.process_time()
    assert Search(lake, ANN).of(path) == UNREAD, "200 MiB in all"
    assert time.process_time() - began < 30
    layers = gzip.compress(gzip.compress(text * 96, mtime=0), mtime=0)
    path.write_bytes(layers)
    assert Search(lake, ANN).of(path) == UNREAD, f"96 MiB of {len(layers)} bytes"


def test_a_budget_covers_what_a_scan_takes_in() -> None:
    limits = Limits()
    for size in (0, 1 << 10, 1 << 20, 1 << 25, 1 << 40):
        taken_in = min(limits.max_bytes, max(limits.bomb_floor_bytes, limits.max_ratio * size))
        assert Budget.of(size).left >= taken_in + min(size, limits.max_bytes)


@pytest.mark.parametrize("name", ["plain.db", "b%41.db", "c?mode=rwc.db", "d#e.db"])
def test_a_search_makes_no_file_whatever_a_database_is_called(
    lake: Lake, tmp_path: Path, name: str
) -> None:
    (folder := tmp_path / "home").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "made.db")) as opened, opened:
        opened.execute("CREATE TABLE t (a TEXT)")
        opened.execute("INSERT INTO t VALUES ('ann-77')")
    (tmp_path / "made.db").rename(folder / name)
    assert Search(lake, ANN, [folder]).of(folder / name) == HELD
    assert [path.name for path in folder.iterdir()] == [name]


def test_a_line_of_tabs_and_a_stream_of_zeros_take_linear_time_and_little_memory(
    lake: Lake, tmp_path: Path
) -> None:
    """A value counts as a cell behind blanks, of which a line may have a mebibyte."""
    (tabs := tmp_path / "t.csv").write_bytes(b"\t" * (1 << 20) + b"ann-77x\n")
    (zeros := tmp_path / "z.gz").write_bytes(gzip.compress(bytes(1 << 25), mtime=0))
    began = time.process_time()
    assert Search(lake, WHOLE).of(tabs) == NOT_HELD
    tracemalloc.start()
    assert Search(lake, ANN).of(zeros) == UNREAD, "no text has such signs"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 25
    assert time.process_time() - began < 30
