"""training: the columns of features_as_known with the label.

Tested here: `pipeline.daily.training`. Not tested here: which rows there are (`transforms`).
"""

from backfill_assets.kernel.core.contracts import Input
from backfill_assets_tests.pipeline.built_in import contracts
from backfill_assets_tests.pipeline.daily.test_features import DECLARED


def test_it_is_made_from_the_same_day_of_both_and_matures_with_the_label() -> None:
    made = contracts((7, 28), 14, 5)["training"]
    assert made.inputs == (Input("features_as_known"), Input("labels"))
    assert (made.waits_for_cut, made.matures_after_days) == (True, 19)


def test_it_carries_the_columns_of_features_as_known_and_their_rules() -> None:
    known, made = DECLARED["features_as_known"], DECLARED["training"]
    assert made.column_names == (*known.column_names, "label")
    assert {c.name: c.made_from for c in made.columns}["spent"] == ("features_as_known.spent",)
    assert [r.name for r in made.rules] == [*(r.name for r in known.rules), "label_is_0_or_1"]
