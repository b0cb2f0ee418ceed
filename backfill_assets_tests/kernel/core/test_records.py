"""Records as JSON values and back: what is written is read back equal, and nothing else passes for a
record.

Tested here: `kernel.core.records`. Not tested here: the texts of receipts (`test_receipts`) and of
other files, which the tests of their modules pin.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.records import IF_OTHER, UnknownWord, json_of, record_of
from backfill_assets.kernel.core.states import State
from backfill_assets_tests.strategies import days, texts


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
    found = json_of(
        {day: outer, "names": {"a"}, "text": "as it is", "numbers": numbers, "bytes": b"\x00\xff"}
    )
    assert found == {
        "2024-03-01": {"outer": {"at": "2024-03-01T02:00:00+00:00", "rows": None, "inner": inner}},
        "names": ["a"],
        "text": "as it is",
        "numbers": ["inf", "-inf", "nan", 0.5],
        "bytes": "00ff",
    }
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@dataclass(frozen=True)
class Leaf:
    """A record within another."""

    name: str
    pair: tuple[int, str | None]


@dataclass(frozen=True)
class Record:
    """One field of each kind that files have."""

    at: datetime | None
    state: State
    leaf: Leaf
    leaves: tuple[Leaf, ...]
    rows: Mapping[date, int]
    names: frozenset[str]
    share: float
    is_kept: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    later: Mapping[str, str] = field(default_factory=dict, metadata=IF_OTHER)


leaves = st.builds(Leaf, texts, st.tuples(st.integers(), st.none() | texts))
records = st.builds(
    Record,
    st.none() | st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(State),
    leaves,
    st.lists(leaves, max_size=3).map(tuple),
    st.dictionaries(days, st.integers(), max_size=3),
    st.frozensets(texts, max_size=3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.dictionaries(texts, st.integers() | texts, max_size=3),
    st.dictionaries(texts, texts, max_size=3),
)
ONE = Record(
    datetime(2024, 3, 1, tzinfo=UTC),
    State.STALE,
    Leaf("a", (1, None)),
    (Leaf("b", (2, "c")),),
    {date(2024, 2, 29): 4},
    frozenset({"z", "y"}),
    0.5,
)
TEXT = (
    '{"at": "2024-03-01T00:00:00+00:00", "state": "stale", "leaf": {"name": "a", "pair": [1, null]}, '
    '"leaves": [{"name": "b", "pair": [2, "c"]}], "rows": {"2024-02-29": 4}, "names": ["y", "z"], '
    '"share": 0.5, "is_kept": false, "more": {}}'
)


@given(records)
def test_any_record_is_read_back_equal(written: Record) -> None:
    assert record_of(Record, json.loads(json.dumps(json_of(written)))) == written


def test_fields_are_written_in_their_order_and_later_ones_if_they_are_not_the_default() -> None:
    assert json.dumps(json_of(ONE)) == TEXT


def test_an_earlier_release_lacked_keys_and_a_later_one_has_more() -> None:
    values = json.loads(TEXT)
    earlier = {k: v for k, v in values.items() if k not in ("is_kept", "more")}
    assert record_of(Record, earlier) == record_of(Record, {**values, "colour": 7}) == ONE
    assert record_of(Record, {**values, "share": 1}).share == 1.0


WRONG: dict[str, object] = {
    "no object": [1],
    "a key too few": {"name": "a"},
    "a number for a text": {"name": 7, "pair": [1, None]},
    "a text for a number": {"name": "a", "pair": ["1", None]},
    "a yes for a number": {"name": "a", "pair": [True, None]},
    "a pair of one": {"name": "a", "pair": [1]},
    "a pair of three": {"name": "a", "pair": [1, None, None]},
    "a text for a list": {"name": "a", "pair": "1b"},
}


@pytest.mark.parametrize("values", WRONG.values(), ids=WRONG.keys())
def test_values_of_another_form_are_no_record(values: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        record_of(Leaf, values)


def test_a_word_that_a_later_release_brought_is_told_from_a_value_that_is_none() -> None:
    with pytest.raises(UnknownWord, match="perfect"):
        record_of(Record, {**json.loads(TEXT), "state": "perfect"})
    with pytest.raises(ValueError, match="7") as caught:
        record_of(Record, {**json.loads(TEXT), "state": 7})
    assert not isinstance(caught.value, UnknownWord)
