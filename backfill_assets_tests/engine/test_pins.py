"""Delta's jars against their pins. Tested here: altered, foreign and missing jars. Not tested here: fetching them."""

import hashlib
import shutil
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.engine import cache as room
from backfill_assets.engine import pins
from backfill_assets.engine.cache import CACHE_VARIABLE, delta_coordinate, delta_jars, jars_folder
from backfill_assets.engine.pins import PINS, prove

NAME = "io.delta_delta-storage-4.4.0.jar"
NO_JAVA = Path("no java is needed")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache whose jars are small files that are pinned as they are."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    folder = jars_folder()
    folder.mkdir(parents=True)
    known = {}
    for name in PINS[delta_coordinate()]:
        (folder / name).write_bytes(name.encode())
        known[name] = hashlib.sha256(name.encode()).hexdigest()
    monkeypatch.setattr(pins, "PINS", {delta_coordinate(): known})
    return folder


def test_the_installed_versions_are_pinned() -> None:
    assert delta_coordinate() in PINS


def test_jars_as_pinned_are_used(cache: Path) -> None:
    assert {jar.name for jar in delta_jars(NO_JAVA, ())} == set(PINS[delta_coordinate()])


def test_an_altered_jar_is_refused_by_name(cache: Path) -> None:
    with (cache / NAME).open("ab") as jar:
        jar.write(b"more")
    with pytest.raises(BackfillError, match=rf"the jar .*{NAME}: its sha256 is .* Spark was not started.*remove the"):
        delta_jars(NO_JAVA, ())


def test_a_jar_that_somebody_added_is_refused_by_name(cache: Path) -> None:
    (cache / "a-first.jar").write_bytes(b"x")
    with pytest.raises(BackfillError, match=r"a-first\.jar: it is none of Delta's"):
        delta_jars(NO_JAVA, ())


def test_jars_are_fetched_again_where_one_is_missing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shutil.copytree(cache, cache.with_name("elsewhere"))
    (cache / NAME).unlink()
    monkeypatch.setattr(room, "_fetched", lambda java, options, scratch: whole)
    assert len(delta_jars(NO_JAVA, ())) == len(PINS[delta_coordinate()])


def test_versions_without_pins_are_refused(cache: Path) -> None:
    with pytest.raises(BackfillError, match="does not know what they must contain"):
        prove("io.delta:delta-spark_4.2_2.13:0.0.0", [cache / NAME])


def test_a_cache_folder_that_cannot_be_used_is_one_line_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(BackfillError, match=rf"{tmp_path}/file.*not a directory.*\$BACKFILL_ASSETS_CACHE"):
        delta_jars(NO_JAVA, ())
