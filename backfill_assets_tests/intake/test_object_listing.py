"""Objects below a prefix are offered and refused as files of a folder are.

Tested here: names and sizes, through the port alone. Not tested here: the listing of a server
(`end_to_end.test_landing_in_bucket`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.intake.listing import list_landing, parse_pattern
from backfill_assets.intake.object_listing import (
    MANY,
    NO_PATH,
    WHOLE_SECONDS,
    list_objects,
    listed_tokens,
    seconds_between,
)
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import OddKeys, Token

NAMES = (
    "a.csv",
    "A.CSV",
    "b.txt",
    ".hidden.csv",
    "_half.csv",
    "c.csv.tmp",
    "d.csv.gz",
    "dt=2024-03-01/a b%20+=ü.csv",
    "dt=2024-03-01/_manifest.csv",
    "dt=2024-03-01/x/y/z.csv",
    "_tmp/a.csv",
    "_tmp/b.csv",
    "a.csv.totals.json",
    "none.csv.gz",
    "e\x07.csv",
    "f/.g/h.csv",
)


@pytest.mark.parametrize(
    "pattern", ["**", "**/*.csv", "*.csv", "dt=*/*.csv", "dt=*/**/*.csv", "a.csv", "gone.csv"]
)
def test_the_same_names_are_read_and_the_same_refused_for_the_same_reasons(
    tmp_path: Path, pattern: str
) -> None:
    for name in NAMES:
        (path := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name.startswith("none") else b"a\n1\n")
    of_files = list_landing(pattern, tmp_path, "csv")
    of_objects = list_objects(
        parse_pattern(f"s3://bucket/in/{pattern}", tmp_path), Folder(str(tmp_path)), "csv"
    )
    for kind in ("files", "manifests"):
        one, other = (
            [(f.name, f.size) for f in getattr(found, kind)] for found in (of_objects, of_files)
        )
        assert one == other
    assert {r.name: r.reason for r in of_objects.refused} == {
        r.name: r.reason for r in of_files.refused
    }
    assert not of_objects.root_missing


def test_an_empty_object_in_place_of_a_folder_is_no_file_and_an_empty_prefix_is_no_root(
    tmp_path: Path,
) -> None:
    glob, root = parse_pattern("az://box/in/**", tmp_path), Folder(str(tmp_path))
    assert list_objects(glob, root, "csv").root_missing
    root.write("orders", b"")
    root.write("notes.md", b"1")
    found = list_objects(glob, root, "csv")
    assert ([r.name for r in found.refused], found.root_missing) == (["notes.md"], False)


class OddlyNamed(Folder):
    """A place whose listing has keys that are no paths."""

    def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
        keys = {
            name: Token((name,), 1, 0.0) for name in ("a.csv", "/x.csv", "b/../y.csv", "z\r.csv")
        }
        raise OddKeys("s3://bucket/in", "an odd name", "Nothing", "Delete it").with_listing(keys)


def test_keys_that_are_no_paths_are_refused_one_by_one_and_the_others_offered(
    tmp_path: Path,
) -> None:
    found = list_objects(
        parse_pattern("s3://bucket/in/**", tmp_path), OddlyNamed(str(tmp_path)), "csv"
    )
    assert [f.name for f in found.files] == ["a.csv"]
    assert {r.name: r.reason for r in found.refused} == dict.fromkeys(
        ["/x.csv", "b/../y.csv", "z\\x0d.csv"], NO_PATH
    )


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


def test_of_many_objects_the_last_days_are_listed_and_all_of_them_once_in_ten_minutes(
    tmp_path: Path,
) -> None:
    names = of_days()
    root = Counted(str(tmp_path / "ascending"), lambda: names)
    assert len(listed_tokens(root, 0)) == MANY
    names += ["dt=2024-03-20/new.csv", "dt=2024-03-02/late.csv"]
    names.remove("dt=2024-03-19/0000.csv")
    found = listed_tokens(root, 1)
    assert found.keys() ^ names == {"dt=2024-03-02/late.csv"}
    assert listed_tokens(root, WHOLE_SECONDS).keys() == {*names}
    assert root.asked == ["", "dt=2024-03-12/0499.csv", ""]


@pytest.mark.parametrize(("took", "pause"), [(1.0, 600.0), (60.0, 6_000.0), (3_600.0, 86_400.0)])
def test_listing_all_takes_a_hundredth_of_the_time_and_happens_once_a_day(
    took: float, pause: float
) -> None:
    assert seconds_between(took) == pause


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [of_days()[1:], of_days("b/") + of_days("a/"), [*of_days(), "x.csv"]],
    ids=["few", "two", "dayless"],
)
def test_few_objects_and_names_that_do_not_ascend_by_day_are_listed_whole(
    tmp_path: Path, names: list[str]
) -> None:
    root = Counted(str(tmp_path / str(len(names))), lambda: names)
    for now in range(2):
        assert listed_tokens(root, now).keys() == {*names}
    assert root.asked == ["", ""]
