"""Manifests of the landing folder: never read as data, parsed exactly, each fault named with its
file.

Lives here: tests of `intake.declared` and of how the listing finds manifests. Does not live here:
holding contents against them (`intake.test_declared_totals`).
"""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import strategies as st

from backfill_assets.intake.declared import Declarations, DeclaredTotals, read_declared
from backfill_assets.intake.listing import list_landing
from backfill_assets_tests.landed import land


def declared(
    folder: Path, files: dict[str, str], pattern: str = "**/*.csv", format: str = "csv"
) -> Declarations:
    for name, text in files.items():
        land(folder, name, text.encode())
    listing = list_landing(pattern, folder, format)
    return read_declared(listing.manifests, listing.files)


def test_a_manifest_beside_a_file_declares_its_rows_and_exact_sums(tmp_path: Path) -> None:
    text = (
        '{"rows": 1200, "sums": {"total": "12345.60", "big": 9007199254740993.1}, "sender": "till '
        '4"}'
    )
    found = declared(tmp_path, {"in/a.csv": "x\n1\n", "in/a.csv.totals.json": text})
    sums = {"total": Decimal("12345.60"), "big": Decimal("9007199254740993.1")}
    assert found.by_file == {"in/a.csv": [DeclaredTotals("in/a.csv.totals.json", 1200, sums)]}
    assert (found.refused, found.absent) == ({}, {})


NUMBERS = st.one_of(
    st.text(max_size=20),
    st.decimals(),
    st.floats(),
    st.integers(),
    st.from_regex(r"-?\d{1,40}(\.\d{1,20})?[eE]-?\d{1,25}"),
).map(str)
NAMES = st.one_of(
    st.text(max_size=300), st.integers(200, 300).map(lambda n: "n" * n), st.just("../" * 90 + "x")
)


def test_a_manifest_of_a_folder_declares_each_file_that_it_names(tmp_path: Path) -> None:
    text = "\ufefffile,rows,sum_total,md5\na.csv,2,1.50,x\nsub/b.csv,,7,y\ngone.csv,1,,z\n"
    found = declared(tmp_path, {"in/_manifest.csv": text, "in/a.csv": "x\n", "in/sub/b.csv": "x\n"})
    where = "in/_manifest.csv"
    assert found.by_file == {
        "in/a.csv": [DeclaredTotals(where, 2, {"total": Decimal("1.50")})],
        "in/sub/b.csv": [DeclaredTotals(where, None, {"total": Decimal(7)})],
    }
    assert found.absent == {"in/gone.csv": where}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting"),
        ("[1]", "it is no object"),
        ('{"sums": [1]}', "it is no object"),
        ("{}", "neither rows nor sums"),
        ('{"rows": -1}', "no number of rows"),
        ('{"rows": 1.5}', "no number of rows"),
        ('{"rows": true}', "is no number"),
        ('{"sums": {"total": "1,234.50"}}', "'1,234.50' is no number"),
        ('{"sums": {"total": "NaN"}}', "'NaN' is no number"),
        ('{"sums": {"total": "1E+999999999"}}', "is no number"),
        ("[" * 100_000, "recursion"),
        ('{"rows": 1e30.0}', "Expecting"),
        ('{"rows": 1e99999999999999999999}', "InvalidOperation"),
        (r'{"rows": "\ud800"}', "is no number"),
    ],
)
def test_one_that_cannot_be_read_is_a_fault_of_its_file(
    tmp_path: Path, text: str, why: str
) -> None:
    found = declared(tmp_path, {"a.csv": "x\n", "a.csv.totals.json": text})
    [one] = found.by_file["a.csv"]
    assert why in one.fault
    assert (one.rows, one.sums) == (None, {})


@pytest.mark.parametrize("text", ["", "name,size\na.csv,4\n", "file,md5\na.csv,4\n", "\udcff"])
def test_a_manifest_of_another_kind_is_refused_by_name_and_holds_nothing(
    tmp_path: Path, text: str
) -> None:
    land(tmp_path, "_manifest.csv", text.encode("utf-8", "surrogateescape"))
    found = declared(tmp_path, {"a.csv": "x\n"})
    assert found.by_file == {}
    assert found.refused["_manifest.csv"].startswith("it declares no totals: ")


def test_a_manifest_is_never_offered_as_data_whatever_the_pattern_and_format(
    tmp_path: Path,
) -> None:
    names = [
        "a.json",
        "a.json.totals.json",
        "b.csv.totals.json",
        "_manifest.csv",
        "daily.totals.json",
    ]
    for name in names:
        land(tmp_path, name, b"{}")
    listing = list_landing("**", tmp_path, "jsonl")
    assert [f.name for f in listing.files] == ["a.json", "daily.totals.json"], (
        "the last names no file"
    )
    assert len(listing.manifests) == 3
    one = list_landing("a.json", tmp_path, "jsonl")
    assert ([f.name for f in one.files], len(one.manifests)) == (["a.json"], 2)


def test_a_link_in_a_manifests_place_is_never_followed_and_does_not_let_the_file_pass(
    tmp_path: Path,
) -> None:
    land(tmp_path, "true.json", b'{"rows": 1}')
    (tmp_path / "a.csv.totals.json").symlink_to(tmp_path / "true.json")
    [one] = declared(tmp_path, {"a.csv": "x\n"}).by_file["a.csv"]
    assert (one.rows, "changed while it was being read" in one.fault) == (None, True)
    (tmp_path / "_manifest.csv").symlink_to(tmp_path / "true.json")
    listing = list_landing("*.csv", tmp_path, "csv")
    assert "_manifest.csv" in [r.name for r in listing.refused]
