"""`LakeResource` reads one lake version for as long as it lives, and says what is stale and what a
plan would do.

Tested here: the resource in a run and by itself, on lakes of logs and small files, without an
engine. Not tested here: reading (`reading.test_reader`), states and plans themselves.
"""

from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.dagster import LakeResource
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets_tests.synthetic import START, Made, build, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
DAYS = 6


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    made = synthetic_lake(tmp_path / "lake", DAYS)
    record_versions(made[0], made[1].contracts, "a test", "", "me")
    return made


def test_an_asset_reads_one_lake_version_whatever_is_written(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    seen = []

    @dg.asset
    def report(lake_resource: LakeResource) -> None:
        seen.append(lake_resource.table("staging").pinned().version)
        build(*lake, "staging", {START: 4})
        record_versions(lake[0], lake[1].contracts, "a test", "", "me")
        seen.append(lake_resource.table("staging").pinned().version)

    resource = LakeResource(lake=str(lake[0].root))
    for _ in range(2):
        assert dg.materialize(
            [report], resources={"lake_resource": resource}, instance=instance
        ).success
    assert seen[0] == seen[1]
    assert seen[2] == seen[3] == (seen[0] or 0) + 1, "the next run looks again"


def test_states_are_those_of_every_day_that_is_written_or_needed(lake: Made) -> None:
    resource = LakeResource(lake=str(lake[0].root))
    assert list(resource.states()) == [c.name for c in lake[1].contracts]
    assert set(resource.states()["staging"].values()) == {State.FRESH}
    build(*lake, "staging", {START: 3}, digests={START: "older"})
    path = lake[0].table_place("training").local()
    path.rename(path.with_name("elsewhere"))
    now = resource.states()
    assert now["staging"][START] == "stale"
    assert now["training"][START + ONE_DAY] == "missing"


def test_a_plan_says_what_would_be_done_and_keeps_nothing(lake: Made) -> None:
    resource = LakeResource(lake=str(lake[0].root))
    assert "nothing" in resource.plan(START, tables=["staging"]).nothing_to_do.lower()
    build(*lake, "staging", {START: 3}, digests={START: "older"})
    plan = resource.plan(str(START), START + ONE_DAY * 3, chunk="2d")
    assert next(i.table for i in plan.impacts if i.days()) == "staging"
    assert len(plan.days) == 4
    assert not (lake[0].root / ".plans").exists()


def test_a_spark_frame_is_asked_of_the_projects_own_session(lake: Made) -> None:
    asked = []

    def session() -> None:
        asked.append("session")
        raise LookupError("no session here")

    resource = LakeResource(lake=str(lake[0].root), spark=session)
    with pytest.raises(Exception, match="no session here"):
        resource.table("staging").days(START, unfit="take").spark()
    assert asked
