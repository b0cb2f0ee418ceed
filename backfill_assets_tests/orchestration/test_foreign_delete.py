"""A DELETE in raw by another program: an alarm at the next tick, asked for then, and repaired by what is asked for.

Raw is rewritten by day, so that it cannot be `delta.appendOnly`. Tested here: from the DELETE to the rows of before.
Not tested here: ticks (`test_ticks`), and what `verify` says.
"""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable

from backfill_assets.lake.model import make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.lakes import backfill, content, delivery, make_lake
from backfill_assets_tests.orchestration.ticking import asked, landing, late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = [f"2024-03-0{n}" for n in (1, 2, 3)]
ROWS = [delivery(n, f"{d}T10:00:00Z", f"{d}T09:00:00Z", f"e{n}") for n, d in enumerate(DAYS)]


@pytest.mark.usefixtures("storages")
def test_a_delete_by_another_program_is_an_alarm_at_the_next_tick_and_its_day_is_made_again(
    spark: "SparkSession", tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake = make_lake(tmp_path / "lake", ROWS, DAYS[0])
    pipeline = make_pipeline(tables(lake.settings))
    backfill(lake, DAYS[0], DAYS[-1], ["raw", "staging"])
    before = content(lake, "raw")
    DeltaTable(str(lake.table_path("raw"))).delete(f"arrival_date = '{date.fromisoformat(DAYS[1])}'")
    assert len(content(lake, "raw")) == len(before) - 1
    tick = late((lake, pipeline), instance)
    assert f"raw {DAYS[1]}: another program wrote here" in tick.alarms["foreign raw"]
    assert asked(landing((lake, pipeline), instance)) == [f"raw {DAYS[1]}"]
    backfill(lake, DAYS[1], DAYS[1], ["raw"])
    assert content(lake, "raw") == before
    assert "foreign raw" not in late((lake, pipeline), instance).alarms
