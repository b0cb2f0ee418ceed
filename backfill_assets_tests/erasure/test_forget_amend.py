"""A landed file loses records and nothing else: the bytes of other lines, the values of other rows,
its mode. Not here: which records go (`erasure.test_landed_files`)."""

import gzip
import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.erasure.landed_files import rewritten_file
from backfill_assets.intake.files import LandedFile, LandingError, StillChanging
from backfill_assets.intake.listing import Glob
from backfill_assets.intake.object_listing import list_objects
from backfill_assets.intake.settings import LandedSource
from backfill_assets.kernel.place.choice import bucket_prefix_at
from backfill_assets_tests.landed import land

JSONL = b'\xef\xbb\xbf{"a": 1}\n\n  \n{"a": 2 }\r\n{torn\n{"a": 3}'
CSV = b'a,b\n1,"x\ny"\n\n2,"broken" quote\n3,z\n4,"open\nto the end\n'


def in_format(format: str) -> LandedSource:
    """A source with files of a format in plain text."""
    return LandedSource.model_validate({"files": "*", "format": format, "select": "*"})


@pytest.mark.parametrize(
    ("name", "content", "gone", "left"),
    [
        ("a.jsonl", JSONL, {2}, b'\xef\xbb\xbf{"a": 1}\n\n  \n{torn\n{"a": 3}'),
        ("a.jsonl", JSONL, {1, 3, 4}, b'\n  \n{"a": 2 }\r\n'),
        ("a.jsonl", JSONL, {1, 2, 3, 4}, b"\n  \n"),
        ("a.csv", CSV, {1}, b'a,b\n\n2,"broken" quote\n3,z\n4,"open\nto the end\n'),
        ("a.csv", CSV, {2, 4}, b'a,b\n1,"x\ny"\n\n3,z\n'),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_other_lines_keep_their_bytes(
    tmp_path: Path, name: str, content: bytes, gone: set[int], left: bytes, is_packed: bool
) -> None:
    file = land(
        tmp_path,
        f"{name}.gz" if is_packed else name,
        gzip.compress(content) if is_packed else content,
    )
    file.path.chmod(0o640)
    with rewritten_file(file, in_format(name[2:]), gone) as contents:
        before = file.path.read_bytes()
    found = file.path.read_bytes()
    assert contents == tuple(hashlib.sha256(data).hexdigest() for data in (before, found))
    assert (gzip.decompress(found) if is_packed else found) == left
    assert file.path.stat().st_mode & 0o777 == 0o640
    assert file.path.stat().st_mtime_ns > file.mtime_ns
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [file.path.name]


def test_an_object_loses_lines_only_while_it_is_the_listed_one(bucket_address: str) -> None:
    place = bucket_prefix_at(bucket_address)
    place.write("a.jsonl", JSONL)
    [file] = list_objects(Glob(Path("/"), ("**",)), place, "jsonl").files
    with rewritten_file(file, in_format("jsonl"), {1, 3, 4}) as contents:
        assert place.read("a.jsonl") == JSONL
    found = place.read("a.jsonl")
    assert contents == tuple(hashlib.sha256(data).hexdigest() for data in (JSONL, found))
    assert found == b'\n  \n{"a": 2 }\r\n'
    with pytest.raises(StillChanging), rewritten_file(file, in_format("jsonl"), {1}):
        raise AssertionError("it was fetched")
    [file] = list_objects(Glob(Path("/"), ("**",)), place, "jsonl").files
    with pytest.raises(StillChanging), rewritten_file(file, in_format("jsonl"), {1}):
        place.write("a.jsonl", CSV)
    assert place.read("a.jsonl") == CSV


def test_other_rows_of_parquet_keep_their_values_and_types(tmp_path: Path) -> None:
    types = {
        "s": pa.dictionary(pa.int32(), pa.string()),
        "t": pa.timestamp("ns", "UTC"),
        "n": pa.uint16(),
    }
    table = pa.table(
        {
            n: pa.array(v, types[n])
            for n, v in {"s": list("abcd"), "t": [1, 2, 3, None], "n": [1, 2, 3, 4]}.items()
        }
    )
    (path := tmp_path / "a.parquet").touch()
    pq.write_table(table, path, row_group_size=2)
    with rewritten_file(_file(path), in_format("parquet"), {2, 3}):
        pass
    kept = table.take([0, 3])
    assert pq.read_table(path).equals(kept.set_column(0, "s", kept["s"].cast(pa.string())))


def test_a_file_that_cannot_be_written_without_loss_stays_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"t": pa.array([1], pa.timestamp("ns"))}),
        path,
        use_deprecated_int96_timestamps=True,
    )
    before = path.read_bytes()
    with (
        pytest.raises(LandingError, match=r"a\.parquet: its column t is INT96"),
        rewritten_file(_file(path), in_format("parquet"), {1}),
    ):
        pass
    assert path.read_bytes() == before


def _file(path: Path) -> LandedFile:
    return LandedFile(path.name, path, path.stat().st_size, path.stat().st_mtime_ns)
