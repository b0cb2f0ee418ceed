"""A column of landed files: how `select` may name it, and how the lake does. No JVM.

Tested here: `operations.first_columns` by itself. Not tested here: types and values (`test_first_source`).
"""

import pytest

from backfill_assets.landing.select import expressions
from backfill_assets.operations.first_columns import free_name, plain_name, ticked


@pytest.mark.parametrize(
    "name",
    ["from", "to", "desc", "limit", "values", "range", "select", "user", "group", "order", "current_date", "größe",
     "Order Id", "2nd", "a`b", "a.b", ""],
)  # fmt: skip
def test_a_name_that_sql_keeps_or_cannot_read_is_in_backticks_and_one_expression(name: str) -> None:
    assert ticked(name) == "`" + name.replace("`", "``") + "`"
    assert expressions(f"{ticked(name)} AS v") == (f"{ticked(name)} AS v",)


@pytest.mark.parametrize(
    ("text", "name"),
    [("Größe", "grosse"), ("Order Id", "order_id"), ("naïve", "naive"), ("reason", "own_reason"), ("2nd", "own_2nd"),
     ("名前", "own___"), ("\u202ex", "own__x"), ("total", "total_2")],
)  # fmt: skip
def test_a_name_in_the_lake_is_plain_free_and_not_one_of_the_tables_own(text: str, name: str) -> None:
    assert free_name(text, {"total"}) == name
    assert plain_name(name) == name
