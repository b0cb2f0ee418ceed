"""Event repair: after runs that ended without an event, Dagster shows each day as its receipt says;
nothing else moves.

Tested here: `dagster.adapter.reconcile` by ticks and starts of runs, on lakes of logs with
Dagster's own storage. Not tested here: runs that are really killed (`end_to_end.test_late_data`)
and what a page shows (`browser`).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter import reconcile, runs
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.dagster_private import (
    newest_materializations,
    newest_target,
    planned_partitions,
)
from backfill_assets.dagster.adapter.reconcile import record_missed_commits
from backfill_assets.dagster.adapter.ticks import late_data_tick
from backfill_assets.dagster.adapter.verdicts import RunFindings, Verdicts
from backfill_assets.kernel.core.plans import ROLLBACK
from backfill_assets.kernel.core.profiles import Finding
from backfill_assets.kernel.core.receipts import Built, Receipt
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import CHECKS, make_commit
from backfill_assets_tests.dagster.adapter.ticking import Made, day, seen
from backfill_assets_tests.homes import opened_home
from backfill_assets_tests.logs import versions
from backfill_assets_tests.synthetic import build, end_of

pytestmark = pytest.mark.usefixtures("storages")
DAYS = 4
SUCCESS, FAILURE = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE
STARTED, CANCELED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELED


@pytest.fixture
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """Storage as `dagster dev` has it: files of their own for runs, and events in SQLite."""
    with opened_home(tmp_path_factory.mktemp("home")) as made:
        yield made


def planned(
    lake: Made, instance: dg.DagsterInstance, numbers: Sequence[int], named: Sequence[str]
) -> dg.DagsterRun:
    """A run of some days of some tables as Dagster stores it before its first step: all is planned,
    nothing is told."""
    job = assemble(lake[0].root, tables, named).resolve_job_def(runs.REBUILD)
    span = {runs.RANGE_START: str(day(numbers[0])), runs.RANGE_END: str(day(numbers[-1]))}
    run = instance.create_run_for_job(job, tags=span, status=STARTED)
    instance.report_run_canceling(run)  # any status that lives
    return run


def ended(instance: dg.DagsterInstance, run: dg.DagsterRun, status: dg.DagsterRunStatus) -> None:
    if status is FAILURE:
        instance.report_run_failed(run)
    else:
        instance.report_run_canceled(run)


def made(
    lake: Made, instance: dg.DagsterInstance, numbers: Sequence[int], named: Sequence[str]
) -> None:
    """Days as a good run leaves them."""
    run = planned(lake, instance, numbers, named)
    ended(instance, run, FAILURE)
    record_missed_commits(instance, *seen(*lake))


def shown(instance: dg.DagsterInstance, table: str) -> dict[str, int]:
    """How many days of a table Dagster shows as made, and as failed."""
    run_of = planned_partitions(instance, dg.AssetKey(table))
    failed = (
        instance.get_runs(dg.RunsFilter(run_ids=list(run_of.values()), statuses=[FAILURE]))
        if run_of
        else []
    )
    ids = {r.run_id for r in failed}
    counted = {
        "made": len(instance.get_materialized_partitions(dg.AssetKey(table))),
        "failed": sum(run_id in ids for run_id in run_of.values()),
    }
    return {word: n for word, n in counted.items() if n}


def checked(instance: dg.DagsterInstance, table: str) -> dict[str, bool]:
    """Which checks of a table passed; those whose newest row is no evaluation of the table as it is
    are left out."""
    key = dg.AssetKey(table)
    found = (
        instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(key, c)) for c in CHECKS
    )
    evaluations = [
        r.evaluation
        for r in found
        if r is not None and isinstance(r.evaluation, dg.AssetCheckEvaluation)
    ]
    target = newest_target(instance, key)
    return {e.check_name: e.passed for e in evaluations if e.target_materialization_data == target}


def events(instance: dg.DagsterInstance) -> int:
    kinds = (dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    storage: Any = instance.event_log_storage
    return sum(len(storage.get_event_records(dg.EventRecordsFilter(kind))) for kind in kinds)


@pytest.mark.parametrize("status", [FAILURE, CANCELED])
def test_days_that_a_dead_run_planned_are_told_from_their_receipts_at_the_next_tick(
    lake: Made, on_disk: dg.DagsterInstance, status: dg.DagsterRunStatus
) -> None:
    instance = on_disk
    run = planned(lake, instance, range(DAYS), ["staging", "features"])
    ended(instance, run, status)
    assert shown(instance, "staging") == ({"failed": DAYS} if status is FAILURE else {})
    tick = late_data_tick(instance, LakeContext(lake[0].root, tables), end_of(DAYS + 1))
    assert shown(instance, "staging") == shown(instance, "features") == {"made": DAYS}
    assert (
        checked(instance, "staging") == checked(instance, "features") == dict.fromkeys(CHECKS, True)
    )
    assert f"staging: {DAYS} day(s) shown again from their receipts" in tick.notes
    (record,) = newest_materializations(instance, dg.AssetKey("staging"), [str(day(1))]).values()
    assert record.asset_materialization is not None
    said = {k: v.value for k, v in record.asset_materialization.metadata.items()}
    assert said["dagster/partition_row_count"] == 3
    assert str(said["backfill_assets/recorded_from"]).startswith("the receipt")


def test_days_of_a_run_that_died_after_the_clock_was_set_back_are_healed_as_well(
    lake: Made, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda real=time.time: real() + 10 * 365 * 86_400.0)
        ended(instance, planned(lake, instance, [0], ["labels"]), FAILURE)
    assert record_missed_commits(instance, *seen(*lake))
    ended(instance, planned(lake, instance, range(DAYS), ["staging"]), FAILURE)
    assert record_missed_commits(instance, *seen(*lake))
    assert record_missed_commits(instance, *seen(*lake)) == []


def test_a_look_heals_a_bounded_number_of_days_and_the_next_goes_on(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    ended(instance, planned(lake, instance, range(DAYS), ["staging", "features"]), FAILURE)
    known: dict[str, int] = {}
    told = [reconcile.repair_events(instance, *seen(*lake), known, limit=3) for _ in range(4)]
    assert [len(lines) for lines in told] == [1, 2, 1, 0]
    assert shown(instance, "staging") == shown(instance, "features") == {"made": DAYS}


def test_stale_days_and_days_without_a_receipt_stay_as_they_are(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    made(lake, instance, [0, 1], ["staging"])
    build(*lake, "staging", {day(1): 3, day(2): 3}, digests={day(1): "older", day(2): "older"})
    ended(instance, planned(lake, instance, range(DAYS + 1), ["staging"]), FAILURE)
    record_missed_commits(instance, *seen(*lake))
    assert set(planned_partitions(instance, dg.AssetKey("staging"))) == {
        str(day(n)) for n in (1, 2, DAYS)
    }
    assert shown(instance, "staging") == {"made": 3, "failed": 3}


def test_a_day_that_a_check_refused_stays_red(lake: Made, instance: dg.DagsterInstance) -> None:
    made(lake, instance, range(DAYS), ["staging"])
    run = planned(lake, instance, range(DAYS), ["staging"])
    refused = RunFindings([Finding("row_count", day(2), False, True, "9 rows")])
    there, states = seen(*lake)
    for verdict in Verdicts(instance, there, states).of(states.contracts["staging"], refused):
        instance.report_runless_asset_event(verdict)
    ended(instance, run, FAILURE)
    record_missed_commits(instance, *seen(*lake))
    assert shown(instance, "staging") == {"made": DAYS, "failed": 1}
    assert checked(instance, "staging") == {**dict.fromkeys(CHECKS, True), "row_count": False}


def test_facts_of_computing_are_told_again_of_the_same_content(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    made(lake, instance, [0], ["staging"])
    (record,) = newest_materializations(instance, dg.AssetKey("staging"), [str(day(0))]).values()
    assert record.asset_materialization is not None
    kept = record.asset_materialization.metadata
    more = dg.AssetMaterialization(
        "staging", partition=str(day(0)), metadata={**kept, "backfill_assets/late_share": 0.5}
    )
    instance.report_runless_asset_event(more)
    ended(instance, planned(lake, instance, [0], ["staging"]), FAILURE)
    record_missed_commits(instance, *seen(*lake))
    (again,) = newest_materializations(instance, dg.AssetKey("staging"), [str(day(0))]).values()
    assert again.asset_materialization is not None
    assert again.storage_id != record.storage_id
    assert again.asset_materialization.metadata["backfill_assets/late_share"].value == 0.5


def test_after_no_failure_hardly_anything_is_asked(
    lake: Made, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_missed_commits(instance, *seen(*lake))
    asked: list[str] = []
    monkeypatch.setattr(reconcile, "planned_partitions", lambda *_: asked.append("plans"))
    planned(lake, instance, range(DAYS), ["staging"])
    assert record_missed_commits(instance, *seen(*lake)) == []
    assert asked == []


def test_checks_of_days_put_back_are_told_anew_of_what_stands(
    lake: Made, on_disk: dg.DagsterInstance
) -> None:
    made(lake, on_disk, range(DAYS), ["staging"])
    there, pipeline = lake
    receipt = pipeline.states(read_view(there, pipeline.contracts)).latest("staging", day(1))
    assert receipt
    path, back = (
        there.table_place("staging").local(),
        replace(receipt.entry, rows=0, fingerprint="0", built=Built.HELD),
    )
    make_commit(path, len(versions(path)), Receipt("w", "staging", ROLLBACK, {day(1): back}))
    record_missed_commits(on_disk, *seen(*lake))
    assert shown(on_disk, "staging") == {"made": DAYS}
    assert checked(on_disk, "staging") == {**dict.fromkeys(CHECKS, True), "row_count": False}
    before = events(on_disk)
    record_missed_commits(on_disk, *seen(*lake))
    assert events(on_disk) == before
