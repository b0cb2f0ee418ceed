"""What `lake.toml` declares is judged in one place for Sail: each column by name, for the tables that are made by it.

Tested here: which aggregations and expressions those are. Not tested here: the words of an expression
(`engine.test_sail_differences`), and the arithmetic, which random declarations hold on either engine
(`end_to_end.test_both_engines`).
"""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from backfill_assets.core.contracts import AGGREGATION, Column
from backfill_assets.core.errors import SettingsError
from backfill_assets.engine.sail import Sail
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.load.steadiness import differing_settings, refuse_settings
from backfill_assets_tests.builders import CONTRACTS

PAYLOAD = {"entity": "STRING", "value": "BIGINT", "total": "DECIMAL(18,2)", "x": "DOUBLE", "d": "DATE"}
SAIL = Sail()
N = Column("n", "BIGINT", "a declared one", nullable=True, tags={AGGREGATION: "sum"})
MADE = [replace(c, columns=(*c.columns, N)) if "feature_date" in c.column_names else c for c in CONTRACTS]


def settings(engine: str = "sail", **sections: Any) -> LakeSettings:
    source = {"files": "landing/*.csv", "format": "csv", "select": "seq", "payload": PAYLOAD}
    told = {"start_date": date(2024, 3, 1), "source": source, "spark": {"engine": engine}}
    return LakeSettings.model_validate(told | sections)


def column(agg: str, of: str, **more: Any) -> dict[str, Any]:
    return {"columns": [{"name": "n", "agg": agg, "of": of, "days": 7} | more]}


@pytest.mark.parametrize(
    ("agg", "of", "names"),
    [
        ("distinct", "entity", ["distinct"]),
        ("max", "x", ["max of DOUBLE"]),
        ("sum", "x", ["sum of DOUBLE"]),
        ("last", "cast(value AS DOUBLE)", ["last of DOUBLE"]),
        ("avg", "total", ["avg of DECIMAL"]),
        ("avg", "-total", ["avg of DECIMAL"]),
        ("avg", "total * 2", ["avg of DECIMAL"]),
        ("sum", "value * 2", ["*"]),
        ("distinct", "weekday(d)", ["weekday", "distinct"]),
        ("sum", "total", []),
        ("avg", "value", []),
        ("avg", "CASE WHEN x > 0.5 THEN value END", []),
        ("last", "entity", []),
        ("days_since_last", "event_ts", []),
    ],
)
def test_a_declared_column_is_refused_by_its_aggregation_its_type_and_its_words(
    agg: str, of: str, names: list[str]
) -> None:
    told = {name for u in differing_settings(settings(features=column(agg, of)), MADE, SAIL) for name in u.names}
    assert told == set(names)
    label = settings(labels={"label": f"{agg}_ahead({of}) > 0"})
    assert agg == "days_since_last" or {n for u in differing_settings(label, MADE, SAIL) for n in u.names} == set(names)


def test_the_refusal_names_table_column_what_sail_lacks_and_spark_and_comes_on_sail_only() -> None:
    asked: dict[str, Any] = {"features": column("sum", "value * 2")}
    refuse_settings(settings("embedded", **asked), MADE)
    with pytest.raises(SettingsError) as refused:
        refuse_settings(settings(**asked), MADE)
    told = "[[features.columns]] n: of in lake.toml (for features and features_as_known): *: on sail not always"
    assert str(refused.value).startswith(told)
    assert "try_multiply" in refused.value.fix
    assert "Spark" in refused.value.fix


def test_what_other_tables_are_made_by_is_no_reason_to_refuse_one() -> None:
    asked = settings(features=column("distinct", "entity"), labels={"label": "max_ahead(x) > 1"})
    assert [u.tables for u in differing_settings(asked, MADE, SAIL)] == [("features", "features_as_known"), ("labels",)]
    assert [u.tables for u in differing_settings(asked, CONTRACTS, SAIL)] == [("labels",)]
    assert differing_settings(asked, CONTRACTS[:2], SAIL) == []
    plain = replace(CONTRACTS[1], columns=(*CONTRACTS[1].columns, replace(N, tags={})))
    assert differing_settings(asked, [plain, *MADE[2:4]], SAIL)[0].tables == ("features", "features_as_known")
    refuse_settings(asked, MADE, "training")
    with pytest.raises(SettingsError, match="max of DOUBLE"):
        refuse_settings(asked, MADE, "labels")


def test_conditions_and_measures_are_looked_at_too() -> None:
    found = differing_settings(settings(features=column("count", "value", where="value + 1 > 0")), MADE, SAIL)
    assert [(u.where, list(u.names)) for u in found] == [("[[features.columns]] n: where", ["+"])]
    doubles = {**PAYLOAD, "value": "DOUBLE"}
    source = {"files": "landing/*.csv", "format": "csv", "select": "seq", "payload": doubles}
    (found_too,) = differing_settings(settings(source=source, labels={"measure": "value"}), MADE, SAIL)
    assert (found_too.where, list(found_too.names)) == ('[labels] measure = "value"', ["sum of DOUBLE"])


def test_a_label_may_compare_its_aggregates_and_nothing_else() -> None:
    label = "sum_ahead(value) > 2 AND count_behind() > 1"
    assert differing_settings(settings(labels={"label": label}), MADE, SAIL) == []
    rounded = settings(labels={"label": f"rint(sum_ahead(value)) > 1 AND {label}"})
    assert [u.where for u in differing_settings(rounded, MADE, SAIL)] == ["[labels] label"]
