"""The job `catch_up` over a table of months: what its launchpad says, and what one click makes.

Tested here: months that are stale, closed and not over, and a second click. Not tested here: the job
over days (`dagster.adapter.test_catch_up_job`), and closing itself (`closing.test_closing`).
"""

from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.closing.closing import ClosingRequest, close_tables
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.catch_up_job import MAKE_STALE
from backfill_assets.dagster.adapter.checks import changed_stale_checks
from backfill_assets.dagster.adapter.runs import CATCH_UP
from backfill_assets.kernel.core.states import State
from backfill_assets.reading.needed_days import NOTHING
from backfill_assets_tests.end_to_end.month_world import DAYS, FEBRUARY, MARCH, month_world
from backfill_assets_tests.end_to_end.worlds import World, land
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.homes import opened_home
from backfill_assets_tests.oracle import delivery


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> World:
    """The lake, loaded and built; February is closed, and rows of both months came late."""
    world = month_world(tmp_path / "lake")
    lake_session, pipeline = world.open()
    asked = ClosingRequest(("monthly",), "reported", {})
    close_tables(lake_session.lake, pipeline, date(2024, 2, 29), asked)
    late = [
        delivery(9, "2024-03-05 10:00", "2024-02-10 10:00", key="late"),
        delivery(10, "2024-03-05 11:00", "2024-03-03 10:00", key="later"),
    ]
    land(world, "late.jsonl", late)
    world.backfill(DAYS, "raw", "staging")
    return world


def job_of(world: World) -> dg.JobDefinition:
    return assemble(world.root, world.tables_of).resolve_job_def(CATCH_UP)


def would_make(world: World) -> list[str]:
    """What the launchpad says once somebody chooses `shares`, and with it the months."""
    config = job_of(world).partitioned_config
    assert config is not None
    found: dict[str, Any] = {**config.get_run_config_for_partition_key("shares")}
    return [*found["ops"][MAKE_STALE]["config"]["would_make"]]


def click(world: World, instance: dg.DagsterInstance) -> list[str]:
    """The lines of a run's log."""
    asked = {"ops": {MAKE_STALE: {"config": {"act": True, "tables": ["shares"]}}}}
    result = job_of(world).execute_in_process(run_config=asked, instance=instance)
    return [record.user_message for record in instance.all_logs(result.run_id)]


def version(world: World) -> int:
    return world.look().view.table("monthly").version


def test_one_click_makes_open_months_once_and_leaves_closed_ones(
    world: World, tmp_path: Path
) -> None:
    lines = would_make(world)
    (months,) = [line for line in lines if line.startswith("monthly: ")]
    assert months.startswith("monthly: 1 month, 2024-03-01; ")
    assert "1 month(s)" in lines[-1]
    (home := tmp_path / "home").mkdir()
    with opened_home(home) as instance:
        assert "monthly: 1 month(s) made, 2024-03-01" in click(world, instance)
        assert world.days_in(State.CLOSED, "monthly") == {FEBRUARY}
        assert world.days_in(State.PROVISIONAL, "monthly") == {MARCH}
        before = version(world)
        assert would_make(world) == [NOTHING]  # a month that is not over needs nothing
        assert "Nothing to do: every day that can be is up to date" in click(world, instance)
        assert version(world) == before


def test_the_page_of_months_says_how_many_are_stale_and_since_when(
    world: World, tmp_path: Path
) -> None:
    (home := tmp_path / "home").mkdir()
    lake, states = world.open()[0].lake, world.look()
    changed = next(lake.store.newest_commits("staging"))
    with opened_home(home) as instance:
        (told,) = changed_stale_checks(instance, lake, states, ["monthly"], {})
    assert not told.passed
    assert told.metadata["which"].value == (
        "2024-03-01. Rebuild: backfill-assets backfill --from 2024-03-01 --to 2024-03-01"
    )
    since = f"{changed.at:%Y-%m-%d %H:%M} UTC"
    assert told.description == f"1 stale month(s) since {since}: the job `catch_up` makes them"
