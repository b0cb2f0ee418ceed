"""Records follow the tables: a commit whose run told nothing is told from its receipt, once, when its run has ended.

Tested here: `orchestration.reconcile` on logs alone. Not tested here: healing days (`test_event_repair`), dead runs
(`test_run_liveness`), and processes that are really killed (`end_to_end.test_killed`).
"""

from typing import Any

import dagster as dg
import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.plans import ROLLBACK
from backfill_assets.core.receipts import DayEntry
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.context import PLAIN
from backfill_assets.orchestration.metadata import WRITE_ID
from backfill_assets.orchestration.reconcile import follow_receipts, receipt_event
from backfill_assets_tests.builders import make_commit, receipt
from backfill_assets_tests.logs import versions
from backfill_assets_tests.operations.synthetic import START
from backfill_assets_tests.orchestration.ticking import Made, seen

pytestmark = pytest.mark.usefixtures("storages")

FAILURE, STARTED = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED
WRITTEN = {START: DayEntry(4, "G", "digest"), START + ONE_DAY: DayEntry(5, "H", "digest")}


@pytest.fixture
def lake(lake: Made, instance: dg.DagsterInstance) -> Made:
    """What is there was looked at before."""
    follow_receipts(instance, *seen(*lake))
    return lake


def commit(lake: Made, run_id: str, **facts: Any) -> int:
    """One more write of staging, by this run; its version."""
    path = lake[0].table_place("staging").local()
    version = len(versions(path))
    make_commit(path, version, receipt(days=WRITTEN, run_id=run_id, write_id=f"w-{version}", **facts))
    return version


def told(instance: dg.DagsterInstance) -> dict[str, Any]:
    """The write that Dagster knows, per day of staging."""
    records = instance.fetch_materializations(dg.AssetKey("staging"), limit=50).records
    made = [(str(r.partition_key), r.asset_materialization) for r in reversed(records)]
    return {d: m.metadata[WRITE_ID].value for d, m in made if m is not None and WRITE_ID in m.metadata}


def run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> str:
    span = {runs.RANGE_START: str(START), runs.RANGE_END: str(START + ONE_DAY)}
    return str(instance.add_run(dg.DagsterRun(runs.REBUILD, status=status, tags=span)).run_id)


def test_a_commit_whose_run_ended_without_an_event_is_recorded_once(lake: Made, instance: dg.DagsterInstance) -> None:
    version = commit(lake, run(instance, FAILURE))
    assert f"staging: 2 day(s) of version {version} recorded from the receipt" in follow_receipts(
        instance, *seen(*lake)
    )
    assert told(instance) == dict.fromkeys(map(str, WRITTEN), f"w-{version}")
    assert follow_receipts(instance, *seen(*lake)) == []


def test_a_commit_of_a_run_that_goes_on_waits_for_its_end_and_later_ones_behind_it(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    going = run(instance, STARTED)
    first = commit(lake, going)
    second = commit(lake, run(instance, FAILURE))
    assert follow_receipts(instance, *seen(*lake)) == []
    instance.report_run_failed(_run(instance, going))
    done = follow_receipts(instance, *seen(*lake))
    assert [line for line in done if "version" in line] == [
        f"staging: 2 day(s) of version {v} recorded from the receipt" for v in (first, second)
    ]


def _run(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun:
    found = instance.get_run_by_id(run_id)
    assert found is not None
    return found


def test_days_that_were_put_back_are_told_though_no_run_did_it(lake: Made, instance: dg.DagsterInstance) -> None:
    version = commit(lake, "", reason=ROLLBACK)
    done = follow_receipts(instance, *seen(*lake))
    assert f"staging: 2 day(s) of version {version}, put back or released, recorded from the receipt" in done
    assert told(instance) == dict.fromkeys(map(str, WRITTEN), f"w-{version}")


def test_days_that_a_run_of_another_instance_wrote_are_told_by_their_newest_commits(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    older, newer = (commit(lake, f"of-another-home-{n}") for n in range(2))
    done = [line for line in follow_receipts(instance, *seen(*lake)) if "staging" in line]
    assert done == [f"staging: 2 day(s) of version {newer} recorded from the receipt"]
    assert told(instance) == dict.fromkeys(map(str, WRITTEN), f"w-{newer}")
    assert older < newer
    commit(lake, "")
    assert follow_receipts(instance, *seen(*lake)) == []


def test_what_is_told_of_a_day_that_was_put_back_names_its_write_and_no_run(lake: Made) -> None:
    commit(lake, "", reason=ROLLBACK)
    contract = lake[1].table("staging").contract
    receipt = lake[0].store.view("staging", contract.day_column).latest[START]
    event = receipt_event(PLAIN, "staging", START, receipt)
    assert (event.partition, event.metadata[WRITE_ID].value) == (str(START), receipt.write_id)
    assert (event.tags or {})["dagster/data_version"] == f"{receipt.entry.rows}.{receipt.entry.fingerprint}"
