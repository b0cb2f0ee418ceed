"""The contracts of declared features and labels: columns, keys, the days they are made from, and their rules.

Tested here: contracts of declarations in `pipeline.contracts`, through `pipeline.tables`. Not tested here: the
description of a column (`test_declared.py`).
"""

from backfill_assets.core.contracts import Basis
from backfill_assets.lake.audit import breaking
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.pipeline.test_declared import orders

SPENT = {"name": "spent", "agg": "sum", "of": "total", "days": 28}
LAST = {"name": "last_order", "agg": "days_since_last", "days": 90}
ORDERS = {"name": "orders", "agg": "count", "days": 7}
ASKED = orders(SPENT, LAST, ORDERS, entity=("customer_id", "country"), label="sum_ahead(total) > 1", horizon_days=14)
CONTRACTS = {t.name: t.contract for t in tables(ASKED)}


def test_features_have_the_entity_the_declared_columns_and_the_day_and_look_back_over_the_longest_window() -> None:
    made = CONTRACTS["features"]
    assert made.column_names == ("customer_id", "country", "spent", "last_order", "orders", "feature_date")
    assert made.key == ("customer_id", "country")
    assert [(i.table, i.before, i.after, i.basis) for i in made.inputs] == [("staging", 89, 0, Basis.CONTENT)]
    assert made.columns[0].description == "whom the features describe, together with country"
    known = CONTRACTS["features_as_known"]
    assert (known.columns, known.inputs[0].basis, known.waits_for_cut) == (made.columns, Basis.KNOWN_AT_CUT, True)


def test_rules_say_what_is_true_by_how_the_columns_are_made() -> None:
    made = CONTRACTS["features"]
    assert {r.name: r.expression for r in made.rules} == {
        "last_order_is_in_window": "`last_order` BETWEEN 0 AND 89", "orders_is_no_less_than_0": "`orders` >= 0",
    }  # fmt: skip
    assert breaking(made)


def test_labels_show_what_they_look_at_over_the_horizon() -> None:
    made = CONTRACTS["labels"]
    assert made.column_names == ("customer_id", "country", "sum_ahead", "label", "label_state", "label_date")
    assert [(i.table, i.before, i.after) for i in made.inputs] == [("staging", 13, 14), ("features_as_known", 0, 0)]
    assert made.matures_after_days == 21
    told = {c.name: (c.description, c.made_from) for c in made.columns}
    assert told["label"] == ("1 if sum_ahead(total) > 1, else 0", ("staging.total",))


def test_training_carries_the_columns_of_features_as_known_and_their_rules() -> None:
    known = CONTRACTS["features_as_known"]
    made = CONTRACTS["training"]
    assert made.column_names == (*known.column_names, "label")
    assert {c.name: c.made_from for c in made.columns}["spent"] == ("features_as_known.spent",)
    assert [r.name for r in made.rules] == [*(r.name for r in known.rules), "label_is_0_or_1"]
