"""Texts that the engines read differently, as measured side by side: each is doubted, and ordinary ones are not.

Tested here: forms of text and pairs of types. Not tested here: what becomes of a doubted row (`test_sail_select`).
"""

import re

import pytest

from backfill_assets.core.column_types import read_type
from backfill_assets.landing.sail_casts import DOUBTFUL, is_tried

# What Spark 4.2.0 and Sail 0.7.2 make of these texts differs; found by casting 150 texts to 12 types on both.
DIFFER = {
    "DECIMAL": ["1e3", "1E3", "1e-400", "٣", "1٣", "1E-5"],
    "DOUBLE": ["1d", "1f", "1D"],
    "DATE": [" 2024-03-01 ", "2024-03-01T", "2024-03-01T10:00:00", "2024-03-01T10:00:00Z", "294247-01-10 04:00:54"],
    "TIMESTAMP": ["294247-01-10 04:00:54.775807"],
    "BOOLEAN": ["on", "off", "tru"],
}
AGREE = {
    "DECIMAL": ["1", " 1.50 ", "-.5", "1.", "abc", ""],
    "DOUBLE": ["1e3", "NaN", "-Infinity", "0x10", "1.5"],
    "DATE": ["2024-03-01", "2024-3-1", "2024-03", "2024-02-30", "abc"],
    "TIMESTAMP": ["2024-03-01T10:00:00Z", "2024-03-01 10:00:00 Europe/Berlin", "0001-01-01", "epoch"],
    "BOOLEAN": ["true", " T ", "0", "yes", "n", "2"],
}


@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, texts in DIFFER.items() for t in texts])
def test_a_text_that_the_engines_read_differently_is_doubted(kind: str, text: str) -> None:
    assert re.search(DOUBTFUL[kind], text)


@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, texts in AGREE.items() for t in texts])
def test_a_text_that_they_read_alike_is_not(kind: str, text: str) -> None:
    assert not re.search(DOUBTFUL[kind], text)


def test_pairs_of_types_that_differ_are_not_tried() -> None:
    assert is_tried("string", read_type("DECIMAL(18,2)"))
    assert not is_tried("double", read_type("DECIMAL(38,18)"))
    assert not is_tried("double", read_type("STRING"))
    assert not is_tried("bigint", read_type("TIMESTAMP"))
    assert not is_tried("string", read_type("ARRAY<BIGINT>"))
