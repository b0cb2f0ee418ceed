"""Texts from elsewhere, as they reach a screen.

Tested here: `core.texts`. Not tested here: that commands use it (`cli`).
"""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.core.states import State
from backfill_assets.core.texts import json_of, plain, shortened


def test_what_turns_the_writing_or_moves_the_cursor_is_escaped() -> None:
    assert plain("a\u202etxt.jsonl") == "a\\u202etxt.jsonl"
    assert plain("\x1b[2J\r\n\udcff") == "\\x1b[2J\\x0d\\x0a\\xff"
    assert plain("a\u2066b\u2069\u2028\U000e0041") == "a\\u2066b\\u2069\\u2028\\U000e0041"


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


@dataclass(frozen=True)
class Inner:
    day: date
    state: State


@dataclass(frozen=True)
class Outer:
    at: datetime
    rows: int | None
    inner: tuple[Inner, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"outer": json_of(vars(self))}


def test_records_become_objects_of_plain_values() -> None:
    day = date(2024, 3, 1)
    outer = Outer(datetime(2024, 3, 1, 2, tzinfo=UTC), None, (Inner(day, State.STALE),))
    numbers = [float("inf"), float("-inf"), float("nan"), 0.5]
    inner = [{"day": "2024-03-01", "state": "stale"}]
    found = json_of({day: outer, "names": {"a"}, "text": "as it is", "numbers": numbers, "bytes": b"\x00\xff"})
    assert found == {
        "2024-03-01": {"outer": {"at": "2024-03-01T02:00:00+00:00", "rows": None, "inner": inner}},
        "names": ["a"], "text": "as it is", "numbers": ["inf", "-inf", "nan", 0.5], "bytes": "00ff",
    }  # fmt: skip
    assert json.loads(json.dumps(found, allow_nan=False)) == found
