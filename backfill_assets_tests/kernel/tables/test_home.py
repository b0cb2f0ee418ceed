"""A lake's folder: where its parts lie, and what of a lake in a bucket is on this machine once it
is open. Not here: the settings it loads (`test_settings.py`)."""

import os
import stat
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets import LakeSettings, reading
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.folder import OWN_FOLDERS
from backfill_assets.kernel.tables.home import fetch_own_files, open_lake, refuse_unreachable
from backfill_assets.reconcile.reconcile import fetched_path
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


@pytest.mark.parametrize(
    ("readers", "folder", "file"), [("owner", 0o700, 0o600), ("group", 0o750, 0o640)]
)
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


@pytest.mark.parametrize("first", [0o077, 0o027])
def test_a_lake_that_is_opened_beside_another_gives_nobody_more_rights(
    tmp_path: Path, first: int
) -> None:
    """A page or record of the first may hold rows of both."""
    readers = {0o077: "owner", 0o027: "group"}[first]
    for name, who in (("first", readers), ("second", "everyone")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lake.toml").write_text(f'{SETTINGS}[access]\nreaders = "{who}"\n')
    before = os.umask(0o022)
    try:
        open_lake(tmp_path / "first")
        open_lake(tmp_path / "second", is_further=True)
        assert os.umask(before) == first
    finally:
        os.umask(before)


SELECT = "id AS event_key, at AS event_ts, at AS arrival_ts, 0 AS seq, entity, value, flag"


def settings(files: str = "/landing/*.csv", **others: Any) -> LakeSettings:
    source = {"files": files, "format": "csv", "select": SELECT}
    return LakeSettings.model_validate({"start_date": date(2024, 3, 1), "source": source, **others})


@pytest.mark.parametrize("files", ["/landing/*.csv", "landing/*.csv", "s3://other/landing/*.csv"])
def test_settings_that_need_no_folder_of_the_lake_are_taken(files: str) -> None:
    refuse_unreachable(
        local_root("s3://bucket/lake"), settings(files, spark={"engine": "sc://host:15002"})
    )


def test_own_files_and_the_frozen_code_that_a_plan_works_by_are_on_this_machine_as_they_are_now(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    root = local_root(bucket_address)
    place = place_at(root)
    names = [
        "lake.toml",
        "own.py",
        "lib/more.py",
        ".plans/code/abc1/own.py",
        ".plans/code/abc1/sql/a.sql",
    ]
    for name in (*names, ".plans/code/def2/own.py", "tables/raw/x.py"):
        place.write(name, name.encode())
    of_plan = settings(
        pipeline={"tables": ".plans/code/abc1/own.py:tables", "sql": ".plans/code/abc1/sql/*.sql"}
    )
    fetch_own_files(root, of_plan)
    here = Folder(str(root))
    assert {n: here.read(n).decode() for n in here.below() if not n.startswith(".bucket/")} == {
        n: n for n in names
    }
    place.delete("lib/more.py")
    place.write("own.py", b"changed")
    fetch_own_files(root, settings(pipeline={"tables": "own.py:tables"}))
    assert here.read("own.py") == b"changed"
    assert not (root / "lib" / "more.py").exists()


def test_a_file_that_people_keep_in_a_lake_is_read_as_it_is_now(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    root = local_root(bucket_address)
    for content in (b"day,value\n", b"day,value\n2024-03-01,1\n"):
        place_at(root).write("expected/totals.csv", content)
        assert fetched_path(root, "expected/totals.csv").read_bytes() == content
    assert not fetched_path(root, "none.csv").exists()
    assert fetched_path(tmp_path, "a.csv") == tmp_path / "a.csv"


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (
            settings(tables={"orders": {"external": "/orders", "day": "day"}}),
            r"\[tables.orders\] external = '/orders' lies in a folder",
        )
    ],
    ids=["tables of others"],
)
def test_settings_that_cannot_work_in_a_bucket_are_refused_by_name(
    refused: LakeSettings, why: str
) -> None:
    with pytest.raises(SettingsError, match=f"s3://bucket/lake/lake.toml.*{why}"):
        refuse_unreachable(local_root("s3://bucket/lake"), refused)


@pytest.mark.parametrize(
    "engine", ["sc://host:15002/;token=hunter2", "spark://host:7077", "yarn", "k8s://host"]
)
def test_engines_elsewhere_reach_lakes_in_s3_and_are_refused_for_other_stores(engine: str) -> None:
    refuse_unreachable(local_root("s3://bucket/lake"), settings(spark={"engine": engine}))
    with pytest.raises(
        SettingsError, match=r"az://bucket/lake/lake.toml.*reach lakes in S3 only"
    ) as refused:
        refuse_unreachable(local_root("az://bucket/lake"), settings(spark={"engine": engine}))
    assert "hunter2" not in str(refused.value)
