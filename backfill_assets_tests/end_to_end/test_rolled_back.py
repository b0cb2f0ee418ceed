"""A wrong transform wrote every day; the days go back, Spark reads what they held, and goes on after their release.

Tested here: Spark over files that were removed and came back. Not tested here: which days go back
(`operations.test_rollback`).
"""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.core.days import from_inclusive
from backfill_assets.core.errors import DaysHeld
from backfill_assets.core.states import State
from backfill_assets.lake.model import Chunk, Table, make_pipeline
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.view import read_view
from backfill_assets.operations.rollback import RollbackRequest, release, roll_back
from backfill_assets_tests.lakes import ECHO, backfill, content, delivery, land, make_lake, snapshot, toy, version
from backfill_assets_tests.pipeline.built_in import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.on_spark("Spark is the reader that it asks")

FIRST, LAST = date(2024, 3, 1), date(2024, 3, 3)
SPAN = from_inclusive(FIRST, LAST)
MADE = [delivery(n, f"2024-03-0{n} 10:00:00", None, f"k{n}", value=n) for n in (1, 2, 3)]
SAID = Provenance("", tags={"by": "ann@desk"})


def wrong(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    rows = frames["raw"].selectExpr("event_key", "value + 100 AS value", "to_date(event_ts) event_date")
    return rows.where(rows.event_date.between(chunk.days.start, chunk.days.last))


def faulty(_: LakeSettings) -> tuple[Table, ...]:
    return Table(contract("raw")), Table(ECHO, wrong)


def test_spark_reads_days_that_were_put_back_and_makes_them_again_after_their_release(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lake = make_lake(tmp_path / "lake", MADE, FIRST)
    backfill(lake, FIRST, LAST, ["raw", "echo"], toy())
    right, held_before = content(lake, "echo"), snapshot(lake, toy())["echo"]
    backfill(lake, FIRST, LAST, ["echo"], faulty)
    assert content(lake, "echo") != right
    pipeline = make_pipeline(toy()(lake.settings))
    roll_back(lake, pipeline, RollbackRequest(table="echo", days=SPAN, to_version=1), SAID)

    assert snapshot(lake, toy())["echo"] == held_before
    read = LakeSession(lake).read("echo", version(lake, "echo"), "event_date").orderBy("event_date").collect()
    assert [(r["event_date"], r["event_key"], r["value"]) for r in read] == [
        (day, f"k{n}", n) for n, day in enumerate(SPAN, 1)
    ]
    with pytest.raises(DaysHeld, match="let them go first"):
        backfill(lake, FIRST, LAST, ["echo"], toy())

    land(lake, "late.jsonl", [delivery(9, "2024-03-03 11:00:00", "2024-03-02 09:00:00", "late", value=9)])
    backfill(lake, FIRST, LAST, ["raw"], toy())
    release(lake, pipeline, RollbackRequest(table="echo", days=SPAN), SAID)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    assert [states.of("echo", d) for d in SPAN] == [State.FRESH, State.STALE, State.FRESH]
    assert backfill(lake, FIRST, LAST, ["echo"], toy())["echo"].changed == {date(2024, 3, 2)}
    again = LakeSession(lake).read("echo", version(lake, "echo"), "event_date")
    assert sorted(r["value"] for r in again.collect()) == [1, 2, 3, 9]
