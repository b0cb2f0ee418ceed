"""What the landing folder offers, refuses with a reason, and never follows.

Lives here: listing, changes, hashing, settling. Does not live here: patterns (`test_pattern`) and contents
(`test_intake*.py`).
"""

import hashlib
import os
import pickle
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.core.errors import LandingError, SettingsError, TransientError
from backfill_assets.landing.files import (
    LandedFile,
    Listing,
    StillChanging,
    is_complete,
    list_landing,
    opened,
    settle,
    sha256_of,
)
from backfill_assets.landing.intake_bytes import Limits
from backfill_assets_tests.lake.landed import land, names, refusals


def test_a_listed_file_says_its_place_size_and_time(tmp_path: Path) -> None:
    landed = land(tmp_path / "landing", "a/b.csv", b"x\n1\n")
    listing = list_landing("landing/**/*.csv", tmp_path, "csv")
    assert listing == Listing(files=(replace(landed, name="a/b.csv", path=tmp_path / "landing/a/b.csv"),))


def test_files_come_sorted_by_name_whatever_the_folder_order(tmp_path: Path) -> None:
    for name in ("b.csv", "a/z.csv", "a.csv", "c.csv.gz", "B.csv"):
        land(tmp_path, name, b"x")
    assert names("**", tmp_path) == sorted(["b.csv", "a/z.csv", "a.csv", "c.csv.gz", "B.csv"])


def test_a_missing_root_is_an_empty_listing_and_says_so(tmp_path: Path) -> None:
    assert list_landing("nowhere/*.csv", tmp_path, "csv") == Listing(root_missing=True)
    assert not list_landing("*.csv", tmp_path, "csv").root_missing


@pytest.mark.parametrize("name", ["_SUCCESS.csv", ".hidden.csv", "_x.csv"])
def test_hidden_files_are_refused_and_never_silent(tmp_path: Path, name: str) -> None:
    land(tmp_path, name, b"x")
    assert "hidden" in refusals("*.csv", tmp_path)[name]


def test_a_hidden_folder_is_refused_as_one(tmp_path: Path) -> None:
    land(tmp_path, "_temporary/a.csv", b"x")
    land(tmp_path, "_temporary/b.csv", b"x")
    assert list(refusals("**/*.csv", tmp_path)) == ["_temporary/"]


@pytest.mark.parametrize("suffix", [".tmp", ".part", ".PARTIAL", ".crdownload", ".inprogress", ".swp", "~"])
def test_files_still_being_written_under_a_temporary_name_are_refused(tmp_path: Path, suffix: str) -> None:
    land(tmp_path, "a.csv" + suffix, b"x")
    assert names("*", tmp_path) == []
    assert "temporary" in refusals("*", tmp_path)["a.csv" + suffix]


def test_what_does_not_match_or_has_another_extension_is_refused(tmp_path: Path) -> None:
    for name in ("day-1.csv", "day-2.txt", "other.csv"):
        land(tmp_path, name, b"x")
    assert names("day-*", tmp_path) == ["day-1.csv"]
    assert refusals("day-*", tmp_path) == {
        "day-2.txt": "its name does not end in .csv or .csv.gz",
        "other.csv": "does not match the pattern",
    }


def test_a_folder_deeper_than_the_pattern_reaches_is_one_refusal(tmp_path: Path) -> None:
    land(tmp_path, "archive/old/a.csv", b"x")
    (tmp_path / "empty").mkdir()
    land(tmp_path, "a.csv", b"x")
    assert names("*.csv", tmp_path) == ["a.csv"]
    assert refusals("*.csv", tmp_path) == {"archive/": "a folder that the pattern does not reach into"}


def test_links_to_files_and_folders_are_never_followed(tmp_path: Path) -> None:
    secret = land(tmp_path / "elsewhere", "secret.csv", b"x").path
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/file.csv").symlink_to(secret)
    (tmp_path / "landing/folder").symlink_to(secret.parent)
    assert names("landing/**", tmp_path) == []
    assert set(refusals("landing/**", tmp_path)) == {"file.csv", "folder"}
    assert "symbolic link" in refusals("landing/file.csv", tmp_path)["file.csv"]


