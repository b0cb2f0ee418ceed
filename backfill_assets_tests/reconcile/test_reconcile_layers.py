"""Layers of a real lake balance per day; a doubled table and an edited one each show where they
arise. What a model saw is held against what became known later: training against the guide's query
over today's features and labels. Not here: matching rows of two sides
(`reconcile.test_reconcile`)."""

import re
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.kernel.tables.home import Lake
from backfill_assets.learn.practice_command import guide_files
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reconcile.reconcile import ReconcileRequest, reconcile
from backfill_assets.reconcile.reconcile_layers import LayersReport, reconcile_layers
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.lakes import backfill, delivery, land, make_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

FIRST, LAST = "2024-03-01", "2024-03-04"
ON_TIME = [
    *(
        delivery(n, f"2024-03-0{n}T10:00:00Z", f"2024-03-0{n}T09:00:00Z", f"e{n}", value=n)
        for n in (1, 2, 3)
    ),
    delivery(4, "2024-03-04T10:00:00Z", "2024-03-04T09:00:00Z", "e4", entity="B"),
    delivery(5, "2024-03-03T11:00:00Z", "2024-03-03T09:00:00Z", "e3", op="delete"),
]
LATE = delivery(6, "2024-03-05T10:00:00Z", "2024-03-02T12:00:00Z", "late", entity="A", value=100)


@pytest.fixture
def lake(spark: "SparkSession", tmp_path: Path) -> Lake:
    """Five deliveries on four days, one of them a deletion, one line that is none, one that landed
    twice."""
    made = make_lake(tmp_path / "lake", ON_TIME, FIRST)
    land(made, "again.jsonl", [ON_TIME[0], {"seq": "no number"}])
    backfill(made, FIRST, LAST)
    return made


def layers(lake: Lake) -> LayersReport:
    return reconcile_layers(lake, chosen_pipeline(lake))


def test_layers_balance_and_a_doubled_table_shows_on_its_days(lake: Lake) -> None:
    found = layers(lake)
    assert found.wrong == []
    assert {b.name for b in found.balances} == {
        "landed rows of raw",
        "current events of staging",
        "rows of features",
        "rows of features_as_known",
        "features and labels",
    }
    assert sum(b.one.get("entities with events in staging", 0) for b in found.balances) == 10
    assert sum(b.one["landed"] for b in found.balances if "landed" in b.one) == 7
    assert sum(b.other["quarantine"] for b in found.balances if "quarantine" in b.other) == 1
    assert sum(b.other["duplicates"] for b in found.balances if "duplicates" in b.other) == 1

    double(lake, "staging")
    wrong = [b for b in layers(lake).balances if not b.is_equal]
    assert {(b.name, b.day) for b in wrong} == {
        ("current events of staging", date(2024, 3, d)) for d in (1, 2, 4)
    }


@pytest.mark.parametrize("table", ["features", "features_as_known"])
def test_rows_that_features_lack_or_have_too_many_show_on_their_days(
    lake: Lake, table: str
) -> None:
    DeltaTable(str(lake.table_place(table).local())).delete("feature_date = '2024-03-02'")
    lacking = {(b.name, b.day) for b in layers(lake).balances if not b.is_equal}
    assert (f"rows of {table}", date(2024, 3, 2)) in lacking
    double(lake, table)
    found = {(b.name, b.day) for b in layers(lake).balances if not b.is_equal}
    assert {(f"rows of {table}", date(2024, 3, d)) for d in (1, 2, 3, 4)} <= found


def double(lake: Lake, table: str) -> None:
    """Append all rows of a table to it, as an unguarded script would."""
    path = str(lake.table_place(table).local())
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")


def test_the_command_ends_with_1_where_a_complete_day_does_not_balance(lake: Lake) -> None:
    fine = run("reconcile", "--layers", "--lake", lake.root)
    assert fine.exit_code == 0
    assert "7 landed = 5 raw + 1 quarantine + 0 too_late + 1 duplicates" in fine.stdout
    (broken,) = lake.table_place("quarantine").local().rglob("*.parquet")
    pq.write_table(pq.read_table(broken).slice(1), broken)
    (commit,) = (lake.table_place("quarantine").local() / "_delta_log").glob("*1.json")
    commit.write_text(
        re.sub('"size":[0-9]+', f'"size":{broken.stat().st_size}', commit.read_text())
    )
    wrong = run("reconcile", "--layers", "--lake", lake.root)
    assert wrong.exit_code == 1
    assert "does not balance" in wrong.stdout


def test_training_is_held_against_what_became_known_later_by_the_query_of_the_guide(
    lake: Lake,
) -> None:
    query = of_the_guide("duckdb:SELECT f.*")

    def differing() -> list[date | None]:
        report = reconcile(lake, chosen_pipeline(lake), ReconcileRequest("training", query))
        return [d.day for d in report.days if d.kinds]

    assert differing() == []
    land(lake, "2024-03-05.jsonl", [LATE])
    backfill(lake, FIRST, "2024-03-05")
    assert differing() == [date(2024, 3, d) for d in (2, 3, 4)]
    later = run("sql", of_the_guide("SELECT day, arrival_date"), "--json", "--lake", lake.root)
    assert [tuple(row.values()) for row in read(later)] == [
        (f"2024-03-0{d}", "2024-03-05", 1) for d in (2, 3, 4)
    ]


def of_the_guide(begin: str) -> str:
    """The query of the guide that begins so, up to its quotation mark."""
    guide = guide_files()["trust"].read_text(encoding="utf-8")
    return guide[guide.index(begin) :].partition('"')[0]
