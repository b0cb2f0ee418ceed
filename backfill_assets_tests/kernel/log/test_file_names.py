"""A name in a log of others is a file of the table, or is refused before anything is opened.

Not here: what each reader of such a log does with a refusal.
"""

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.log.file_names import file_fault, name_fault, unquoted_file_name
from backfill_assets.kernel.place.folder import Folder

HOSTILE = {
    "up": "../private/x.parquet",
    "up in the middle": "d=1/../../private/x.parquet",
    "up, quoted": "%2e%2e/private/x.parquet",
    "absolute": "/etc/passwd",
    "a file URI": "file:///etc/passwd",
    "an address": "s3://bucket/x.parquet",
    "a part without a name": "d=1//x.parquet",
    "the folder itself": "d=1/./x.parquet",
    "nothing": "",
    "NUL": "d=1/x%00.parquet",
    "a line break": "d=1/x%0a.parquet",
    "a sign of C1": "d=1/x\x9b.parquet",
    "no UTF-8": "d=1/x\udcff.parquet",
    "a pattern": "d=1/*.parquet",
    "the log": "_delta_log/00000000000000000000.checkpoint.parquet",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_no_file_of_a_table_has_a_hostile_name(name: str) -> None:
    with pytest.raises(ValueError, match="names the file"):
        unquoted_file_name(name)


@given(st.lists(st.text("abc=%- é", min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_plain_name_is_unquoted_once(parts: list[str]) -> None:
    name = "/".join(parts)
    assert unquoted_file_name(quote(name, safe="/=")) == name


@given(st.text("./ab\0\n", max_size=8))
def test_a_name_that_passes_stays_below_the_folder(name: str) -> None:
    if not name_fault(name):
        assert os.path.normpath(f"/table/{name}") == f"/table/{name}"


def test_a_file_behind_a_link_a_pipe_and_a_folder_are_none_of_the_tables(tmp_path: Path) -> None:
    table, private = tmp_path / "t", tmp_path / "private"
    for folder in (table / "d=1", private):
        folder.mkdir(parents=True)
    (private / "x.parquet").write_bytes(b"secret")
    (table / "d=1" / "own.parquet").write_bytes(b"own")
    (table / "d=1" / "link.parquet").symlink_to(private / "x.parquet")
    (table / "linked").symlink_to(private)
    os.mkfifo(table / "d=1" / "pipe.parquet")
    place = Folder(str(table))
    assert file_fault(place, ["d=1/own.parquet", "d=1/gone.parquet", "gone/x.parquet"]) == ""
    for name, why in {
        "d=1/link.parquet": "which lies behind a link",
        "linked/x.parquet": "which lies behind a link",
        "d=1/pipe.parquet": "which is no regular file",
        "d=1": "which is no regular file",
    }.items():
        assert file_fault(place, [name]) == f"names the file {name}, {why}"


def test_the_lakes_own_link_leads_to_others_but_no_further(tmp_path: Path) -> None:
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    own.mkdir()
    theirs.mkdir()
    (theirs / "x.parquet").write_bytes(b"")
    (theirs / "y.parquet").symlink_to(tmp_path / "z.parquet")
    (own / "others-12345678").symlink_to(theirs)
    place = Folder(str(own))
    assert (
        file_fault(place, ["others-12345678/x.parquet", "s3://bucket/t/x.parquet"], is_lakes=True)
        == ""
    )
    assert "behind a link" in file_fault(place, ["others-12345678/y.parquet"], is_lakes=True)
    assert "leads out" in file_fault(place, ["others-12345678/../x.parquet"], is_lakes=True)
    assert "leads out" in file_fault(place, ["s3://bucket/t/../x.parquet"], is_lakes=True)


def test_in_a_table_that_was_adopted_no_name_leads_away(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "_delta_log" / f".adopted.{3:020d}").touch()
    (tmp_path / "t" / "others-12345678").symlink_to(tmp_path)
    place = Folder(str(tmp_path / "t"))
    assert "behind a link" in file_fault(place, ["others-12345678/x.parquet"], is_lakes=True)
    assert "lies elsewhere" in file_fault(place, ["s3://bucket/t/x.parquet"], is_lakes=True)


def test_in_a_log_of_others_no_link_is_the_lakes(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "others-12345678").symlink_to(tmp_path)
    assert "behind a link" in file_fault(Folder(str(tmp_path / "t")), ["others-12345678/x.parquet"])
    assert "lies elsewhere" in file_fault(Folder(str(tmp_path / "t")), ["s3://bucket/t/x.parquet"])


@pytest.mark.parametrize(
    "name", ["../private/x.parquet", "d=1/../../private/x.parquet", "./../private/x.parquet"]
)
def test_the_lakes_own_log_leads_to_others_by_its_own_links_alone(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "x.parquet").write_bytes(b"secret")
    (tmp_path / "own" / "d=1").mkdir(parents=True)
    assert file_fault(Folder(str(tmp_path / "own")), [name], is_lakes=True)
