"""A deletion vector says which rows of its file are deleted, in the log or in a file, and what is none
is refused. Not here: what a commit deletes by one (`intake.test_table_rows`)."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.intake.deleted_rows import (
    UnreadableVector,
    deleted_rows,
    vector_file,
    vector_of,
)
from backfill_assets.kernel.place.folder import Folder
from backfill_assets_tests.delta_features import (
    base85,
    encoded_rows,
    inline_vector,
    vector_in_file,
)

NUMBERS = st.integers(0, 3 << 16) | st.integers(1 << 32, (1 << 32) + 9)
SETS = st.frozensets(NUMBERS, max_size=40) | st.builds(
    lambda start, count, step: frozenset(range(start, start + count * step, step)),
    st.integers(0, 1 << 17),
    st.integers(0, 9000),
    st.integers(1, 3),
)


def read(table: Path, told: dict[str, Any]) -> list[int]:
    vector = vector_of({"deletionVector": told})
    return [int(row) for row in deleted_rows(Folder(str(table)), vector).to_pylist()]


@given(rows=SETS, by_runs=st.booleans())
def test_every_set_of_rows_is_read_as_it_was_written(rows: frozenset[int], by_runs: bool) -> None:
    content = encoded_rows(rows, by_runs=by_runs)
    told = {
        "storageType": "i",
        "pathOrInlineDv": base85(content),
        "sizeInBytes": len(content),
        "cardinality": len(rows),
    }
    assert read(Path(), told) == sorted(rows)


@pytest.mark.parametrize("prefix", ["", "ab"])
def test_a_vector_in_a_file_lies_below_its_table(tmp_path: Path, prefix: str) -> None:
    told = vector_in_file(tmp_path, {0, 7}, prefix)
    assert read(tmp_path, told) == [0, 7]
    vector = vector_of({"deletionVector": told})
    assert vector is not None
    name = vector_file(Folder(str(tmp_path)), vector)
    absolute = {**told, "storageType": "p", "pathOrInlineDv": f"file://{tmp_path / name}"}
    assert read(tmp_path, absolute) == [0, 7]
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError):
        read(tmp_path, told)


def test_a_file_without_a_vector_has_no_deleted_rows(tmp_path: Path) -> None:
    assert vector_of({"path": "a", "deletionVector": None}) is None
    assert deleted_rows(Folder(str(tmp_path)), None).to_pylist() == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"storageType": "x"}, "which lies elsewhere"),
        ({"storageType": "p", "pathOrInlineDv": "/etc/passwd"}, "which lies elsewhere"),
        ({"storageType": "p", "pathOrInlineDv": "s3://other/v.bin"}, "which lies elsewhere"),
        ({"storageType": "u", "pathOrInlineDv": "../" + "0" * 20}, "leads out of its folder"),
        ({"storageType": "u", "pathOrInlineDv": "~" * 20}, "which is no base85"),
        ({"cardinality": 3}, "which has 2 rows, not 3"),
        ({"cardinality": 1}, "which has 2 rows, not 1"),
        ({"sizeInBytes": 20}, "which ends too early"),
        ({"sizeInBytes": 1 << 40}, r"has a deletion vector of \d+ bytes"),
        ({"pathOrInlineDv": "0" * 80}, r"of another form \(0\)"),
        ({"cardinality": "many"}, "has a deletion vector without a place"),
    ],
)
def test_what_is_no_vector_of_the_table_is_refused(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    with pytest.raises(UnreadableVector, match=why):
        read(tmp_path, inline_vector({0, 7}) | change)


def test_a_file_with_other_bytes_than_its_checksum_says_is_refused(tmp_path: Path) -> None:
    told = vector_in_file(tmp_path, {0, 7})
    (written,) = tmp_path.glob("*.bin")
    content = bytearray(written.read_bytes())
    content[-6] ^= 1
    written.write_bytes(content)
    with pytest.raises(UnreadableVector, match="another checksum"):
        read(tmp_path, told)
    written.write_bytes(content[:-4])
    with pytest.raises(UnreadableVector, match="ends too early"):
        read(tmp_path, told)


def test_a_few_bytes_that_stand_for_more_rows_than_the_log_says_are_not_read_out(
    tmp_path: Path,
) -> None:
    content = bytearray(encoded_rows(range(1 << 16), by_runs=True))
    told = {
        "storageType": "i",
        "pathOrInlineDv": base85(bytes(content)),
        "sizeInBytes": len(content),
        "cardinality": 5,
    }
    with pytest.raises(UnreadableVector, match="has 65536 rows, not 5"):
        read(tmp_path, told)
