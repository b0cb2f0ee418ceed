"""Remembered hashes of landed files: right, reused, and never the reason for an error.

Tested here: `landing.hashes`. Not tested here: hashing itself (`test_files`).
"""

import hashlib
import os
from pathlib import Path

from backfill_assets.landing.files import LandedFile
from backfill_assets.landing.hashes import NAME, Hashes

LONG_AGO = 1_700_000_000


def landed(path: Path, content: bytes, moment: int = LONG_AGO) -> LandedFile:
    path.write_bytes(content)
    os.utime(path, (moment, moment))
    return LandedFile(path.name, path, len(content), path.stat().st_mtime_ns)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def remembered(stock: Path, file: LandedFile) -> None:
    hashes = Hashes(stock)
    hashes.sha256(file)
    hashes.keep()


def test_a_hash_is_remembered_and_the_file_not_read_again(tmp_path: Path) -> None:
    file = landed(tmp_path / "a", b"one")
    remembered(tmp_path / "stock", file)
    file.path.unlink()
    assert Hashes(tmp_path / "stock").sha256(file) == sha(b"one")


def test_another_size_or_time_means_another_look(tmp_path: Path) -> None:
    remembered(tmp_path / "stock", landed(tmp_path / "a", b"one"))
    later = landed(tmp_path / "a", b"two", LONG_AGO + 1)
    assert Hashes(tmp_path / "stock").sha256(later) == sha(b"two")
    longer = landed(tmp_path / "a", b"three")
    assert Hashes(tmp_path / "stock").sha256(longer) == sha(b"three")


def test_what_was_not_asked_for_is_forgotten(tmp_path: Path) -> None:
    first, second = landed(tmp_path / "a", b"one"), landed(tmp_path / "b", b"two")
    remembered(tmp_path / "stock", first)
    remembered(tmp_path / "stock", second)
    assert '"a"' not in (tmp_path / "stock" / NAME).read_text()


def test_a_file_that_changed_since_it_was_listed_has_no_hash_yet(tmp_path: Path) -> None:
    file = landed(tmp_path / "a", b"one")
    landed(tmp_path / "a", b"more than one")
    assert Hashes(tmp_path / "stock").sha256(file) == ""


def test_a_damaged_memory_costs_another_look_and_nothing_else(tmp_path: Path) -> None:
    file = landed(tmp_path / "a", b"one")
    for damaged in ("", "[]", '{"a": 1}', '{"a": [1, "x", null]}', "\x00"):
        (tmp_path / NAME).write_text(damaged)
        assert Hashes(tmp_path).sha256(file) == sha(b"one")


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "stock").write_text("a file where the folder should be")
    remembered(tmp_path / "stock", landed(tmp_path / "a", b"one"))
    assert (tmp_path / "stock").is_file()
