"""Declared features and labels: what a declaration in lake.toml comes to, and how a column is told.

Not tested here: expressions by themselves (`test_expressions.py`) and what is computed
(`transforms.test_declared`).
"""

from typing import Any

import pytest

from backfill_assets import LakeSettings
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.pipeline.columns import DeclaredColumn
from backfill_assets.pipeline.declared import declared_features, declared_label
from backfill_assets.pipeline.transforms.aggregation import Reach, built_in_columns
from backfill_assets_tests.pipeline.built_in import contracts

PAYLOAD = {
    "customer_id": "STRING",
    "country": "STRING",
    "total": "DECIMAL(18,2)",
    "is_return": "BOOLEAN",
    "n": "BIGINT",
    "k": "INT",
    "x": "DOUBLE",
    "xs": "ARRAY<INT>",
    "long": "DECIMAL(30,2)",
}
SOURCE = {"files": "landing/**", "format": "csv", "select": "seq", "payload": PAYLOAD}


def orders(
    *columns: dict[str, Any], entity: tuple[str, ...] = ("customer_id",), **labels: Any
) -> LakeSettings:
    """The settings of a lake of orders with these declared features."""
    features = {"entity": list(entity), "columns": list(columns)}
    return LakeSettings.model_validate(
        {"start_date": "2024-03-01", "source": SOURCE, "features": features, "labels": labels}
    )


def one(**said: Any) -> DeclaredColumn:
    """The one column declared so."""
    return declared_features(orders({"name": "f", "days": 28, **said}))[0]


@pytest.mark.parametrize(
    ("said", "kind", "nullable"),
    [
        ({"agg": "count"}, "BIGINT", False),
        ({"agg": "count", "of": "xs"}, "BIGINT", False),
        ({"agg": "distinct", "of": "country"}, "BIGINT", False),
        ({"agg": "days_since_last"}, "INT", True),
        ({"agg": "sum", "of": "k"}, "BIGINT", False),
        ({"agg": "sum", "of": "n"}, "BIGINT", True),
        ({"agg": "sum", "of": "x"}, "DOUBLE", True),
        ({"agg": "sum", "of": "total"}, "DECIMAL(28,2)", False),
        ({"agg": "sum", "of": "if(is_return, -total, total)"}, "DECIMAL(28,2)", False),
        ({"agg": "avg", "of": "total"}, "DECIMAL(22,6)", True),
        ({"agg": "avg", "of": "n"}, "DOUBLE", True),
        ({"agg": "max", "of": "cast(event_ts AS date)"}, "DATE", True),
        ({"agg": "last", "of": "lower(country)"}, "STRING", True),
        ({"agg": "first", "of": "xs"}, "ARRAY<INT>", True),
    ],
)
def test_the_type_follows_from_aggregation_and_values(
    said: dict[str, Any], kind: str, nullable: bool
) -> None:
    column = one(**said).column("staging")
    assert (column.type, column.nullable) == (kind, nullable)


def test_a_column_tells_its_aggregation_filter_and_window_and_what_it_is_made_from() -> None:
    made = one(agg="sum", of="total", where="NOT is_return AND country = 'DE'")
    column = made.column("staging")
    assert column.description == (
        "sum(total) FILTER (WHERE (NOT is_return AND country = 'DE')) over event_date BETWEEN day "
        "- 27 AND day; 0: none"
    )
    assert dict(column.tags) == {
        "role": "measure",
        "aggregation": "sum",
        "of": "total",
        "filter": "NOT is_return AND country = 'DE'",
        "window": "28 days",
    }
    assert column.made_from == ("staging.total", "staging.is_return", "staging.country")
    assert made.sql == (
        "sum(total) FILTER (WHERE (NOT is_return AND country = 'DE')) over event_date BETWEEN day "
        "- 27 AND day"
    )


@pytest.mark.parametrize(
    ("said", "culprit"),
    [
        ({"agg": "sum", "of": "country"}, "sum of STRING, which is no number"),
        ({"agg": "sum", "of": "long"}, r"sum of DECIMAL\(30,2\) may not fit 38 digits"),
        ({"agg": "min", "of": "xs"}, "min of ARRAY<INT>"),
        ({"agg": "distinct", "of": "xs"}, "distinct of ARRAY<INT>"),
        (
            {"agg": "sum", "of": "try_divide(total, n)"},
            r"the type of try_divide\(total, n\) is unknown",
        ),
        ({"agg": "count", "where": "country"}, "country is STRING, not BOOLEAN"),
        (
            {"agg": "count", "where": "rand() < 0.5"},
            "f: where in lake.toml: rand is not decided by the row",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_key_that_says_it(
    said: dict[str, Any], culprit: str
) -> None:
    with pytest.raises(SettingsError, match=culprit):
        one(**said)


def test_the_built_in_columns_are_declarations_too() -> None:
    said = [(c.name, c.agg, c.value.of, c.reach.days) for c in built_in_columns((7, 28))]
    contract = contracts()["features"]
    assert [(c.name, c.type) for c in built_in_columns((7, 28))] == [
        (c.name, c.type) for c in contract.columns[1:-1]
    ]
    assert said[2] == ("value_short", "sum", "value", 7)


def test_each_aggregate_of_the_condition_is_a_column_and_the_rest_stays_as_it_was_written() -> None:
    asked = orders(
        label="sum_ahead(total)  > 2 * sum_behind( total ) AND COUNT_AHEAD() > 0", horizon_days=14
    )
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
