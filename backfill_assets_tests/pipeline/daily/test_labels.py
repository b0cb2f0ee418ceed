"""labels: contracts of labels by rule and by expression.

Tested here: `pipeline.daily.labels`. Not tested here: reading an expression
(`pipeline.test_declared`).
"""

import pytest

from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.pipeline.daily.labels import label_from_rule
from backfill_assets_tests.pipeline.built_in import contracts
from backfill_assets_tests.pipeline.daily.test_features import DECLARED
from backfill_assets_tests.pipeline.test_declared import orders


def test_it_looks_over_the_horizon_and_as_far_back_and_matures_after_horizon_and_maturity() -> None:
    made = contracts((7, 28), 14, 5)["labels"]
    assert made.inputs == (Input("staging", before=13, after=14), Input("features_as_known"))
    assert (made.waits_for_cut, made.matures_after_days) == (True, 19)


def test_an_expression_shows_what_it_looks_at_over_the_horizon() -> None:
    made = DECLARED["labels"]
    assert made.column_names == (
        "customer_id",
        "country",
        "sum_ahead",
        "label",
        "label_state",
        "label_date",
    )
    assert [(i.table, i.before, i.after) for i in made.inputs] == [
        ("staging", 13, 14),
        ("features_as_known", 0, 0),
    ]
    assert made.matures_after_days == 21
    told = {c.name: (c.description, c.made_from) for c in made.columns}
    assert told["label"] == ("1 if sum_ahead(total) > 1, else 0", ("staging.total",))


def test_measure_and_rule_are_conditions_for_entities_of_other_names() -> None:
    terms, condition = label_from_rule(orders(rule="rise", horizon_days=3))
    assert condition == "forward > backward"
    assert [
        (t.name, t.agg, t.reach.first, t.reach.last) for t in (t.aggregation for t in terms)
    ] == [("forward", "count", -3, -1), ("backward", "count", 0, 2)]
    with pytest.raises(SettingsError, match="there is no column value"):
        label_from_rule(orders(measure="value"))
