"""What a model saw beside what became known later, with the deliveries behind the differences.

Tested here: `operations.reconcile_layers` on tables that the product wrote, and its command. Not tested here: matching
rows of two sides (`test_reconcile`).
"""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.matched_columns import DIFFERS
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.reconcile import reconcile
from backfill_assets.operations.reconcile_layers import LaterDelivery, later_deliveries, learning_tables, truths_request
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.cli.typed import run
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


def test_training_is_held_against_what_became_known_later(lake: Lake) -> None:
    pipeline = chosen_pipeline(lake)
    assert reconcile(lake, pipeline, truths_request(pipeline)).mismatches == 0
    land(lake, "2024-03-05.jsonl", [LATE])
    backfill(lake, FIRST, "2024-03-05")
    report = reconcile(lake, pipeline, truths_request(pipeline))
    differing = [d.day for d in report.days if d.day and d.kinds.get(DIFFERS)]
    assert differing == [date(2024, 3, d) for d in (2, 3, 4)]
    assert later_deliveries(lake, pipeline, differing[:1]) == [
        LaterDelivery(date(2024, 3, 2), date(2024, 3, 5), 1)
    ]  # fmt: skip
    shown = run("reconcile", "--truths", "--lake", lake.root)
    assert shown.exit_code == 0
    assert "deliveries that arrived after the day" in shown.stdout


def test_a_lake_without_features_and_labels_has_no_truths() -> None:
    assert learning_tables(Pipeline((), {})) is None
    with pytest.raises(BackfillError, match="no features as known"):
        truths_request(Pipeline((), {}))
