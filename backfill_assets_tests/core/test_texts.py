"""Texts from elsewhere, as they reach a screen.

Tested here: `core.texts`. Not tested here: that commands use it (`cli`).
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.core.texts import plain, reason, shortened


def test_what_turns_the_writing_or_moves_the_cursor_is_escaped() -> None:
    assert plain("a\u202etxt.jsonl") == "a\\u202etxt.jsonl"
    assert plain("\x1b[2J\r\n\udcff") == "\\x1b[2J\\x0d\\x0a\\xff"
    assert plain("a\u2066b\u2069\u2028\U000e0041") == "a\\u2066b\\u2069\\u2028\\U000e0041"


def test_writing_of_any_language_is_left_alone() -> None:
    assert plain("Größe 大 שלום 🙂") == "Größe 大 שלום 🙂"


@settings(deadline=None)
@given(st.text())
def test_what_is_printed_is_printable(text: str) -> None:
    assert plain(text).isprintable()
    plain(text).encode()


@settings(deadline=None)
@given(st.text(), st.integers(1, 20))
def test_a_shortened_text_is_no_longer_than_asked_and_says_that_it_was_cut(text: str, most: int) -> None:
    cut = shortened(text, most)
    assert len(cut) <= most
    assert cut == text or cut.endswith("…")


def test_a_reason_of_ours_stands_without_what_pydantic_puts_before_it() -> None:
    assert reason({"msg": "Value error, start_date is a day, without a time"}) == "start_date is a day, without a time"
    assert reason({"msg": "Field required"}) == "Field required"
