"""A file of a table's code: its digest is of what was loaded, and it tells when the file has changed since.
Not here: Python's digests (`core/test_code_digests.py`), and what `code_inputs` names (`pipeline/test_tables.py`)."""

from pathlib import Path

import pytest

from backfill_assets.lake.code import SourceFile


@pytest.mark.parametrize(
    ("name", "text", "same", "other"),
    [
        ("a.py", "x = 1\n", "# why\nx =  1\n", "x = 2\n"),
        ("a.sql", "SELECT 1", "-- why\r\nselect 1".replace("select", "SELECT"), "SELECT 2"),
    ],
)
def test_comments_and_layout_do_not_count(tmp_path: Path, name: str, text: str, same: str, other: str) -> None:
    made = [SourceFile(tmp_path / name, t.encode()) for t in (text, same, other)]
    assert made[0].digest == made[1].digest != made[2].digest


def test_a_file_that_changed_or_is_gone_has_moved(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    file = SourceFile.read(path)
    digest = file.digest
    assert not file.has_moved
    path.write_text("x = 2\n")
    assert (file.has_moved, file.digest) == (True, digest)
    path.unlink()
    assert file.has_moved
