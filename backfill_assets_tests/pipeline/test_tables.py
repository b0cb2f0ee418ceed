"""The tables of a lake: which settings reach which content, so that a change makes outdated only what it reaches.

Tested here: `pipeline.tables` without an engine. Not tested here: what the transforms compute (`transforms`).
"""

from dataclasses import replace
from typing import Any

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.model import make_pipeline
from backfill_assets.pipeline.tables import delivered, tables
from backfill_assets_tests.pipeline.built_in import SOURCE, lake_settings

NAMES = ["raw", "staging", "features", "features_as_known", "labels", "training"]
SPENT = {"name": "spent", "agg": "sum", "of": "total", "days": 28}
ORDERS = {"name": "orders", "agg": "count", "days": 7}


def moved_by(**sections: Any) -> list[str]:
    """The tables whose settings digest another setting moves."""
    before, after = (make_pipeline(tables(s)).codes for s in (lake_settings(), lake_settings(**sections)))
    return [n for n in NAMES if before[n].settings_digest != after[n].settings_digest]


def test_each_table_is_made_from_those_before_it() -> None:
    made = tables(lake_settings())
    assert [t.name for t in made] == NAMES
    for place, table in enumerate(made):
        assert {i.table for i in table.contract.inputs} & set(NAMES) <= set(NAMES[:place])


@pytest.mark.parametrize(
    ("sections", "moved"),
    [
        ({"features": {"windows_days": [2, 3]}}, ["features", "features_as_known"]),
        ({"features": {"cutoff_grace_hours": 6}}, ["features_as_known"]),
        ({"labels": {"rule": "rise"}}, ["labels"]),
        ({"source": {**SOURCE, "select": "seq + 1 AS seq"}}, ["raw"]),
        ({"lateness": {"early_tolerance_days": 5}}, ["raw"]),
        ({"spark": {"memory": "7g"}}, []),
        ({"lateness": {"runs_per_day": 7}}, []),
    ],
)
def test_a_setting_makes_outdated_what_it_reaches_and_nothing_else(sections: dict[str, Any], moved: list[str]) -> None:
    assert moved_by(**sections) == moved


PAYLOAD = {"entity": "STRING", "value": "BIGINT NOT NULL", "flag": "INT NOT NULL"}


@pytest.mark.parametrize("payload", [{"customer": "STRING"}, PAYLOAD | {"value": "BIGINT"}, PAYLOAD | {"flag": "INT"}])
def test_the_built_in_features_are_refused_over_a_payload_that_lacks_their_columns(payload: dict[str, str]) -> None:
    entity = ["customer"] if "customer" in payload else ["entity"]
    settings = lake_settings(source={**SOURCE, "payload": payload}, features={"entity": entity})
    with pytest.raises(SettingsError, match="value BIGINT NOT NULL, flag INT NOT NULL"):
        tables(settings)
    assert [t.name for t in delivered(settings)] == NAMES[:2], "tables of one's own can be made from these"


def test_a_payload_stands_in_raw_and_staging_where_the_three_columns_stood() -> None:
    made = tables(lake_settings(source={**SOURCE, "payload": {**PAYLOAD, "total": "DECIMAL(18,2)"}}))
    before = tables(lake_settings())
    for now, then in zip(made[:2], before[:2], strict=True):
        added = [c for c in now.contract.columns if c not in then.contract.columns]
        assert [(c.name, c.type, c.nullable, dict(c.tags)) for c in added] == [
            ("total", "DECIMAL(18,2)", True, {"role": "measure"})
        ]
    assert [replace(t.contract, inputs=()) for t in made[2:]] == [replace(t.contract, inputs=()) for t in before[2:]]
    read = {i.columns for t in made[2:] for i in t.contract.inputs if i.table == "staging"}
    assert read == {before[1].contract.column_names}, "the column is read by none of them"
    assert {i.columns for t in before for i in t.contract.inputs} == {None}
    one, other = (make_pipeline(of).codes for of in (before, made))
    assert [n for n in NAMES if one[n] != other[n]] == NAMES[:2]


@pytest.mark.usefixtures("processes")
def test_neither_spark_nor_a_parser_is_imported_to_know_the_tables_of_a_lake_that_declares_nothing() -> None:
    from backfill_assets_tests.processes import run_python

    code = """
        import sys
        from backfill_assets.pipeline.tables import tables
        from backfill_assets_tests.pipeline.built_in import lake_settings
        tables(lake_settings())
        print({"pyspark", "sqlglot"} & sys.modules.keys())
    """
    assert run_python(code, fresh=True) == "set()\n"


# of declared features and labels


def moved(before: Any, after: Any) -> list[str]:
    """The tables that another setting makes outdated."""
    one, other = (make_pipeline(tables(s)).codes for s in (before, after))
    return [n for n in NAMES if one[n] != other[n]]
