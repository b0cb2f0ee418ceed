"""A lake's folder: where its parts lie.
Not here: the settings it loads (`test_settings.py`)."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets import reading
from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.folder import OWN_FOLDERS
from backfill_assets.lake.home import open_lake
from backfill_assets_tests.strangers import give_away

SETTINGS = 'start_date = 2013-10-01\n[source]\nfiles = "*.csv"\nformat = "csv"\nselect = "seq"\n'


@pytest.mark.parametrize("door", [open_lake, reading.open_lake])
def test_a_lake_of_another_user_is_refused_before_its_settings_are_read_or_a_file_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: Callable[[Path], object]
) -> None:
    (tmp_path / "lake.toml").write_text(f'{SETTINGS}[pipeline]\ntables = "evil.py:tables"\n')
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables").chmod(0o755)
    give_away(tmp_path / "lake.toml", monkeypatch)
    with pytest.raises(SettingsError, match="belongs to"):
        door(tmp_path)
    assert not (tmp_path / "ran").exists()
    assert stat.S_IMODE((tmp_path / "tables").stat().st_mode) == 0o755
    (tmp_path / "lake.toml").write_text("no TOML")
    with pytest.raises(SettingsError, match="belongs to"):
        door(tmp_path)


def test_opening_a_lake_takes_no_rights_from_a_folder_that_a_link_leads_to(tmp_path: Path) -> None:
    root, theirs = tmp_path / "lake", tmp_path / "theirs"
    for folder in (root, theirs):
        folder.mkdir()
    theirs.chmod(0o755)
    (root / "lake.toml").write_text(SETTINGS)
    for name in OWN_FOLDERS:
        (root / name).symlink_to(theirs)
    open_lake(root)
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755


@pytest.mark.parametrize(("readers", "folder", "file"), [("owner", 0o700, 0o600), ("group", 0o750, 0o640)])
def test_what_is_written_is_readable_by_those_whom_it_names(
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
