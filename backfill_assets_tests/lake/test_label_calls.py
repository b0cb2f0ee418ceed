"""The aggregates in a label's text are found where they stand, brackets, texts and letters of any case included.

Tested here: `lake.label_calls`. Not tested here: what they mean (`pipeline.test_declared_label`).
"""

import pytest

from backfill_assets.lake.label_calls import label_calls


def test_aggregates_are_found_with_what_they_are_of() -> None:
    label = "SUM_ahead(coalesce(total, (0))) > 2 * sum_Behind(')' ) and count_behind() > my_own(ahead)"
    found = list(label_calls(label))
    assert [(c.agg, c.side, c.of) for c in found] == [
        ("sum", "ahead", "coalesce(total, (0))"), ("sum", "behind", "')' "), ("count", "behind", ""),
    ]  # fmt: skip
    assert [label[c.start : c.end].partition("(")[0] for c in found] == ["SUM_ahead", "sum_Behind", "count_behind"]
    assert list(label_calls("ahead > 1 AND 'sum_ahead(x)' = ''")) == []


@pytest.mark.parametrize(("label", "why"), [("sum_ahead(x > 1", "brackets"), ("sum_ahead('x) > 1", "cannot be read")])
def test_what_cannot_be_read_says_why(label: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        list(label_calls(label))
