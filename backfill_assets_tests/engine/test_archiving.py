"""Making a class-data archive beside an idle server: once, in one step, and never in anybody's way.

Tested here: `engine.archiving` with harmless programs for Java, and with Java itself for a few classes. Not tested
here: which archive a server uses (`test_archive`), the server (`test_supervisor`).
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets.engine.archiving import FAILED, KEPT_SECONDS, Archiving
from backfill_assets.engine.java import find_java
from backfill_assets.engine.server_state import take

pytestmark = pytest.mark.usefixtures("processes")

MADE = """
import os, sys
told = dict(part.split("=", 1) for part in sys.argv[1:3])
text = open(told["-XX:SharedClassListFile"]).read()
open(told["-XX:SharedArchiveFile"], "w").write(f"{True} {text}")
"""


@pytest.fixture
def begin(tmp_path: Path) -> Callable[[str], Archiving]:
    """An archiving whose Java is this program, of a server that noted a class and half of another."""
    (tmp_path / "cache").mkdir()
    noted = tmp_path / "classes.list"
    noted.write_text("java/lang/Object\njava/la")

    def one(code: str) -> Archiving:
        program = tmp_path / "java"
        program.write_text(f"#!{sys.executable}\n{code}")
        program.chmod(0o755)
        return Archiving(tmp_path / "cache" / "a.jsa", [str(program), "-cp", "jars"], noted)

    return one


def finish(archiving: Archiving) -> None:
    """Wait for its program, then look as the supervisor does."""
    archiving.look(True)
    assert archiving.child is not None
    archiving.child.wait(60)
    archiving.look(False)


def test_an_archive_is_made_of_the_classes_that_were_noted_whole(begin: Callable[[str], Archiving]) -> None:
    found = begin(MADE)
    found.look(False)
    assert found.child is None, "a server that works is left alone"
    finish(found)
    assert found.file.read_text() == "True java/lang/Object\n"
    assert found.file.stat().st_mode & 0o777 == 0o600
    found.file.unlink()
    found.look(True)
    assert found.child is None, "once is enough"


def test_two_servers_that_idle_make_one_archive(begin: Callable[[str], Archiving]) -> None:
    one, two = begin("input()"), begin("input()")
    lock = os.open(one.file.parent / "making.lock", os.O_RDWR | os.O_CREAT, 0o600)
    assert take(lock)
    one.look(True)
    assert one.child is None, "another one makes it"
    os.close(lock)
    two.file.write_text("made meanwhile")
    two.look(True)
    assert two.child is None
    assert two.file.read_text() == "made meanwhile"


def test_the_end_of_the_server_ends_the_making_and_leaves_nothing(begin: Callable[[str], Archiving]) -> None:
    found = begin("import time\ntime.sleep(60)")
    found.look(True)
    child = found.child
    assert child is not None
    found.file.with_suffix(".part").write_text("half")
    found.end()
    assert child.returncode == -9
    assert [p.name for p in found.file.parent.iterdir()] == ["making.lock"]


def test_what_could_not_be_made_is_marked_and_what_was_killed_is_not(begin: Callable[[str], Archiving]) -> None:
    finish(found := begin("import os\nos.kill(os.getpid(), 9)"))
    assert not found.file.with_suffix(FAILED).exists()
    finish(found := begin("raise SystemExit(1)"))
    assert found.file.with_suffix(FAILED).exists()
    assert not found.file.exists()


def test_a_server_that_noted_nothing_makes_none(begin: Callable[[str], Archiving]) -> None:
    found = begin(MADE)
    found.noted.unlink()
    found.look(True)
    assert found.child is None
    assert not found.file.exists()


def test_archives_that_nobody_used_for_long_go_when_a_new_one_is_made(begin: Callable[[str], Archiving]) -> None:
    found = begin(MADE)
    old, recent = found.file.with_name("old.jsa"), found.file.with_name("recent.jsa")
    for archive in (old, recent):
        archive.touch()
    long_ago = time.time() - KEPT_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    finish(found)
    assert not old.exists()
    assert recent.exists()


def test_java_takes_classes_from_what_it_made_and_starts_with_a_broken_one(tmp_path: Path) -> None:
    """With Java's own classes only, so that it takes a second."""
    java, noted = str(find_java().executable), tmp_path / "classes.list"
    subprocess.run([java, f"-XX:DumpLoadedClassList={noted}", "-version"], check=True, capture_output=True)
    found = Archiving(tmp_path / "a.jsa", [java, "-Xshare:dump", "-XX:+UseG1GC", "-Xmx256m"], noted)
    finish(found)
    use = [java, f"-XX:SharedArchiveFile={found.file}", "-XX:+VerifySharedSpaces", "-XX:+UseSerialGC"]
    told = subprocess.run(
        [*use, "-Xshare:on", "-Xlog:class+load", "-version"], check=True, capture_output=True, text=True
    ).stdout
    assert "java.lang.Object source: shared objects file" in told
    found.file.write_bytes(found.file.read_bytes()[:100_000])
    done = subprocess.run(
        [*use, "-Xshare:auto", "-Xlog:cds*=off", "-version"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "archive" not in done.stdout + done.stderr
