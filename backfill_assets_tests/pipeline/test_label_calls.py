"""Calls in the expression of a label that cannot be read.

Tested here: `pipeline.label_calls`. Not tested here: what they compute (`test_declared.py`).
"""

import pytest

from backfill_assets.pipeline.label_calls import label_calls

pytestmark = pytest.mark.usefixtures("storages")


@pytest.mark.parametrize(
    ("label", "why"), [("sum_ahead(x > 1", "brackets"), ("sum_ahead('x) > 1", "cannot be read")]
)
def test_what_cannot_be_read_says_why(label: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        list(label_calls(label))
