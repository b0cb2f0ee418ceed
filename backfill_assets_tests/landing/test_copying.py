"""A copy of a landed file: its bytes and their hash, apart from what happens to the landed file later.

Tested here: `landing.copying`. Not tested here: what of a copy is kept (`test_stock`).
"""

import hashlib
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.landing.copying import copied
from backfill_assets.landing.files import READ_BYTES, LandedFile


def landed(path: Path) -> LandedFile:
    found = path.stat()
    return LandedFile(path.name, path, found.st_size, found.st_mtime_ns)


@pytest.mark.parametrize("size", [0, 7, READ_BYTES + 1])
def test_a_copy_has_the_files_bytes_and_tells_their_hash(tmp_path: Path, size: int) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "copy"
    source.write_bytes(b"x" * size)
    assert copied(landed(source), target) == hashlib.sha256(b"x" * size).hexdigest()
    assert target.read_bytes() == b"x" * size


def test_a_landed_file_that_is_rewritten_in_place_does_not_change_its_copy(tmp_path: Path) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "copy"
    source.write_bytes(b"before")
    copied(landed(source), target)
    with source.open("r+b") as again:
        again.write(b"behind")
    assert target.read_bytes() == b"before"


def test_a_copy_never_replaces_a_file(tmp_path: Path) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "copy"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        copied(landed(source), target)
    assert target.read_bytes() == b"old"


def test_a_file_that_changed_since_it_was_listed_is_not_taken(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(b"1234")
    listed = landed(source)
    source.write_bytes(b"12345678")
    with pytest.raises(BackfillError):
        copied(listed, tmp_path / "copy")


def test_a_hole_takes_no_disk_in_the_copy_either(tmp_path: Path) -> None:
    source, target = tmp_path / "a.parquet", tmp_path / "copy"
    with source.open("wb") as sparse:
        sparse.write(b"PAR1")
        sparse.truncate(64 * READ_BYTES + 5)
    copied(landed(source), target)
    assert target.stat().st_size == 64 * READ_BYTES + 5
    assert target.stat().st_blocks * 512 <= 2 * READ_BYTES
    assert target.read_bytes() == source.read_bytes()
