"""Rolling back from the browser's launchpad, which looks until it may act. No JVM.

Not tested here: what is done (`plans.test_rollback`), and the job of a plan (`plans.test_plan_job`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.reconcile import record_missed_commits
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.plans import RELEASE, ROLLBACK
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.write.model import Table
from backfill_assets.plans.in_dagster import PUT_BACK, RELEASE_OP, rollback_jobs
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets_tests.builders import CONTRACTS, day
from backfill_assets_tests.dagster.adapter.ticking import seen
from backfill_assets_tests.planned import DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")
SAID = Provenance("", tags={"by": "ann@desk"})
ASKED = RollbackRequest(plan="p1", chunk="4")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    found = Planned(tmp_path / "lake")
    found.chunk(4, (3, 4), 9)
    return found


def tables(_: Any) -> tuple[Table, ...]:
    return tuple(Table(c) for c in CONTRACTS[:3])


def run(made: Planned, instance: dg.DagsterInstance, job: str, **config: Any) -> Any:
    jobs = {j.name: j for j in rollback_jobs(LakeContext(made.lake.root, tables))}
    op = PUT_BACK if job == ROLLBACK else RELEASE_OP
    return jobs[job].execute_in_process(
        instance=instance, run_config={"ops": {op: {"config": config}}}, raise_on_error=False
    )


def states(instance: dg.DagsterInstance, table: str) -> dict[str, str]:
    """The state that the newest materialization of every day tells."""
    found = {}
    for n in range(DAYS):
        wanted = dg.AssetRecordsFilter(dg.AssetKey(table), asset_partitions=[str(day(n))])
        for record in instance.fetch_materializations(wanted, limit=1).records:
            said = record.asset_materialization
            assert said is not None
            found[str(day(n))] = str(said.metadata["backfill_assets/state"].value)
    return found


def test_the_launchpad_is_filled_in_and_looks_until_told_to_act(
    made: Planned, instance: dg.DagsterInstance
) -> None:
    [job] = (j for j in rollback_jobs(LakeContext(made.lake.root, tables)) if j.name == ROLLBACK)
    filled = job.run_config
    assert filled is not None
    assert filled["ops"][PUT_BACK]["config"] == {
        "plan": "",
        "chunk": "",
        "table": "",
        "days": "",
        "note": "",
        "act": False,
        "to_version": -1,
        "over_newer": False,
    }
    assert run(made, instance, ROLLBACK, plan="p1", chunk="4").success
    assert made.values("staging")[3] == 9
    assert states(instance, "staging") == {}


def test_a_chunk_put_back_in_the_browser_is_held_until_released(
    made: Planned, instance: dg.DagsterInstance
) -> None:
    result = run(made, instance, ROLLBACK, plan="p1", chunk="4", act=True, note="wrong")
    assert result.success
    assert made.values("staging")[3:5] == made.values("features")[3:5] == [1, 1]
    assert (
        states(instance, "staging")
        == states(instance, "features")
        == {str(day(n)): "held" for n in (3, 4)}
    )
    assert made.view("staging").latest[day(3)].run_id == result.run_id
    assert record_missed_commits(instance, *seen(made.lake, made.pipeline)) == [], (
        "its run told all"
    )
    assert run(
        made, instance, RELEASE, table="staging", days=f"{day(3)}..{day(4)}", act=True
    ).success
    assert states(instance, "staging") == {str(day(n)): "fresh" for n in (3, 4)}


def test_what_the_command_line_put_back_is_told_to_dagster_once(
    made: Planned, instance: dg.DagsterInstance
) -> None:
    roll_back(made.lake, made.pipeline, ASKED, SAID)
    release_days(
        made.lake,
        made.pipeline,
        RollbackRequest(table="staging", days=DayRange(day(4), day(5))),
        SAID,
    )
    assert len(record_missed_commits(instance, *seen(made.lake, made.pipeline))) == 3
    assert states(instance, "staging") == {str(day(3)): "held", str(day(4)): "fresh"}
    assert states(instance, "features") == {str(day(3)): "held", str(day(4)): "held"}
    assert record_missed_commits(instance, *seen(made.lake, made.pipeline)) == []


def test_a_rollback_heard_of_after_a_newer_write_is_no_news(
    made: Planned, instance: dg.DagsterInstance
) -> None:
    roll_back(made.lake, made.pipeline, ASKED, SAID)
    release_days(made.lake, made.pipeline, ASKED, SAID)
    made.chunk(4, (3, 4), 5)
    lines = record_missed_commits(instance, *seen(made.lake, made.pipeline))
    assert not [line for line in lines if "put back or released" in line]
    assert set(states(instance, "staging").values()) == {"fresh"}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "neither a plan nor a table"),
        ({"table": "staging", "days": "2024-03-01..2024-03-02"}, "no version is named"),
        ({"plan": "p9"}, "no receipt names it"),
        ({"table": "staging", "days": "March", "to_version": 1}, "not a date"),
    ],
)
def test_what_cannot_be_put_back_fails_in_one_line_and_writes_nothing(
    made: Planned, instance: dg.DagsterInstance, config: dict[str, Any], told: str
) -> None:
    before = made.view("staging").version
    result = run(made, instance, ROLLBACK, act=True, **config)
    assert not result.success
    failure = next(e for e in result.all_events if e.event_type == dg.DagsterEventType.STEP_FAILURE)
    assert told in str(
        failure.step_failure_data.error or failure.step_failure_data.user_failure_data
    )
    assert made.view("staging").version == before
