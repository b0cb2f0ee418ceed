"""Reasons in groups: few lines, and every row in one of them.

Tested here: `operations.rejected`. Not tested here: who prints them (`cli`).
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.operations.rejected import MOST_CHARS, kinds


def test_reasons_that_differ_in_numbers_and_quotes_are_one_kind() -> None:
    told = kinds({"row 7 of 'a.csv'": 2, "row 812 of 'b, c.csv'": 3, "op is odd": 4, "flag 3": 1})
    assert list(told.shown) == [("row … of …", 5), ("op is odd", 4), ("flag 3", 1)]


def test_the_rarest_kinds_are_counted_instead_of_listed() -> None:
    told = kinds({word: n for n, word in enumerate("abcde", 1)}, most=2)
    assert (list(told.shown), told.more_kinds, told.more_rows) == ([("e", 5), ("d", 4)], 3, 6)


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.integers(1, 9), max_size=30))
def test_no_row_is_lost_and_no_line_is_long(reasons: dict[str, int]) -> None:
    told = kinds(reasons)
    assert sum(rows for _, rows in told.shown) + told.more_rows == sum(reasons.values())
    assert all(len(text) <= MOST_CHARS for text, _ in told.shown)
