"""The tables of declared features and labels: which setting makes outdated what, and what stays as it was.

Tested here: `pipeline.tables` with declarations. Not tested here: what is computed (`transforms`).
"""

from typing import Any

import pytest

from backfill_assets.lake.model import make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.pipeline.test_declared import orders
from backfill_assets_tests.pipeline.test_tables import NAMES, lake_settings

SPENT = {"name": "spent", "agg": "sum", "of": "total", "days": 28}
ORDERS = {"name": "orders", "agg": "count", "days": 7}


def moved(before: Any, after: Any) -> list[str]:
    """The tables that another setting makes outdated."""
    one, other = (make_pipeline(tables(s)).codes for s in (before, after))
    return [n for n in NAMES if one[n] != other[n]]


@pytest.mark.parametrize(
    "changed",
    [
        [SPENT | {"days": 14}, ORDERS],
        [SPENT | {"where": "NOT is_return"}, ORDERS],
        [SPENT | {"of": "total * 2"}, ORDERS],
        [SPENT | {"agg": "max"}, ORDERS],
    ],
)
def test_another_feature_makes_both_feature_tables_outdated_and_never_staging(changed: list[dict[str, Any]]) -> None:
    assert moved(orders(SPENT, ORDERS), orders(*changed))[:2] == ["features", "features_as_known"]
    assert "labels" not in moved(orders(SPENT, ORDERS), orders(*changed))


def test_an_added_or_dropped_feature_is_another_training_table_too() -> None:
    assert moved(orders(SPENT), orders(SPENT, ORDERS)) == ["features", "features_as_known", "training"]


def test_a_payload_column_that_nothing_reads_makes_only_its_own_tables_outdated() -> None:
    before = orders(SPENT, ORDERS, label="count_ahead() > 1")
    payload = {**(before.source.payload or {}), "channel": "STRING"}
    source = before.source.model_copy(update={"payload": payload})
    after = before.model_copy(update={"single": source})
    assert "channel" in tables(after)[1].contract.column_names
    assert moved(before, after) == ["raw", "staging"]


def test_tables_of_declared_features_read_what_they_name_and_labels_whom_they_are_of() -> None:
    read = {
        t.name: {i.table: i.columns for i in t.contract.inputs}
        for t in tables(orders(SPENT, ORDERS, label="count_ahead() > 1"))
    }
    machinery = {"event_key", "event_ts", "version_ts", "seq", "known_from", "known_until", "event_date"}
    for name in ("features", "features_as_known"):
        assert set(read[name]["staging"] or ()) == machinery | {"customer_id", "total"}
    assert set(read["labels"]["staging"] or ()) == machinery | {"customer_id"}
    assert read["labels"]["features_as_known"] == ("customer_id", "feature_date")
    assert read["training"] == {"features_as_known": None, "labels": None}


def test_another_label_makes_labels_outdated() -> None:
    one, other = (orders(SPENT, label=f"count_ahead() > {n}") for n in (1, 2))
    assert moved(one, other) == ["labels"]


def test_a_lake_that_declares_nothing_has_the_tables_of_before() -> None:
    usual = {t.name: t for t in tables(lake_settings())}
    assert usual["features"].settings == {"windows_days": (7, 28)}
    assert usual["labels"].settings == {"measure": "events", "rule": "any", "horizon_days": 7, "maturity_days": 7}
    assert [t.code_version for t in usual.values()][1:] == ["staging 2", *(f"{name} 1" for name in NAMES[2:])]
    assert not any(t.compiled for t in usual.values())


def test_declared_features_stand_beside_labels_by_measure_and_rule() -> None:
    columns = [{"name": "seen", "agg": "count", "days": 3}]
    mixed = {t.name: t for t in tables(lake_settings(features={"columns": columns}))}
    usual = {t.name: t for t in tables(lake_settings())}
    told = [(made["labels"].contract.columns, made["labels"].settings) for made in (mixed, usual)]
    assert told[0] == told[1]
    assert mixed["training"].contract.column_names == ("entity", "seen", "feature_date", "label")
    assert mixed["features"].compiled == {"seen": "count(*) over event_date BETWEEN day - 2 AND day"}


def test_the_built_in_columns_are_there_for_an_entity_of_another_name() -> None:
    payload = {"who": "BIGINT", "country": "STRING", "value": "BIGINT NOT NULL", "flag": "INT NOT NULL"}
    source = {"files": "landing/**", "format": "jsonl", "select": "seq", "payload": payload}
    made = {t.name: t for t in tables(lake_settings(source=source, features={"entity": ["who", "country"]}))}
    usual = {t.name: t for t in tables(lake_settings())}
    assert made["features"].contract.column_names[2:] == usual["features"].contract.column_names[1:]
    assert made["labels"].contract.column_names[:4] == ("who", "country", "forward", "backward")
