"""Fingerprints as text and as SQL: sums with dots, quoted names, an order of columns that does not matter.

Tested here: `lake.fingerprints`. Not tested here: that both engines compute them alike (`test_profile`).
"""

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.profiles import EMPTY_FINGERPRINT
from backfill_assets.lake.fingerprints import PIECES, Dialect, fingerprint_text, pieces, quoted, row_hash
from backfill_assets_tests.builders import STAGING

sums = st.lists(st.integers(0, 2**90), min_size=PIECES, max_size=PIECES)


def test_sums_of_nothing_are_the_fingerprint_of_an_empty_day() -> None:
    assert fingerprint_text([0, 0]) == EMPTY_FINGERPRINT


@given(sums, sums)
def test_different_sums_have_different_texts(one: list[int], other: list[int]) -> None:
    assert (fingerprint_text(one) == fingerprint_text(other)) == (one == other)


def test_a_fingerprint_is_hex_with_dots() -> None:
    assert fingerprint_text([10, 2**60]) == "A.1000000000000000"


def test_the_order_of_columns_does_not_matter() -> None:
    for dialect in Dialect:
        assert row_hash(STAGING.columns, dialect) == row_hash(STAGING.columns[::-1], dialect)
        assert len(set(pieces("h", dialect))) == PIECES


def test_names_are_quoted_as_each_engine_does() -> None:
    assert quoted("a`b", Dialect.SPARK) == "`a``b`"
    assert quoted('a"b', Dialect.DUCKDB) == '"a""b"'
