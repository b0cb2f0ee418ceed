"""Profiles: the text of a fingerprint, and what an empty day looks like.

Tested here: `core.profiles`. Not tested here: hashing rows (`lake.profile`, which needs Spark).
"""

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.profiles import EMPTY_FINGERPRINT, DayProfile, fingerprint_text

halves = st.lists(st.integers(0, 2**62), min_size=4, max_size=4)


def test_a_day_is_empty_until_something_is_said_of_it() -> None:
    assert DayProfile() == DayProfile(0, EMPTY_FINGERPRINT, {}, 0, {})


def test_sums_of_nothing_are_the_fingerprint_of_an_empty_day() -> None:
    assert fingerprint_text([0, 0, 0, 0]) == EMPTY_FINGERPRINT


@given(halves, halves)
def test_different_sums_have_different_texts(one: list[int], other: list[int]) -> None:
    assert (fingerprint_text(one) == fingerprint_text(other)) == (one == other)


def test_a_fingerprint_is_hex_with_dots() -> None:
    assert fingerprint_text([10, 0, 255, 2**40]) == "A.0.FF.10000000000"
