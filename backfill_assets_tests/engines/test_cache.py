"""Delta's jars: where they lie, and that they are as pinned.
Not here: fetching (`test_session`) and a real proxy."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from backfill_assets.engines import cache as room
from backfill_assets.engines.cache import (
    CACHE_VARIABLE,
    cache_folder,
    delta_coordinate,
    delta_jars,
    jars_digest,
    jars_folder,
    present_jars,
    refuse_shared_cache,
    refuse_unpinned_jars,
)
from backfill_assets.engines.jar_pins import PINS
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets_tests.strangers import STRANGER, give_away

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
    monkeypatch.setattr(room, "PINS", {delta_coordinate(): known})
    return folder


def test_a_jar_that_somebody_added_or_altered_is_refused_by_name(cache: Path) -> None:
    (cache / "a-first.jar").write_bytes(b"x")
    with pytest.raises(BackfillError, match=r"a-first\.jar: it is none of io.delta"):
        delta_jars(NO_JAVA, ())
    (cache / "a-first.jar").unlink()
    (cache / NAME).write_bytes(b"more")
    with pytest.raises(
        BackfillError,
        match=rf"the jar .*{NAME}: its sha256 is .* Spark was not started.*remove the",
    ):
        delta_jars(NO_JAVA, ())


def test_jars_are_fetched_again_where_one_is_missing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shutil.copytree(cache, cache.with_name("elsewhere"))
    (cache / NAME).unlink()

    def fetch(_coordinate: str, java: Path, options: Sequence[str], scratch: Path) -> str:
        whole.rename(scratch / "jars")
        return ""

    monkeypatch.setattr(room, "_run_ivy", fetch)
    assert len(delta_jars(NO_JAVA, ())) == len(PINS[delta_coordinate()])


UNKNOWN = "io.delta:delta-spark_4.2_2.13:0.0.0"


def test_jars_of_a_version_without_checksums_are_refused_by_name_with_what_would_trust_them(
    cache: Path,
) -> None:
    jars = present_jars()
    with pytest.raises(
        BackfillError, match=r"0\.0\.0.*knows no checksums.*4\.4\.0.*trust_jars = "
    ) as refused:
        refuse_unpinned_jars(UNKNOWN, jars)
    assert f'trust_jars = "{jars_digest(jars)}" below [spark]' in str(refused.value)
    refuse_unpinned_jars(UNKNOWN, jars, jars_digest(jars))
    (cache / "a-first.jar").write_bytes(b"x")
    with pytest.raises(BackfillError, match="trust_jars names other ones"):
        refuse_unpinned_jars(UNKNOWN, present_jars(), jars_digest(jars))


def test_a_cache_that_cannot_be_used_is_named_with_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(
        BackfillError, match=rf"{tmp_path}/file.*not a directory.*\$BACKFILL_ASSETS_CACHE"
    ):
        delta_jars(NO_JAVA, ())


def test_the_folder_is_the_named_one_else_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "named"
    monkeypatch.delenv(CACHE_VARIABLE)
    assert cache_folder() == tmp_path / "xdg" / "backfill-assets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == (Path.home() / ".cache" / "backfill-assets").resolve()


def test_a_cache_where_others_may_put_jars_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    tmp_path.chmod(0o777)
    for use in (cache_folder, present_jars, lambda: delta_jars(Path("java"), ())):
        with pytest.raises(SettingsError, match=f"the cache {tmp_path}"):
            use()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that is root's")
def test_what_is_roots_may_be_anybodys_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    refuse_shared_cache(tmp_path)


def test_a_cache_open_to_others_or_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    refuse_shared_cache(cache)
    for mode in (0o777, 0o1777, 0o702):
        cache.chmod(mode)
        with pytest.raises(
            SettingsError,
            match=rf"the cache {cache}: {cache} may be written by everyone.*\${CACHE_VARIABLE}",
        ):
            refuse_shared_cache(cache)
    cache.chmod(0o700)
    give_away(tmp_path, monkeypatch)
    with pytest.raises(SettingsError, match="belongs to"):
        refuse_shared_cache(tmp_path / "cache")


def test_a_cache_below_a_folder_open_to_all_is_refused_unless_that_keeps_owners_apart(
    tmp_path: Path,
) -> None:
    for made in (False, True):
        above, cache = tmp_path / "above", tmp_path / "above" / "cache"
        cache.mkdir(parents=True, exist_ok=True) if made else above.mkdir()
        above.chmod(0o777)
        with pytest.raises(SettingsError, match=f"{above} may be written by everyone"):
            refuse_shared_cache(cache)
        above.chmod(0o1777)  # as that of temporary files
        refuse_shared_cache(cache)


def test_a_cache_that_another_group_may_write_is_refused_and_one_of_the_users_own_group_is_not(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o775)
    if os.geteuid() == 0:
        refuse_shared_cache(cache)
        os.chown(cache, -1, STRANGER)
    elif cache.stat().st_gid == os.geteuid():
        refuse_shared_cache(cache)
        return
    with pytest.raises(SettingsError, match="may be written by the group"):
        refuse_shared_cache(cache)
