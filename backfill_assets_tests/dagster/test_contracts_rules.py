"""Rules that a project declares: which checks they are, and that they are found by function.

Tested here: `dagster.contracts` as values. Not tested here: what is judged by them (`test_daily_checks.py`).
"""

import pytest

from backfill_assets.core.contracts import Rule
from backfill_assets.core.errors import SettingsError
from backfill_assets.dagster.contracts import Registry, Rules, as_rules
from backfill_assets_tests.dagster.projects import Deliveries, orders_asset


def test_each_kind_of_rule_is_a_check_and_a_bound_may_be_left_out() -> None:
    assert Rules().checks == ()
    assert Rules(unique=("id",)).checks == ("unique_key", "not_null")
    assert Rules(rows=(None, 0)).checks == ("row_count",)
    assert Rules(rows=(None, 0)).bounds == {"max_rows": 0}


def test_rules_are_those_of_a_contract_or_conditions_by_name() -> None:
    rule = Rule("positive", "amount > 0", "")
    assert as_rules([rule]) == (rule,)
    assert as_rules({"is_positive": "amount > 0"}) == (Rule("is_positive", "amount > 0", "is positive"),)


def test_other_rules_for_one_asset_are_refused() -> None:
    orders, registry = orders_asset(Deliveries()), Registry()
    registry.add(orders, Rules(unique=("id",)))
    with pytest.raises(SettingsError, match="the asset shop/orders: lake_checks declares it twice"):
        registry.add(orders, Rules(unique=("day",)))
