"""What `lake.toml` declares is judged in one place for Sail: each column by name, for the tables
that are made by it. Not here: the words of an expression (`engines.test_sail_differences`), and the
arithmetic, which random declarations hold on either engine (`engines.test_sail_plans`)."""

from datetime import date
from typing import Any

import pytest

from backfill_assets import LakeSettings
from backfill_assets.engines.sail import Sail
from backfill_assets.engines.steadiness import differing_expressions, refuse_expressions
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.pipeline.tables import tables

PAYLOAD = {
    "entity": "STRING",
    "value": "BIGINT NOT NULL",
    "flag": "INT NOT NULL",
    "total": "DECIMAL(18,2)",
    "x": "DOUBLE",
    "d": "DATE",
}
SAIL = Sail()


def settings(engine: str = "sail", **sections: Any) -> LakeSettings:
    source = {"files": "landing/*.csv", "format": "csv", "select": "seq", "payload": PAYLOAD}
    told = {"start_date": date(2024, 3, 1), "source": source, "spark": {"engine": engine}}
    return LakeSettings.model_validate(told | sections)


def column(agg: str, of: str, **more: Any) -> dict[str, Any]:
    return {"columns": [{"name": "n", "agg": agg, "of": of, "days": 7} | more]}


def names(asked: LakeSettings) -> dict[str, list[str]]:
    return {
        where: list(found) for where, found in differing_expressions(tables(asked), SAIL).items()
    }


@pytest.mark.parametrize(
    ("agg", "of", "differing"),
    [
        ("distinct", "entity", ["distinct"]),
        ("max", "x", ["max of DOUBLE"]),
        ("sum", "x", ["sum of DOUBLE"]),
        ("last", "cast(value AS DOUBLE)", ["last of DOUBLE"]),
        ("avg", "total", ["avg of DECIMAL"]),
        ("avg", "-total", ["avg of DECIMAL"]),
        ("avg", "total * 2", ["avg of DECIMAL"]),
        ("sum", "value * 2", ["*"]),
        ("distinct", "cast(weekday(d) AS INT)", ["weekday", "distinct"]),
        ("sum", "total", []),
        ("avg", "value", []),
        ("avg", "CASE WHEN x > 0.5 THEN value END", []),
        ("last", "entity", []),
        ("days_since_last", "event_ts", []),
    ],
)
def test_a_declared_column_is_refused_by_aggregation_type_and_words(
    agg: str, of: str, differing: list[str]
) -> None:
    assert {
        n for found in names(settings(features=column(agg, of))).values() for n in found
    } == set(differing)
    if agg != "days_since_last":
        label = names(settings(labels={"label": f"{agg}_ahead({of}) IS NOT NULL"}))
        assert {n for found in label.values() for n in found} == set(differing)


def test_the_refusal_names_table_column_what_sail_lacks_and_spark_and_comes_on_sail_only() -> None:
    asked: dict[str, Any] = {"features": column("sum", "value * 2")}
    refuse_expressions(settings("embedded", **asked), tables(settings(**asked)))
    with pytest.raises(SettingsError) as refused:
        refuse_expressions(settings(**asked), tables(settings(**asked)))
    told = (
        "[[features.columns]] n in lake.toml (for features and features_as_known): *: on sail not "
        "always"
    )
    assert str(refused.value).startswith(told)
    assert "try_multiply" in refused.value.fix
    assert "Spark" in refused.value.fix
