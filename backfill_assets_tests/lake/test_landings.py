"""Where a source's deliveries lie, by what `lake.toml` says and where the lake lies.
Objects below a prefix are offered and refused as files of a folder are. Not here: what is listed in a folder
(`landing.test_listing`), by a server (`end_to_end.test_landing_in_bucket`), and tables (`test_source_log`)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.place import Token
from backfill_assets.lake.landings import (
    MANY,
    WHOLE_SECONDS,
    is_in_bucket,
    list_files,
    list_objects,
    listed,
    path_of,
    root_of,
    roots_here,
    table_of,
)
from backfill_assets.lake.sections import SourceSettings
from backfill_assets.landing.listing import list_landing, parse_pattern
from backfill_assets.places.folder import Folder
from backfill_assets_tests.lake.landed import land


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
    assert (is_in_bucket(source(files), tmp_path), is_in_bucket(source(files), far)) == (of_folder, of_bucket)
    assert roots_here([source(files)], tmp_path) == ([] if of_folder else [root_of(source(files), tmp_path)])


def of(table: str) -> SourceSettings:
    return SourceSettings.model_validate({"table": table, "select": "*"})


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
    found = [str(table_of(of_table, base)) for base in (tmp_path, far)]
    assert found == [of_folder.format(lake=tmp_path), of_bucket]
    assert [is_in_bucket(of_table, base) for base in (tmp_path, far)] == ["://" in place for place in found]
    with pytest.raises(SettingsError, match=r"\[source\] table = 's3://b/a b'.*no address.*Nothing was read"):
        table_of(of("s3://b/a b"), far)


def test_files_of_a_folder_are_listed_and_a_file_uri_is_a_path(tmp_path: Path) -> None:
    land(tmp_path / "in", "a.csv", b"1")
    assert [f.name for f in list_files("in/*.csv", tmp_path, "csv").files] == ["a.csv"]
    assert root_of(source("in/*.csv"), tmp_path) == tmp_path / "in"
    assert [path_of(named, tmp_path) for named in ("t", "file:///a%20b")] == [tmp_path / "t", Path("/a b")]


NAMES = (
    "a.csv", "A.CSV", "b.txt", ".hidden.csv", "_half.csv", "c.csv.tmp", "d.csv.gz", "dt=2024-03-01/a b%20+=ü.csv",
    "dt=2024-03-01/_manifest.csv", "dt=2024-03-01/x/y/z.csv", "_tmp/a.csv", "_tmp/b.csv", "a.csv.totals.json",
    "none.csv.gz", "e\x07.csv", "f/.g/h.csv",
)  # fmt: skip


@pytest.mark.parametrize("pattern", ["**", "**/*.csv", "*.csv", "dt=*/*.csv", "dt=*/**/*.csv", "a.csv", "gone.csv"])
def test_the_same_names_are_read_and_the_same_refused_for_the_same_reasons(tmp_path: Path, pattern: str) -> None:
    for name in NAMES:
        (path := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name.startswith("none") else b"a\n1\n")
    of_files = list_landing(pattern, tmp_path, "csv")
    of_objects = list_objects(parse_pattern(f"s3://bucket/in/{pattern}", tmp_path), Folder(str(tmp_path)), "csv")
    for kind in ("files", "manifests"):
        one, other = ([(f.name, f.size) for f in getattr(found, kind)] for found in (of_objects, of_files))
        assert one == other
    assert {r.name: r.reason for r in of_objects.refused} == {r.name: r.reason for r in of_files.refused}
    assert not of_objects.root_missing


def test_an_empty_object_in_place_of_a_folder_is_no_file_and_an_empty_prefix_is_no_root(tmp_path: Path) -> None:
    glob, root = parse_pattern("az://box/in/**", tmp_path), Folder(str(tmp_path))
    assert list_objects(glob, root, "csv").root_missing
    root.write("orders", b"")
    root.write("notes", b"1")
    found = list_objects(glob, root, "csv")
    assert ([r.name for r in found.refused], found.root_missing) == (["notes"], False)


@dataclass(frozen=True)
class Counted(Folder):
    """A place with these tokens, which notes from where it was listed."""

    names_of: Callable[[], Iterable[str]] = tuple
    asked: list[str] = field(default_factory=list, compare=False)

    def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
        self.asked.append(after)
        return {name: Token((name,), 1, 0.0) for name in self.names_of() if name > after}


def of_days(folder: str = "") -> list[str]:
    days = (date(2024, 3, 1) + timedelta(n) for n in range(20))
    return [f"{folder}dt={day}/{number:04d}.csv" for day in days for number in range(MANY // 20)]


def test_of_many_objects_the_last_days_are_listed_and_all_of_them_once_in_ten_minutes(tmp_path: Path) -> None:
    names = of_days()
    root = Counted(str(tmp_path / "ascending"), lambda: names)
    assert len(listed(root, 0)) == MANY
    names += ["dt=2024-03-20/new.csv", "dt=2024-03-02/late.csv"]
    names.remove("dt=2024-03-19/0000.csv")
    found = listed(root, 1)
    assert found.keys() ^ names == {"dt=2024-03-02/late.csv"}
    assert listed(root, WHOLE_SECONDS).keys() == {*names}
    assert root.asked == ["", "dt=2024-03-12/0499.csv", ""]


@pytest.mark.parametrize(
    "names", [of_days()[1:], of_days("b/") + of_days("a/"), [*of_days(), "x.csv"]], ids=["few", "two", "dayless"]
)
def test_few_objects_and_names_that_do_not_ascend_by_day_are_listed_whole(tmp_path: Path, names: list[str]) -> None:
    root = Counted(str(tmp_path / str(len(names))), lambda: names)
    for now in range(2):
        assert listed(root, now).keys() == {*names}
    assert root.asked == ["", ""]
