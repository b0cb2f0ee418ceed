"""The two sensors as Dagster calls them: runs and a cursor that shows what was found, or why there are none.

Tested here: `orchestration.sensors` on lakes without an engine. Not tested here: what a tick decides (`test_ticks`),
and files that land (`browser.test_ui`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.operations.standing import attention
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.runs import LAKE_TAG
from backfill_assets.orchestration.sensors import CURSOR_CHARS, lake_sensors, scan_job
from backfill_assets.orchestration.ticks import LANDING, LATE_DATA, SCAN
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.orchestration.ticking import Made, day, stale

pytestmark = pytest.mark.usefixtures("storages")


def sensors(root: Path) -> dict[str, dg.SensorDefinition]:
    lake_context = LakeContext(root, tables)
    return {s.name: s for s in lake_sensors(lake_context, [scan_job(lake_context)])}


def evaluated(root: Path, name: str, instance: dg.DagsterInstance) -> Any:
    """What Dagster gets of one tick."""
    return sensors(root)[name](dg.build_sensor_context(instance=instance))


def test_both_run_unless_they_are_turned_off(lake: Made) -> None:
    found = sensors(lake[0].root)
    assert set(found) == {LANDING, LATE_DATA}
    assert {s.default_status for s in found.values()} == {dg.DefaultSensorStatus.RUNNING}


def test_a_tick_with_nothing_to_do_says_so_in_its_cursor(lake: Made, instance: dg.DagsterInstance) -> None:
    result = evaluated(lake[0].root, LATE_DATA, instance)
    assert not result.run_requests
    assert result.cursor == "nothing to do"
    assert result.cursor in str(result.skip_reason)


def test_stale_days_become_runs_and_the_cursor_tells_what_was_found(lake: Made, instance: dg.DagsterInstance) -> None:
    stale(lake, 2)
    result = evaluated(lake[0].root, LATE_DATA, instance)
    assert [str(day(2)) in str(r.run_config) for r in result.run_requests] == [True]
    assert str(day(2)) in result.cursor
    assert len(result.cursor) <= CURSOR_CHARS


def test_a_file_that_is_missing_is_kept_for_whoever_asks_what_needs_attention(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    for file in (lake[0].root / "landing").iterdir():
        file.unlink()
    result = evaluated(lake[0].root, LANDING, instance)
    assert "missing" in result.cursor
    assert any("missing" in str(told) for told in attention(lake[0].root))


def test_the_scan_is_a_job_that_names_its_lake(lake: Made) -> None:
    job = scan_job(LakeContext(lake[0].root, tables))
    assert (job.name, job.tags[LAKE_TAG]) == (SCAN, str(lake[0].root))
