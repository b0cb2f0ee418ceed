"""features: contracts of declared and built-in windows.

Not tested here: what is computed (`transforms`), and settings (`pipeline.test_tables`).
"""

from backfill_assets.kernel.core.contracts import Input, InputKind
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.pipeline.built_in import contract, contracts
from backfill_assets_tests.pipeline.test_declared import orders
from backfill_assets_tests.pipeline.test_tables import ORDERS, SPENT

LAST = {"name": "last_order", "agg": "days_since_last", "days": 90}
LABEL = {"label": "sum_ahead(total) > 1", "horizon_days": 14}
DECLARED = {
    t.name: t.contract
    for t in tables(orders(SPENT, LAST, ORDERS, entity=("customer_id", "country"), **LABEL))
}


def test_built_in_ones_look_back_over_the_longest_window() -> None:
    assert contract("features").inputs == (Input("staging", before=27),)


def test_nothing_downstream_of_staging_may_be_null_but_a_sum_that_does_not_fit() -> None:
    nullable = {
        c.name: c.description
        for made in [*contracts().values()][2:]
        for c in made.columns
        if c.nullable
    }
    assert set(nullable) == {"value_short", "value_long", "forward", "backward"}
    assert all("does not fit 64 bits" in description for description in nullable.values())


def test_declared_ones_have_entity_declared_columns_day_and_the_longest_window() -> None:
    made = DECLARED["features"]
    assert made.column_names == (
        "customer_id",
        "country",
        "spent",
        "last_order",
        "orders",
        "feature_date",
    )
    assert made.key == ("customer_id", "country")
    assert [(i.table, i.before, i.after, i.kind) for i in made.inputs] == [
        ("staging", 89, 0, InputKind.CONTENT)
    ]
    assert made.columns[0].description == "whom the features describe, together with country"
