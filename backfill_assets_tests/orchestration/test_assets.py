"""The Dagster face of a table: what a run shows of itself, whom it names, and what it refuses before any work.

Tested here: `orchestration.assets` on settled days, so that no engine is needed. Not tested here: definitions
(`test_assemble`), and runs that make rows (`test_runs`).
"""

from collections import Counter
from typing import Any

import dagster as dg
import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.orchestration.dagster_private import newest_target
from backfill_assets.orchestration.runs import DAYS_TAG, TABLES_TAG
from backfill_assets_tests.builders import CHECKS
from backfill_assets_tests.lakes import run_rebuild
from backfill_assets_tests.operations.synthetic import START
from backfill_assets_tests.orchestration.ticking import Made

pytestmark = pytest.mark.usefixtures("storages")

NEXT = START + ONE_DAY


def tags_of(instance: dg.DagsterInstance, result: Any) -> dict[str, str]:
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    return dict(run.tags)


def test_a_run_of_one_day_shows_what_dagster_shows_of_it_and_its_data_version(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    one = run_rebuild(lake[0], START, START, instance, ["staging"])
    assert {DAYS_TAG, TABLES_TAG}.isdisjoint(tags_of(instance, one))
    (record,) = instance.fetch_materializations(dg.AssetKey("staging"), limit=1).records
    assert record.asset_materialization is not None
    assert (record.asset_materialization.tags or {})["dagster/data_version"].startswith("3.F")


def events_of_days(instance: dg.DagsterInstance, result: Any) -> Counter[str]:
    """How many events of each kind the run recorded."""
    events = (e for r in instance.get_records_for_run(result.run_id).records if (e := r.event_log_entry.dagster_event))
    return Counter(e.event_type_value for e in events)


@pytest.mark.parametrize("before", [0, 1])
def test_every_run_records_each_of_its_days_and_each_check_once(
    lake: Made, instance: dg.DagsterInstance, before: int
) -> None:
    for _ in range(before + 1):
        done = run_rebuild(lake[0], START, NEXT, instance, ["staging"])
    counted = events_of_days(instance, done)
    assert counted["ASSET_MATERIALIZATION"] == counted["ASSET_MATERIALIZATION_PLANNED"] == 2
    assert counted["ASSET_CHECK_EVALUATION"] == len(CHECKS)
    assert counted["ASSET_CHECK_EVALUATION_PLANNED"] == 0
    target = newest_target(instance, dg.AssetKey("staging"))
    for check in CHECKS:
        record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(dg.AssetKey("staging"), check))
        assert record is not None
        assert isinstance(record.evaluation, dg.AssetCheckEvaluation)
        assert (record.run_id, record.partition, record.evaluation.passed) == (done.run_id, None, True)
        assert record.evaluation.target_materialization_data == target
