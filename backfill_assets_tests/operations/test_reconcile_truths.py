"""What a model saw beside what became known later: training against a query over today's features and labels.
Not here: matching rows of two sides (`test_reconcile`)."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.cli.practice import guides
from backfill_assets.lake.home import Lake
from backfill_assets.operations.reconcile import ReconcileRequest, reconcile
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.lakes import backfill, delivery, land, make_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, LAST = "2024-03-01", "2024-03-04"
ON_TIME = [
    *(delivery(n, f"2024-03-0{n}T10:00:00Z", f"2024-03-0{n}T09:00:00Z", f"e{n}", value=n) for n in (1, 2, 3)),
    delivery(4, "2024-03-04T10:00:00Z", "2024-03-04T09:00:00Z", "e4", entity="B"),
    delivery(5, "2024-03-03T11:00:00Z", "2024-03-03T09:00:00Z", "e3", op="delete"),
]
LATE = delivery(6, "2024-03-05T10:00:00Z", "2024-03-02T12:00:00Z", "late", entity="A", value=100)


@pytest.fixture
def lake(spark: "SparkSession", tmp_path: Path) -> Lake:
    """Five deliveries on four days, one of them a deletion."""
    made = make_lake(tmp_path / "lake", ON_TIME, FIRST)
    backfill(made, FIRST, LAST)
    return made


def test_training_is_held_against_what_became_known_later_by_the_query_of_the_guide(lake: Lake) -> None:
    guide = (guides()["trust"]).read_text(encoding="utf-8")
    query = guide[guide.index("duckdb:SELECT f.*") :].partition('"')[0]

    def differing() -> list[date | None]:
        report = reconcile(lake, chosen_pipeline(lake), ReconcileRequest("training", query))
        return [d.day for d in report.days if d.kinds]

    assert differing() == []
    land(lake, "2024-03-05.jsonl", [LATE])
    backfill(lake, FIRST, "2024-03-05")
    assert differing() == [date(2024, 3, d) for d in (2, 3, 4)]
