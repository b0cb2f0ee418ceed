"""Which class-data archive a server uses: its name and the flags that follow.

Tested here: `engine.archive`, with Java itself for a few classes. Not tested here: servers that write one
(`test_supervisor`).
"""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.engine.archive import WRITTEN, archive_flags, class_archive, keep
from backfill_assets.engine.cache import CACHE_VARIABLE
from backfill_assets.engine.java import find_java


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar; the cache is empty."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    (found := tmp_path / "a.jar").write_text("one")
    return found


def test_other_jars_options_or_javas_have_an_archive_of_their_own(jar: Path, tmp_path: Path) -> None:
    java = find_java()
    before = class_archive(java, ["-Da=b"], [jar])
    assert before == class_archive(java, ["-Da=b"], [jar])
    other = class_archive(java, ["-Da=c"], [jar])
    home = class_archive(replace(java, home=tmp_path), ["-Da=b"], [jar])
    jar.write_text("another")
    assert len({before, other, home, class_archive(java, ["-Da=b"], [jar])}) == 4


@pytest.mark.usefixtures("processes")
def test_a_java_writes_its_classes_at_exit_and_the_next_one_reads_them(jar: Path, tmp_path: Path) -> None:
    java, scratch = find_java(), tmp_path / "scratch"
    scratch.mkdir()
    archive = class_archive(java, [], [jar])
    shown = ["-Xlog:class+load", "-XshowSettings:vm", "-version"]

    def classes() -> str:
        done = subprocess.run([java.executable, *archive_flags(java, archive, scratch), *shown], capture_output=True)
        assert done.returncode == 0
        return done.stdout.decode()

    assert "(top)" not in classes()
    assert (scratch / WRITTEN).exists()
    keep(scratch, archive)
    assert "(top)" in classes()
    archive.write_bytes(archive.read_bytes()[:5000])
    assert "(top)" not in classes()
