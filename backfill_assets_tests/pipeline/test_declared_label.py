"""Declared labels: the aggregates in a condition, ahead and behind, and what is left of its text.

Tested here: labels of `pipeline.declared`. Not tested here: what is computed (`transforms.test_declared_labels`).
"""

import pytest
from pydantic import ValidationError

from backfill_assets.core.errors import SettingsError
from backfill_assets.pipeline.declared import declared_label
from backfill_assets.pipeline.transforms.aggregation import Reach
from backfill_assets_tests.pipeline.test_declared import orders


def test_each_aggregate_of_the_condition_is_a_column_and_the_rest_stays_as_it_was_written() -> None:
    asked = orders(label="sum_ahead(total)  > 2 * sum_behind( total ) AND COUNT_AHEAD() > 0", horizon_days=14)
    terms, condition = declared_label(asked)
    assert condition == "sum_ahead  > 2 * sum_behind AND count_ahead > 0"
    assert [(t.name, t.type, t.reach) for t in (t.aggregation for t in terms)] == [
        ("sum_ahead", "DECIMAL(28,2)", Reach(-14, -1)),
        ("sum_behind", "DECIMAL(28,2)", Reach(0, 13)),
        ("count_ahead", "BIGINT", Reach(-14, -1)),
    ]
    said = [t.column("staging") for t in terms]
    assert said[0].description == "sum(total) over event_date BETWEEN day + 1 AND day + 14; 0: none"
    assert said[0].tags["window"] == "14 days ahead"


def test_an_aggregate_that_is_named_twice_is_one_column_and_another_of_its_kind_gets_a_number() -> None:
    terms, condition = declared_label(orders(label="max_ahead(n) > max_ahead(k) OR max_ahead(n) > 5"))
    assert [t.aggregation.name for t in terms] == ["max_ahead", "max_ahead_2"]
    assert condition == "max_ahead > max_ahead_2 OR max_ahead > 5"


@pytest.mark.parametrize(
    ("label", "culprit"),
    [
        ("total > 1", "looks at no event ahead or behind"),
        ("max_ahead(n) > k", "k stands outside of an aggregate"),
        ("sum_ahead(totl) > 1", "there is no column totl"),
        ("sum_ahead() > 1", r"sum_ahead\(\) is of nothing"),
        ("count_ahead(", "its brackets do not match"),
        ("count_ahead()", "is DECIMAL.30,0., not BOOLEAN"),
        ("count_ahead() > rand()", "rand is not decided by the row"),
        ("sum_ahead(sum_behind(n)) > 1", "sum_behind is no function"),
        ("sum_ahead(country) > 1", "sum of STRING"),
        ("count_ahead() / count_behind() > 1", "would end the whole job at the first zero"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_by_name(label: str, culprit: str) -> None:
    with pytest.raises(SettingsError, match=rf"\[labels\] label in lake.toml: .*{culprit}"):
        declared_label(orders(label=label))


def test_a_rule_is_refused_beside_a_label() -> None:
    with pytest.raises(ValidationError, match="rule has no effect beside `label`"):
        orders(label="count_ahead() > 0", rule="rise")
