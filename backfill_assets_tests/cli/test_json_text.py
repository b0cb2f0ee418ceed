"""The text of a JSON document is that of Python's own encoder, whatever it holds.

Tested here: `cli.json_text`. Not tested here: what a screen shows of it (`test_common.py`).
"""

import json
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.cli.json_text import AT_ONCE, json_texts
from backfill_assets.kernel.core.records import json_of


class Kind(StrEnum):
    """A word of a record."""

    ONE = "one"


@dataclass
class Record:
    """A row with another kind of value in each field."""

    value: Any
    day: date = date(2024, 2, 29)
    kind: Kind = Kind.ONE
    none: None = None
    nothing: tuple[str, ...] = ()
    empty: dict[str, int] = field(default_factory=dict)


plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.floats(), st.dates(), st.just(Kind.ONE)
)


def _holding(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.one_of(st.text(), st.dates())
    lists = st.lists(inner)
    return st.one_of(
        lists, lists.map(tuple), st.dictionaries(keys, inner), st.builds(Record, inner)
    )


@given(st.recursive(plain, _holding))
def test_the_text_is_the_one_of_pythons_encoder_with_an_indent(document: Any) -> None:
    expected = json.dumps(json_of(document), indent=2, ensure_ascii=False)
    assert "".join(json_texts(document)) == expected


def test_many_rows_come_in_several_pieces() -> None:
    rows = [Record(n) for n in range(AT_ONCE)]
    assert len([*json_texts({"rows": rows})]) > 1