def test_the_root_itself_may_be_a_link_and_hard_links_are_files(tmp_path: Path) -> None:
    real = land(tmp_path / "disk", "a.csv", b"x").path
    os.link(real, real.with_name("b.csv"))
    (tmp_path / "landing").symlink_to(real.parent)
    assert names("landing/*.csv", tmp_path) == ["a.csv", "b.csv"]


def test_fifos_and_sockets_are_refused_without_opening_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s.csv"))
    assert refusals("*.csv", tmp_path) == {"pipe.csv": "not a regular file", "s.csv": "not a regular file"}


def test_names_that_cannot_be_printed_are_refused_under_an_escaped_name(tmp_path: Path) -> None:
    for raw in (b"caf\xe9.csv", b"line\nbreak.csv"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw)).write_bytes(b"x")
    assert refusals("*.csv", tmp_path) == {
        "caf\\xe9.csv": "its name is not UTF-8",
        "line\\x0abreak.csv": "its name has control characters",
    }


def test_an_empty_gzip_file_was_cut_off_but_an_empty_text_file_is_listed(tmp_path: Path) -> None:
    land(tmp_path, "a.jsonl.gz", b"")
    land(tmp_path, "b.jsonl", b"")
    assert names("*", tmp_path, "jsonl") == ["b.jsonl"]
    assert "cut off" in refusals("*", tmp_path, "jsonl")["a.jsonl.gz"]


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    land(tmp_path, "a.csv", b"x")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    assert refusals("*.csv", tmp_path) == {"a.csv": "this user may not read it"}


def test_an_unknown_format_is_a_setting_to_correct(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="parquet, csv, jsonl"):
        list_landing("*", tmp_path, "xml")


@pytest.mark.parametrize(
    ("age_seconds", "complete"), [(0.5, False), (2.0, True), (9e8, True), (-1.0, True), (-3e7, True)]
)
def test_a_file_is_complete_when_it_is_quiet_and_when_its_time_stamp_lies_in_the_future(
    tmp_path: Path, age_seconds: float, complete: bool
) -> None:
    now = 1_700_000_000.0
    assert is_complete(LandedFile("a", tmp_path / "a", 1, int((now - age_seconds) * 1e9)), now) is complete


def test_a_name_that_would_reverse_or_break_a_line_is_escaped_in_refusals_and_errors(tmp_path: Path) -> None:
    land(tmp_path, "\u202egnp.txt", b"x")
    land(tmp_path, "\x1b[31m.csv", b"x")
    assert set(refusals("*.csv", tmp_path)) == {"\\u202egnp.txt", "\\x1b[31m.csv"}
    assert "\u202e" not in str(StillChanging("a\u202eb"))


def test_the_fixed_root_may_be_a_link_of_who_writes_the_settings_and_nothing_below_it_may(tmp_path: Path) -> None:
    land(tmp_path / "elsewhere", "a.csv", b"x")
    (tmp_path / "landing").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "more").symlink_to(tmp_path)
    (tmp_path / "elsewhere" / "b.csv").symlink_to(tmp_path / "elsewhere" / "a.csv")
    assert names("landing/**/*.csv", tmp_path) == ["a.csv"]
    assert set(refusals("landing/**/*.csv", tmp_path)) == {"b.csv", "more"}


def test_the_hash_is_that_of_all_bytes(tmp_path: Path) -> None:
    content = os.urandom(3_000_001)
    assert sha256_of(land(tmp_path, "a", content)) == hashlib.sha256(content).hexdigest()


def test_a_file_altered_since_it_was_listed_is_still_changing(tmp_path: Path) -> None:
    file = land(tmp_path, "a", b"one")
    file.path.write_bytes(b"three")
    with pytest.raises(StillChanging):
        sha256_of(file)


