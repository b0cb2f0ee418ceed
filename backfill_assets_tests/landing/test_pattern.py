"""What a pattern means: its fixed root, its wildcards, and what cannot be meant.

Lives here: `parse_pattern` and matching. Does not live here: folders (`test_files`). No file is touched.
"""

from pathlib import Path

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.landing.pattern import parse_pattern

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
    ],
)
def test_the_fixed_root_is_the_longest_folder_without_wildcard(pattern: str, root: str) -> None:
    assert parse_pattern(pattern, BASE).root == Path(root)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "A.CSV", False),
        ("*.csv", "a/b.csv", False),
        ("**/*.csv", "b.csv", True),
        ("**/*.csv", "a/b/c.csv", True),
        ("**", "a/b/c.csv", True),
        ("*/**/x?.csv", "a/x1.csv", True),
        ("*/**/x?.csv", "x1.csv", False),
        ("day=*/[ab].csv", "day=1/a.csv", True),
        ("day=*/[!ab].csv", "day=1/a.csv", False),
        ("a[!x]b.csv", "a/b.csv", False),
        ("one.csv", "one.csv", True),
        ("one.csv", "two.csv", False),
    ],
)
def test_a_wildcard_stays_in_its_folder_and_two_stars_span_folders(pattern: str, name: str, expected: bool) -> None:
    assert parse_pattern(pattern, BASE).matches(name) is expected


def test_brackets_in_the_lakes_own_path_are_no_wildcard() -> None:
    glob = parse_pattern("landing/*.csv", Path("/lakes/[new]"))
    assert glob.root == Path("/lakes/[new]/landing")


@pytest.mark.parametrize("pattern", ["", "landing/", "landing/{a,b}.csv", "landing/*/../x.csv", "a\0b"])
def test_a_pattern_that_cannot_be_meant_is_a_setting_to_correct(pattern: str) -> None:
    with pytest.raises(SettingsError, match=r"landing/\*\*/\*\.csv"):
        parse_pattern(pattern, BASE)
