"""Where a source's deliveries lie, by what `lake.toml` says and where the lake lies.
Not here: what is listed (`intake.test_listing`), and tables (`test_source_log`)."""

from pathlib import Path

import pytest

from backfill_assets.intake.landings import (
    deliveries_root,
    is_in_bucket,
    list_files,
    local_roots,
    resolved_path,
    source_table,
)
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets_tests.landed import land


def source(files: str) -> SourceSettings:
    return SourceSettings(files=files, format="csv", select="*")


@pytest.mark.parametrize(
    ("files", "of_folder", "of_bucket"),
    [
        ("in/**", False, True),
        ("/data/in/**", False, False),
        ("s3://other/in/**", True, True),
        ("gs://b/*.csv", True, True),
    ],
)
def test_a_relative_glob_begins_where_the_lake_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str, of_folder: bool, of_bucket: bool
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    far = local_root("s3://bucket/lake")
    assert (is_in_bucket(source(files), tmp_path), is_in_bucket(source(files), far)) == (
        of_folder,
        of_bucket,
    )
    assert local_roots([source(files)], tmp_path) == (
        [] if of_folder else [deliveries_root(source(files), tmp_path)]
    )


def of(table: str) -> SourceSettings:
    return SourceSettings.model_validate({"table": table, "select": "*"})


@pytest.mark.whole_house
@pytest.mark.parametrize(
    ("table", "of_folder", "of_bucket"),
    [
        ("../raw/orders", "{lake}/../raw/orders", "s3://bucket/raw/orders"),
        ("/data/orders", "/data/orders", "/data/orders"),
        ("file:///data/a%20b", "/data/a b", "/data/a b"),
        ("az://other/orders/", "az://other/orders", "az://other/orders"),
    ],
)
def test_a_relative_table_lies_beside_its_lake_in_the_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, of_folder: str, of_bucket: str
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    far, of_table = local_root("s3://bucket/lake"), of(table)
    found = [str(source_table(of_table, base)) for base in (tmp_path, far)]
    assert found == [of_folder.format(lake=tmp_path), of_bucket]
    assert [is_in_bucket(of_table, base) for base in (tmp_path, far)] == [
        "://" in place for place in found
    ]
    with pytest.raises(
        SettingsError, match=r"\[source\] table = 's3://b/a b'.*no address.*Nothing was read"
    ):
        source_table(of("s3://b/a b"), far)


def test_files_of_a_folder_are_listed_and_a_file_uri_is_a_path(tmp_path: Path) -> None:
    land(tmp_path / "in", "a.csv", b"1")
    assert [f.name for f in list_files("in/*.csv", tmp_path, "csv").files] == ["a.csv"]
    assert deliveries_root(source("in/*.csv"), tmp_path) == tmp_path / "in"
    assert [resolved_path(named, tmp_path) for named in ("t", "file:///a%20b")] == [
        tmp_path / "t",
        Path("/a b"),
    ]
