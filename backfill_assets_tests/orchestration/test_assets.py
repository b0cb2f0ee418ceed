"""The Dagster face of a table: what a run shows of itself, whom it names, and what it refuses before any work.

Tested here: `orchestration.assets` on settled days, so that no engine is needed. Not tested here: definitions
(`test_assemble`), and runs that make rows (`test_runs`).
"""

from collections import Counter
from typing import Any, NoReturn

import dagster as dg
import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.errors import ContractBroken
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.dagster_private import newest_target, planned_partitions
from backfill_assets.orchestration.reconcile import follow_receipts
from backfill_assets.orchestration.runs import DAYS_TAG, LAKE_TAG, TABLES_TAG
from backfill_assets_tests.builders import CHECKS
from backfill_assets_tests.lakes import run_rebuild
from backfill_assets_tests.operations.synthetic import START, build
from backfill_assets_tests.orchestration.ticking import Made, seen

pytestmark = pytest.mark.usefixtures("storages")

NEXT = START + ONE_DAY


def tags_of(instance: dg.DagsterInstance, result: Any) -> dict[str, str]:
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    return dict(run.tags)


def test_a_run_of_several_days_shows_days_and_tables_in_the_runs_list(lake: Made, instance: dg.DagsterInstance) -> None:
    some = run_rebuild(lake[0], START, NEXT, instance, ["staging", "features"])
    assert some.success
    tags = tags_of(instance, some)
    assert tags[LAKE_TAG] == str(lake[0].root)
    assert (tags[DAYS_TAG], tags[TABLES_TAG]) == (f"{START}..{NEXT}", "staging, features")


def test_a_run_of_one_day_shows_what_dagster_shows_of_it_and_its_data_version(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    one = run_rebuild(lake[0], START, START, instance, ["staging"])
    assert {DAYS_TAG, TABLES_TAG}.isdisjoint(tags_of(instance, one))
    (record,) = instance.fetch_materializations(dg.AssetKey("staging"), limit=1).records
    assert record.asset_materialization is not None
    assert (record.asset_materialization.tags or {})["dagster/data_version"].startswith("3.F")


def test_verdicts_come_after_the_materialization_that_they_are_about(lake: Made, instance: dg.DagsterInstance) -> None:
    done = run_rebuild(lake[0], START, START, instance, ["staging"])
    told = [e.event_type_value for e in done.all_events if e.event_type_value.startswith("ASSET_")]
    made = [n for n in told if n in ("ASSET_MATERIALIZATION", "ASSET_CHECK_EVALUATION")]
    assert made == ["ASSET_MATERIALIZATION", *["ASSET_CHECK_EVALUATION"] * len(CHECKS)]


@pytest.mark.parametrize(("first", "last"), [("2024-02-28", "2024-02-26"), ("2024-02-27", "2024-02-26")])
def test_partitions_that_are_no_days_in_order_are_refused_before_any_work(
    lake: Made, instance: dg.DagsterInstance, first: str, last: str
) -> None:
    before = [(c.version, c.at) for c in lake[0].store.commits("staging")]
    try:
        failed = not run_rebuild(lake[0], first, last, instance, ["staging"]).success
    except dg.DagsterError:  # Dagster refuses some itself
        failed = True
    assert failed
    assert [(c.version, c.at) for c in lake[0].store.commits("staging")] == before


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


def test_a_failed_attempt_at_a_day_is_seen_and_days_that_were_right_are_shown_again(
    lake: Made, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_rebuild(lake[0], START, NEXT, instance, ["staging"])
    build(*lake, "staging", {NEXT: 3}, digests={NEXT: "older"})

    def broken(_self: Rebuild) -> NoReturn:
        raise ContractBroken("staging", "it cannot be made", "Nothing was written", "Wait")

    monkeypatch.setattr(Rebuild, "prepare", broken)
    result = run_rebuild(lake[0], START, NEXT, instance, ["staging"])
    assert not result.success
    follow_receipts(instance, *seen(*lake))
    assert planned_partitions(instance, dg.AssetKey("staging")) == {str(NEXT): result.run_id}