def _appended(file: LandedFile) -> None:
    file.path.write_bytes(b"one and more")


def _replaced(file: LandedFile) -> None:
    land(file.path.parent, "b", b"one").path.replace(file.path)


def _removed(file: LandedFile) -> None:
    file.path.unlink()


@pytest.mark.parametrize("meanwhile", [_appended, _replaced, _removed])
def test_a_file_changing_while_it_is_read_is_still_changing(
    tmp_path: Path, meanwhile: Callable[[LandedFile], None]
) -> None:
    file = land(tmp_path, "a", b"one")
    with pytest.raises(StillChanging), opened(file):
        meanwhile(file)


@pytest.mark.parametrize("become", ["link", "fifo", "folder", "nothing"])
def test_a_file_swapped_for_something_else_is_not_opened(tmp_path: Path, become: str) -> None:
    file = land(tmp_path, "a", b"one")
    file.path.unlink()
    if become == "link":
        file.path.symlink_to(land(tmp_path, "secret", b"one").path)
    elif become == "fifo":
        os.mkfifo(file.path)
    elif become == "folder":
        file.path.mkdir()
    with pytest.raises(StillChanging):
        sha256_of(file)


def test_still_changing_is_transient_and_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(StillChanging("landing/a.csv")))  # noqa: S301
    assert isinstance(error, TransientError)
    assert isinstance(error, LandingError)
    assert "landing/a.csv" in str(error)


def test_a_file_at_rest_settles_at_once_and_a_fresh_one_after_the_quiet_time(tmp_path: Path) -> None:
    file = land(tmp_path, "a", b"x")
    assert settle(file, quiet_seconds=0.05)
    os.utime(file.path, (0, 0))
    started = time.monotonic()
    assert settle(file, quiet_seconds=60)
    assert time.monotonic() - started < 1


def test_a_clock_that_runs_ahead_does_not_keep_a_file_from_settling(tmp_path: Path) -> None:
    file = land(tmp_path, "a", b"x")
    os.utime(file.path, (time.time() + 9999,) * 2)
    assert settle(file, quiet_seconds=0.05)


def test_a_file_that_keeps_growing_or_is_gone_does_not_settle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, pause = land(tmp_path, "a", b"x"), time.sleep

    def write_meanwhile(seconds: float) -> None:
        with file.path.open("ab") as growing:
            growing.write(b"x")
        pause(seconds / 10)  # or it would write as fast as the machine can

    monkeypatch.setattr(time, "sleep", write_meanwhile)
    assert not settle(file, quiet_seconds=0.4, patience_seconds=0.01)
    file.path.unlink()
    assert not settle(file, quiet_seconds=0.05)


def test_a_file_larger_than_any_may_be_is_refused_before_a_byte_of_it_is_read(tmp_path: Path) -> None:
    with land(tmp_path, "huge.csv", b"").path.open("r+b") as sparse:
        sparse.truncate(Limits.max_bytes + 1)
    assert refusals("*.csv", tmp_path) == {"huge.csv": "it has 8589934593 bytes, more than the limit of 8589934592"}


@pytest.mark.parametrize("depth", [1, 2])
def test_a_folder_swapped_for_a_link_since_the_listing_is_not_followed(tmp_path: Path, depth: int) -> None:
    inside = "/".join(["theirs", "inner"][:depth])
    secret = land(tmp_path / "private", f"{inside}/x.csv".split("/", 1)[1], b"key,who\nk,A\n").path
    land(tmp_path, f"landing/{inside}/x.csv", b"key,who\nk,B\n")
    os.utime(tmp_path / "landing" / inside / "x.csv", ns=(secret.stat().st_mtime_ns,) * 2)
    (listed,) = list_landing("landing/**/*.csv", tmp_path, "csv").files
    (tmp_path / "landing" / "theirs").rename(tmp_path / "landing" / ".gone")
    (tmp_path / "landing" / "theirs").symlink_to(tmp_path / "private")
    with pytest.raises(StillChanging):
        sha256_of(listed)
