"""The class for local files: its jar is whole, always the same, and never what somebody else put there.

Tested here: `engine.unix_files` without a Java. Not tested here: that a server uses it, and forks nothing
(`test_session`).
"""

import zipfile
from pathlib import Path

import pytest

from backfill_assets.engine.cache import CACHE_VARIABLE
from backfill_assets.engine.confs import UNIX_FILES
from backfill_assets.engine.unix_files import files_jar


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and beside it another folder."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_jar_holds_one_class_under_the_name_that_servers_are_told(cache: Path, tmp_path: Path) -> None:
    jar = files_jar(tmp_path)
    assert cache in jar.parents
    with zipfile.ZipFile(jar) as file:
        (name,) = file.namelist()
        made = file.read(name)
    assert name == UNIX_FILES.replace(".", "/") + ".class"
    assert made.startswith(b"\xca\xfe\xba\xbe")
    assert [p.name for p in jar.parent.iterdir()] == [jar.name], "nothing is left beside it"


def test_a_jar_that_is_there_stays_as_it_is_and_an_altered_one_is_replaced(cache: Path, tmp_path: Path) -> None:
    jar = files_jar(tmp_path)
    made, then = jar.read_bytes(), jar.stat().st_ino
    assert files_jar(tmp_path).stat().st_ino == then, "an archive of classes names it by its time of change"
    jar.write_bytes(b"another class")
    assert files_jar(tmp_path).read_bytes() == made


def test_where_the_cache_cannot_be_written_the_jar_is_placed_elsewhere(cache: Path, tmp_path: Path) -> None:
    cache.write_text("a file, where a folder should be")
    assert files_jar(tmp_path / "state").parent == tmp_path / "state"
