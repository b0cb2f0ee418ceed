"""Listing the landing folder: what a pattern means, and which files are offered or refused.

Lives here: tests of `intake.listing`. Does not live here: reading files (`test_files`) and
contents (`test_ingest`).
"""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.intake.listing import Listing, list_landing, parse_pattern
from backfill_assets.intake.text_lines import Limits
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.landed import land, names, refusals

BASE = Path("/lake")


@pytest.mark.parametrize(
    ("pattern", "root"),
    [
        ("landing/*.csv", "/lake/landing"),
        ("landing/day=*/x.csv", "/lake/landing"),
        ("*.csv", "/lake"),
        ("/data/in/**/*.csv", "/data/in"),
        ("landing/one.csv", "/lake/landing"),
        ("../in/[ab].csv", "/lake/../in"),
        ("s3://bucket/in/**/*.csv", "/bucket/in"),
        ("az://box/*.csv", "/box"),
    ],
)
def test_the_fixed_root_is_the_longest_folder_without_wildcard(pattern: str, root: str) -> None:
    assert parse_pattern(pattern, BASE).root == Path(root)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.csv", ["a.csv"], ["A.CSV", "a/b.csv"]),
        ("**/*.csv", ["b.csv", "a/b/c.csv"], []),
        ("**", ["a/b/c.csv"], []),
        ("*/**/x?.csv", ["a/x1.csv"], ["x1.csv"]),
        ("day=*/[ab].csv", ["day=1/a.csv"], []),
        ("day=*/[!ab].csv", [], ["day=1/a.csv"]),
        ("a[!x]b.csv", [], ["a/b.csv"]),
        ("one.csv", ["one.csv"], ["two.csv"]),
    ],
)
def test_a_wildcard_stays_in_its_folder_and_two_do_not(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    assert [
        name for name in [*matching, *others] if parse_pattern(pattern, BASE).matches(name)
    ] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "landing/",
        "landing/{a,b}.csv",
        "landing/*/../x.csv",
        "a\0b",
        "s3://bucket",
        "s3://b*/a.csv",
        "s3://b//a.csv",
        "s3://b/../a.csv",
        "ftp://b/a.csv",
    ],
)
def test_a_pattern_that_cannot_be_meant_is_a_setting_to_correct(pattern: str) -> None:
    with pytest.raises(SettingsError, match=r"landing/\*\*/\*\.csv"):
        parse_pattern(pattern, BASE)


def test_a_listed_file_says_its_place_size_and_time(tmp_path: Path) -> None:
    landed = land(tmp_path / "landing", "a/b.csv", b"x\n1\n")
    listing = list_landing("landing/**/*.csv", tmp_path, "csv")
    assert listing == Listing(
        files=(replace(landed, name="a/b.csv", path=tmp_path / "landing/a/b.csv"),)
    )


def test_whatever_lies_there_is_offered_or_refused_with_its_reason_and_never_silent(
    tmp_path: Path,
) -> None:
    landed = (
        "day-1.csv",
        "_SUCCESS.csv",
        ".hidden.csv",
        "_temporary/a.csv",
        "_temporary/b.csv",
        "other.csv",
        "day-2.parquet",
        "day-3.md5",
        "archive/old/a.csv",
    )
    for name in landed:
        land(tmp_path, name, b"x")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")  # which nobody may open
    for raw in (b"caf\xe9.csv", b"line\nbreak.csv"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw)).write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s.csv"))
        assert names("day-*", tmp_path) == ["day-1.csv"]
        found = refusals("day-*", tmp_path)
    assert {name: found.pop(name) for name in ("pipe.csv", "s.csv")} == dict.fromkeys(
        ("pipe.csv", "s.csv"), "not a regular file"
    )
    assert all(
        "hidden" in found.pop(name) for name in ("_SUCCESS.csv", ".hidden.csv", "_temporary/")
    )
    assert found == {
        "day-2.parquet": "its name is of another kind: it does not end in .csv or .csv.gz",
        "day-3.md5": "its name is of another kind: it does not end in .csv or .csv.gz",
        "other.csv": "does not match the pattern",
        "archive/": "a folder that the pattern does not reach into (** reaches into all)",
        "caf\\xe9.csv": "its name is not UTF-8",
        "line\\x0abreak.csv": "its name has control characters",
    }


def test_the_glob_decides_over_names_of_no_known_ending(tmp_path: Path) -> None:
    landed = [
        "000000_0",
        "20240303_144951_00037_v74wa",
        "part-0.pq",
        "shop-2024-03-01-00-05-9a1c",
        "stops.txt",
    ]
    for name in landed:
        land(tmp_path, name, b"x")
    for form in ("parquet", "csv", "jsonl"):
        assert names("**/*", tmp_path, form) == landed
    assert names("*.txt", tmp_path) == ["stops.txt"]


def test_an_empty_gzip_file_was_cut_off_but_an_empty_text_file_is_listed(tmp_path: Path) -> None:
    land(tmp_path, "a.jsonl.gz", b"")
    land(tmp_path, "b.jsonl", b"")
    assert names("*", tmp_path, "jsonl") == ["b.jsonl"]
    assert "cut off" in refusals("*", tmp_path, "jsonl")["a.jsonl.gz"]


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, "a.csv", b"x")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    assert refusals("*.csv", tmp_path) == {"a.csv": "this user may not read it"}


def test_the_fixed_root_may_be_a_link_of_who_writes_the_settings_and_nothing_below_it_may(
    tmp_path: Path,
) -> None:
    real = land(tmp_path / "elsewhere", "a.csv", b"x").path
    os.link(real, real.with_name("hard.csv"))
    (tmp_path / "landing").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "more").symlink_to(tmp_path)
    (tmp_path / "elsewhere" / "b.csv").symlink_to(tmp_path / "elsewhere" / "a.csv")
    assert names("landing/**/*.csv", tmp_path) == ["a.csv", "hard.csv"]
    assert set(refusals("landing/**/*.csv", tmp_path)) == {"b.csv", "more"}


def test_a_file_larger_than_any_may_be_is_refused_before_a_byte_of_it_is_read(
    tmp_path: Path,
) -> None:
    with land(tmp_path, "huge.csv", b"").path.open("r+b") as sparse:
        sparse.truncate(Limits.max_bytes + 1)
    assert refusals("*.csv", tmp_path) == {
        "huge.csv": "it has 8589934593 bytes, more than the limit of 8589934592"
    }
