"""The arguments of `lake_checks` and `daily_table` that name rules: what each says, and each
mistake by its name.

Not tested here: rules that rows break (`test_daily`), and columns that a table has not
(`test_contracts`).
"""

from typing import Any

import dagster as dg
import pytest

from backfill_assets.assets.contracts import Rules
from backfill_assets.assets.rule_arguments import rules_from_arguments
from backfill_assets.dagster import daily_table, lake_checks
from backfill_assets.kernel.core.contracts import Rule
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.assets.projects import Deliveries, orders_asset

NONE: dict[str, Any] = {
    "unique": (),
    "not_null": (),
    "rows": (None, None),
    "rules": (),
    "on_bad_days": "",
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "one column as a text": (
        {"unique": "id"},
        r"unique is 'id', and no list of columns.*unique=..id..",
    ),
    "the same of not_null": ({"not_null": "id"}, r"not_null is 'id', and no list"),
    "a column that is no text": ({"unique": [1]}, r"unique is \[1\], and no list of columns"),
    "a set has no order": ({"unique": {"id"}}, r"unique is \{'id'\}, and no list of columns"),
    "one number of rows": ({"rows": 5}, "rows is 5, and not the least and the most rows"),
    "three numbers of rows": (
        {"rows": (1, 2, 3)},
        "rows is .1, 2, 3., and not the least and the most",
    ),
    "rows that are true": ({"rows": (True, None)}, "rows is .True, None., and not the least"),
    "fewer than none": ({"rows": (-1, None)}, "rows is .-1, None., and not the least"),
    "the least above the most": (
        {"rows": (3, 1)},
        "rows is .3, 1., and the least is more than the most",
    ),
    "no expression": (
        {"rules": {"p": "amount >"}},
        r"the rule p of .* \(amount >\): it is no expression",
    ),
    "two expressions": ({"rules": {"p": "a > 0; b > 0"}}, "it is not one condition"),
    "the clock": ({"rules": {"p": "day <= current_date"}}, "is not decided by the row"),
    "an aggregate": ({"rules": {"p": "sum(amount) > 0"}}, "it is not about one row"),
    "no names": ({"rules": ["amount > 0"]}, r"rules is \['amount > 0'\], which gives no names"),
    "a text": ({"rules": "amount > 0"}, "rules is 'amount > 0', which gives no names"),
    "no text": ({"rules": {"p": True}}, "rules has 'p': True, and both are texts"),
    "one name twice": (
        {"rules": [Rule("p", "a > 0", ""), Rule("p", "b > 0", "")]},
        "rules has p more than once",
    ),
    "another word": ({"on_bad_days": "keep"}, "on_bad_days is 'keep'.*refuse.*keep_good"),
}


@pytest.mark.parametrize(("words", "culprit"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_refused_by_its_name_where_it_is_given(
    words: dict[str, Any], culprit: str
) -> None:
    with pytest.raises(SettingsError, match=culprit) as refused:
        lake_checks(orders_asset(Deliveries()), **words)
    assert "shop/orders" in str(refused.value)
    with pytest.raises(SettingsError, match=r"of the daily table orders|the daily table orders: "):

        @daily_table(start="2024-01-01", **words)
        def orders(context: dg.AssetExecutionContext) -> None: ...


def test_rules_are_those_of_a_contract_or_conditions_by_name() -> None:
    rule = Rule("positive", "amount > 0", "")
    assert rules_from_arguments("o", **{**NONE, "rules": [rule]}).rules == (rule,)
    named = rules_from_arguments("o", **{**NONE, "rules": {"is_positive": "amount > 0"}})
    assert named.rules == (Rule("is_positive", "amount > 0", "is positive"),)
    assert rules_from_arguments("o", **NONE) == Rules()
    assert rules_from_arguments("o", **{**NONE, "rows": [1, None], "unique": ("id",)}) == Rules(
        ("id",), rows=(1, None)
    )
