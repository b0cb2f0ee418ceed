"""Expressions of a person: what they may hold, what is refused by name, and what Spark is given.

Tested here: `pipeline.expressions`. Not tested here: its type (`test_expression_types`) and tokens
that `select` refuses as well (`intake.test_select`), but for one of each kind.
"""

import pytest

from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.pipeline.expressions import read_expression

COLUMNS = {
    name: read_type(kind)
    for name, kind in {
        "total": "DECIMAL(18,2)",
        "n": "BIGINT",
        "country": "STRING",
        "is_return": "BOOLEAN",
        "xs": "ARRAY<INT>",
        "event_ts": "TIMESTAMP",
    }.items()
}
WHERE = "[[features.columns]] spent: of"


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("totl", "there is no column totl"),
        ("t.total", "there is no column t.total"),
        ("rand()", "rand is not decided by the row"),
        ("current_date > event_ts", "current_date is not decided by the row"),
        ("uuid() = country", "uuid is not decided by the row"),
        ("monotonically_increasing_id()", "monotonically_increasing_id is not decided by the row"),
        ("sum(total)", "SUM(total) is not an expression over one row"),
        ("any(is_return)", "ANY(is_return) is not an expression over one row"),
        ("max(n) OVER (PARTITION BY country)", "is not an expression over one row"),
        ("row_number()", "is not an expression over one row"),
        ("explode(xs)", "EXPLODE(xs) is not an expression over one row"),
        ("(SELECT 1)", "SELECT is not an expression over one row"),
        ("country IN (SELECT 1)", "SELECT is not an expression over one row"),
        ("my_udf(total)", "my_udf is no function of Spark that gives the same for the same row"),
        ("total / n", "total / n would end the whole job at the first zero"),
        ("n % n", "n % n would end the whole job at the first zero"),
        ("xs[0]", "xs[0] would end the whole job where the array is shorter"),
        ("n::int", ":: ends the whole job"),
        ("total +", "it is no expression"),
        ("total, n", "it is no expression"),
        ("total AS t", "total AS t is more than one value"),
        ("total; n", "more than one statement"),
        ("current_database()", "current_database is not decided by the row"),
    ],
)
def test_what_an_expression_may_not_hold_is_refused_by_name(text: str, culprit: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_expression(text, COLUMNS, WHERE)
    assert caught.value.object == f"{WHERE} in lake.toml"
    assert culprit in caught.value.culprit
    assert caught.value.fix


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("total", ("total",)),
        ("TOTAL * 2", ("total",)),
        ("`country`", ("country",)),
        ("NOT is_return AND country = 'rand()'", ("is_return", "country")),
        ("exists(xs, x -> x > n)", ("xs", "n")),
        ("get(xs, 0)", ("xs",)),
        ("n / 2", ("n",)),
        ("hour(event_ts)", ("event_ts",)),
        ("1", ()),
    ],
)
def test_an_expression_names_its_columns(text: str, columns: tuple[str, ...]) -> None:
    read = read_expression(text, COLUMNS, WHERE)
    assert (read.columns, read.text) == (columns, text)
