"""Where Delta's jars are kept, how they are named, and what a folder without them is.

Tested here: `engine.cache` without any network. Not tested here: fetching (`test_session`) and proving (`test_pins`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.engine.cache import (
    CACHE_VARIABLE,
    cache_folder,
    delta_coordinate,
    delta_jars,
    jars_folder,
    package_version,
    present_jars,
    spark_home,
)


def test_the_folder_is_the_named_one_else_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "named"
    monkeypatch.delenv(CACHE_VARIABLE)
    assert cache_folder() == tmp_path / "xdg" / "backfill-assets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "backfill-assets"


def test_a_cache_where_others_may_put_jars_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    tmp_path.chmod(0o777)
    for use in (cache_folder, present_jars, lambda: delta_jars(Path("java"), ())):
        with pytest.raises(SettingsError, match=f"the cache {tmp_path}"):
            use()


def test_jars_belong_to_the_installed_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert present_jars() == ()
    folder = jars_folder()
    folder.mkdir(parents=True)
    for name in ("b.jar", "a.jar", "half.part"):
        (folder / name).touch()
    assert [jar.name for jar in present_jars()] == ["a.jar", "b.jar"]
    assert delta_coordinate().endswith(f":{package_version('delta-spark')}")


def test_spark_is_found_without_importing_it() -> None:
    assert (spark_home() / "jars").is_dir()


def test_a_package_that_is_missing_is_named_with_what_to_do() -> None:
    with pytest.raises(BackfillError, match="the package no-such-package: it is not installed"):
        package_version("no-such-package")
