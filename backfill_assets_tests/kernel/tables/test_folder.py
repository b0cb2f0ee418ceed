"""A lake's folder: where its parts lie, and which folders cannot hold a lake.
Not here: opening a lake (`test_home`)."""

from pathlib import Path

import pytest

from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.home import open_lake

SETTINGS = 'start_date = 2013-10-01\n[source]\nfiles = "*.csv"\nformat = "csv"\nselect = "seq"\n'


@pytest.mark.parametrize("named", ["file", "file/below"])
def test_a_file_is_no_lake_whatever_its_rights(tmp_path: Path, named: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        SettingsError, match=f"{tmp_path / 'file'} is a file, and a lake is a folder"
    ):
        open_lake(tmp_path / named)


@pytest.mark.parametrize("name", ["a*", "a?", "a[x]", r"a\b"])
def test_a_path_that_is_a_pattern_is_refused_because_a_copy_beside_it_may_match(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name / "inner").mkdir(parents=True)
    for root in (tmp_path / name, tmp_path / name / "inner"):
        (root / "lake.toml").write_text(SETTINGS)
        with pytest.raises(SettingsError, match=r"one of \* \? \["):
            open_lake(root)
