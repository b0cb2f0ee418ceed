"""Names as they may stand in a line of text.

Lives here: what is escaped and what is not. Does not live here: where such names are printed (`lake.test_landing`).
"""

import pytest

from backfill_assets.core.printable import printable


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("März 1.csv", "März 1.csv"),
        ("a\u202egnp.csv", "a\\u202egnp.csv"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("\x1b[31mred\n", "\\x1b[31mred\\x0a"),
        ("\u2028line\x85", "\\u2028line\\x85"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("bad\udcff", "bad\\xff"),
    ],
)
def test_what_could_reorder_hide_or_break_a_line_is_escaped_and_letters_are_not(name: str, shown: str) -> None:
    assert printable(name) == shown
