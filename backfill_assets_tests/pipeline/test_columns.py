"""Aggregates of events as columns: the columns of staging that they read, their rules, and the
entity that they are of.

Tested here: `pipeline.columns`. Not tested here: the description of a column (`test_declared.py`).
"""

from backfill_assets.kernel.write.rules import breaking_conditions
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.pipeline.test_declared import orders
from backfill_assets_tests.pipeline.test_tables import ORDERS, SPENT


def test_tables_of_declared_features_read_what_they_name_and_labels_whom_they_are_of() -> None:
    read = {
        t.name: {i.table: i.columns for i in t.contract.inputs}
        for t in tables(orders(SPENT, ORDERS, label="count_ahead() > 1"))
    }
    machinery = {
        "event_key",
        "event_ts",
        "version_ts",
        "seq",
        "known_from",
        "known_until",
        "event_date",
    }
    for name in ("features", "features_as_known"):
        assert set(read[name]["staging"] or ()) == machinery | {"customer_id", "total"}
    assert set(read["labels"]["staging"] or ()) == machinery | {"customer_id"}
    assert read["labels"]["features_as_known"] == ("customer_id", "feature_date")
    assert read["training"] == {"features_as_known": None, "labels": None}


def test_rules_say_what_is_true_by_how_the_columns_are_made() -> None:
    last = {"name": "last_order", "agg": "days_since_last", "days": 90}
    made = {t.name: t.contract for t in tables(orders(SPENT, last, ORDERS))}["features"]
    assert {r.name: r.expression for r in made.rules} == {
        "last_order_is_in_window": "`last_order` BETWEEN 0 AND 89",
        "orders_is_no_less_than_0": "`orders` >= 0",
    }
    assert breaking_conditions(made)
