"""A lake's folder: where its parts lie, and which folders cannot hold a lake.

Tested here: `lake.folder`. Not tested here: opening a lake (`test_home`).
"""

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


@pytest.mark.parametrize("named", ["file", "file/below"])
def test_a_file_is_no_lake_whatever_its_rights(tmp_path: Path, named: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=f"{tmp_path / 'file'} is a file, and a lake is a folder"):
        open_lake(tmp_path / named)


@pytest.mark.parametrize("name", ["a*", "a?", "a[x]", r"a\b"])
def test_a_path_that_is_a_pattern_is_refused_because_a_copy_beside_it_may_match(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "inner").mkdir(parents=True)
    for root in (tmp_path / name, tmp_path / name / "inner"):
        (root / "lake.toml").write_text(SETTINGS)
        with pytest.raises(SettingsError, match=r"one of \* \? \["):
            open_lake(root)
