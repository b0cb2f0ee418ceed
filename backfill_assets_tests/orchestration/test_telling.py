"""What a run tells Dagster of its days: every day of a run that Dagster planned, only news of one that leaves it to us.

Tested here: `orchestration.telling` by runs over settled days, on a lake of logs, without an engine. Not tested here:
storage (`test_event_storage`), metadata of computed days (`test_runs`).
"""

from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import dagster as dg
import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.errors import ContractBroken
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.dagster_private import check_rows, unmade_partitions
from backfill_assets.orchestration.runs import OWN_EVENTS, RANGE_END, RANGE_START, REBUILD
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import CHECKS
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")

DAYS = 6
KINDS = ("ASSET_MATERIALIZATION", "ASSET_MATERIALIZATION_PLANNED", "ASSET_CHECK_EVALUATION", "STEP_SUCCESS")
Made = tuple[Lake, Pipeline]


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    return synthetic_lake(tmp_path / "lake", DAYS)


def run(lake: Made, instance: dg.DagsterInstance, ours: bool = True) -> Any:
    """A run of staging over all days, whose events are `ours` or Dagster's."""
    span = {RANGE_START: str(START), RANGE_END: str(START + ONE_DAY * (DAYS - 1))}
    job = assemble(lake[0].root, tables, ["staging"]).resolve_job_def(REBUILD)
    return job.execute_in_process(instance=instance, tags=span | (OWN_EVENTS if ours else {}), raise_on_error=False)


def told(instance: dg.DagsterInstance, result: Any) -> dict[str, int]:
    """How many events of each kind the run told of days."""
    events = (e for r in instance.get_records_for_run(result.run_id).records if (e := r.event_log_entry.dagster_event))
    counted = Counter(e.event_type_value for e in events)
    return {kind: counted[kind] for kind in KINDS if counted[kind]}


def test_a_run_of_ours_tells_days_that_dagster_does_not_know_and_a_second_one_nothing(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    first = told(instance, run(lake, instance))
    assert first["ASSET_MATERIALIZATION"] == DAYS
    assert first["ASSET_CHECK_EVALUATION"] == DAYS * len(CHECKS)
    rows = check_rows(instance, "staging", CHECKS)
    assert len(rows) == DAYS * len(CHECKS)
    assert all(row.evaluated and row.passed and row.is_current for row in rows)
    assert told(instance, run(lake, instance)) == {"STEP_SUCCESS": 1}


def test_a_run_that_dagster_planned_tells_every_day(lake: Made, instance: dg.DagsterInstance) -> None:
    run(lake, instance)
    second = told(instance, run(lake, instance, ours=False))
    assert second["ASSET_MATERIALIZATION"] == second["ASSET_MATERIALIZATION_PLANNED"] == DAYS
    assert second["ASSET_CHECK_EVALUATION"] == DAYS * len(CHECKS)


def test_both_ways_tell_the_same(lake: Made) -> None:
    said = []
    for ours in (True, False):
        with dg.DagsterInstance.ephemeral() as instance:
            run(lake, instance, ours)
            records = instance.fetch_materializations(dg.AssetKey("staging"), limit=DAYS).records
            made = [(str(r.partition_key), r.asset_materialization) for r in records]
            said.append({d: (_facts(m), m.tags or {}) for d, m in made if m is not None})
    assert said[0] == said[1]
    assert "dagster/data_version" in (said[0][str(START)][1] or {})


def _facts(materialization: dg.AssetMaterialization) -> dict[str, Any]:
    return {k: v.value for k, v in materialization.metadata.items() if not k.endswith(("seconds_per_day", "/phases"))}


def test_a_day_that_dagster_shows_otherwise_is_told_again_and_no_other(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    run(lake, instance)
    day = str(START + ONE_DAY * 2)
    instance.report_runless_asset_event(dg.AssetMaterialization("staging", partition=day, metadata={"of": "another"}))
    again = told(instance, run(lake, instance))
    assert (again["ASSET_MATERIALIZATION"], again["ASSET_CHECK_EVALUATION"]) == (1, len(CHECKS))
    assert all(row.is_current for row in check_rows(instance, "staging", CHECKS))


def test_days_that_somebody_wiped_in_dagster_are_told_again(lake: Made, instance: dg.DagsterInstance) -> None:
    run(lake, instance)
    instance.wipe_assets([dg.AssetKey("staging")])
    assert told(instance, run(lake, instance))["ASSET_MATERIALIZATION"] == DAYS


def test_a_failed_attempt_at_a_day_is_seen_and_settled_days_are_not_touched_by_it(
    lake: Made, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(lake, instance)
    stale = START + ONE_DAY * 3
    build(*lake, "staging", {stale: 3}, digests={stale: "older"})

    def broken(_self: Rebuild) -> NoReturn:
        raise ContractBroken("staging", "it cannot be made", "Nothing was written", "Wait")

    monkeypatch.setattr(Rebuild, "prepare", broken)
    result = run(lake, instance)
    assert not result.success
    assert unmade_partitions(instance, "staging") == {str(stale): result.run_id}
