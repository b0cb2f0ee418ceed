"""Java's archive of a server's classes: its name, the flags, and the program that makes it once.
Not here: when a server has ended (`test_supervisor`), and what it saves (`jvm` says it)."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from backfill_assets.engines.class_archive import (
    LIST_FILE,
    archive_flags,
    archive_place,
    begin_archive,
    dump_command,
    make_archive,
)
from backfill_assets.engines.jvm import find_java

A_MONTH = 31 * 86_400
WRITING = """
import sys
names = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
open(names["-XX:SharedArchiveFile"], "w").write(open(names["-XX:SharedClassListFile"]).read())
sys.exit({code})
"""


def a_home(folder: Path, release: str = "17.0.1") -> Path:
    """A home of Java, and beside it a folder with one jar."""
    (folder / "jars").mkdir(parents=True, exist_ok=True)
    (folder / "release").write_text(f'JAVA_VERSION="{release}"\n')
    (folder / "jars" / "spark.jar").write_text("a jar")
    return folder


def a_command(folder: Path, archive: Path, code: int = 0) -> list[str]:
    """One that stands for Java: it writes the list into the archive and ends with this code."""
    program = folder / "java"
    program.write_text(f"#!{sys.executable}\n{WRITING.format(code=code)}")
    program.chmod(0o755)
    return [str(program), "-cp", "jars/*", str(archive)]


def test_an_archive_is_of_one_java_and_of_the_jars_as_they_are(tmp_path: Path) -> None:
    home = a_home(tmp_path / "java")
    jars = [f"{home}/jars/*", ""]
    first = archive_place(tmp_path, home, jars)
    assert archive_place(tmp_path, home, jars) == first
    (home / "jars" / "spark.jar").write_text("another jar")
    second = archive_place(tmp_path, home, jars)
    a_home(tmp_path / "java", "17.0.2")
    os.utime(home / "jars" / "spark.jar", (0, 0))
    assert len({first, second, archive_place(tmp_path, home, jars)}) == 3


def test_a_server_lists_its_classes_until_there_is_an_archive_and_then_uses_it(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "a.jsa"
    assert archive_flags(archive, []) == [f"-XX:DumpLoadedClassList={LIST_FILE}"]
    archive.touch()
    assert archive_flags(archive, ["-Dx=y"])[0] == f"-XX:SharedArchiveFile={archive}"


@pytest.mark.parametrize("option", ["-Xshare:off", "-javaagent:a.jar"])
def test_who_says_to_java_what_to_share_is_not_contradicted(tmp_path: Path, option: str) -> None:
    assert archive_flags(tmp_path / "a.jsa", [option]) == []


def test_an_archive_appears_whole_or_not_at_all(tmp_path: Path, processes: None) -> None:
    archive, listed = tmp_path / "a.jsa", tmp_path / "a.1.lst"
    listed.write_text("java/lang/Object")
    assert not make_archive(a_command(tmp_path, archive, code=1), listed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["java", "lock"]
    listed.write_text("java/lang/Object")
    assert make_archive(a_command(tmp_path, archive), listed)
    assert archive.read_text() == "java/lang/Object"
    assert not listed.exists()


def test_while_one_program_makes_an_archive_no_other_does(tmp_path: Path, processes: None) -> None:
    archive, listed = tmp_path / "a.jsa", tmp_path / "a.1.lst"
    listed.write_text("java/lang/Object")
    with FileLock(tmp_path / "lock"):
        (tmp_path / "a.making").write_text("half")
        assert not make_archive(a_command(tmp_path, archive), listed)
    assert (tmp_path / "a.making").read_text() == "half", "it is the other one's"
    assert not listed.exists()


def test_what_no_server_has_used_for_a_month_is_deleted(tmp_path: Path, processes: None) -> None:
    for name in ("of before.jsa", "used.jsa"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "of before.jsa", (time.time() - A_MONTH,) * 2)
    os.utime(tmp_path / "used.jsa", (time.time() - A_MONTH,) * 2)
    archive_flags(tmp_path / "used.jsa", [])
    (tmp_path / "a.1.lst").write_text("java/lang/Object")
    make_archive(a_command(tmp_path, tmp_path / "a.jsa"), tmp_path / "a.1.lst")
    assert sorted(path.name for path in tmp_path.glob("*.jsa")) == ["a.jsa", "used.jsa"]


def test_where_an_archive_is_there_or_no_class_was_listed_nothing_is_begun(tmp_path: Path) -> None:
    archive = tmp_path / "cache" / "a.jsa"
    begin_archive(["no such program", str(archive)], tmp_path / LIST_FILE)
    assert list(archive.parent.iterdir()) == []
    archive.touch()
    (tmp_path / LIST_FILE).touch()
    begin_archive(["no such program", str(archive)], tmp_path / LIST_FILE)
    assert (tmp_path / LIST_FILE).exists()


def test_java_itself_accepts_the_archive_that_it_made(tmp_path: Path, processes: None) -> None:
    java = find_java().executable
    archive, listed = tmp_path / "a.jsa", tmp_path / "a.1.lst"
    listed.write_text("java/lang/Object\njava/lang/String\n")
    assert make_archive(dump_command(java, archive, ""), listed)
    told = [
        str(java),
        f"-XX:SharedArchiveFile={archive}",
        "-Xshare:on",
        "-XX:+UseSerialGC",
        "-version",
    ]
    subprocess.run(told, check=True, capture_output=True)
