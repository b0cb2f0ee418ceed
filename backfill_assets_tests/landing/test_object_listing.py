"""Objects below a prefix are offered and refused as files of a folder are.

Tested here: names and sizes, through the port alone. Not tested here: the listing of a server
(`end_to_end.test_landing_in_bucket`).
"""

from pathlib import Path

import pytest

from backfill_assets.lake.files import Folder
from backfill_assets.landing.listing import list_landing, parse_pattern
from backfill_assets.landing.object_listing import list_objects

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
