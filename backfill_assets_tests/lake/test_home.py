"""A lake's folder: where its parts lie.

Tested here: `lake.home`. Not tested here: the settings it loads (`test_settings.py`).
"""

import os
import stat
from pathlib import Path

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.home import open_lake

SETTINGS = 'start_date = 2013-10-01\n[source]\nfiles = "*.csv"\nformat = "csv"\nselect = "seq"\n'


def test_tables_stock_and_locks_lie_in_different_folders_of_the_lake(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(SETTINGS)
    lake = open_lake(tmp_path)
    places = {lake.table_path("raw"), lake.stock, lake.locks}
    assert len(places) == 3
    assert all(p.is_relative_to(lake.root) for p in places)
    assert not lake.locks.is_relative_to(lake.table_path("raw").parent)


def test_a_lake_is_known_by_its_absolute_folder(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(SETTINGS)
    (tmp_path / "elsewhere").mkdir()
    assert open_lake(tmp_path / "elsewhere" / "..").root == tmp_path.resolve()


def test_a_link_to_a_lake_is_that_lake(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "lake.toml").write_text(SETTINGS)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert open_lake(tmp_path / "link") == open_lake(tmp_path / "real")


def test_a_folder_without_settings_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"it has no lake\.toml"):
        open_lake(tmp_path)


@pytest.mark.parametrize("named", ["file", "file/below"])
def test_a_file_is_no_lake_whatever_its_rights(tmp_path: Path, named: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=f"{tmp_path / 'file'} is a file, and a lake is a folder"):
        open_lake(tmp_path / named)


@pytest.mark.parametrize(("readers", "folder", "file"), [("owner", 0o700, 0o600), ("group", 0o750, 0o640)])
def test_what_is_written_to_a_lake_is_readable_by_those_only_whom_it_names(
    tmp_path: Path, readers: str, folder: int, file: int
) -> None:
    root = tmp_path / "lake"
    for name in ("tables", "landing"):
        (root / name).mkdir(parents=True)
        (root / name).chmod(0o755)
    (root / "lake.toml").write_text(f'{SETTINGS}[access]\nreaders = "{readers}"\n')
    before = os.umask(0o022)
    try:
        open_lake(root)
        (root / "new").write_text("")
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in root.iterdir()}
    assert (modes["tables"], modes["new"]) == (folder, file)
    assert modes["landing"] == 0o755  # the provider's, not ours


@pytest.mark.parametrize("name", ["a*", "a?", "a[x]"])
def test_a_path_that_is_a_pattern_is_refused_because_a_copy_beside_it_may_match(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "inner").mkdir(parents=True)
    for root in (tmp_path / name, tmp_path / name / "inner"):
        (root / "lake.toml").write_text(SETTINGS)
        with pytest.raises(SettingsError, match=r"one of \* \? \["):
            open_lake(root)
