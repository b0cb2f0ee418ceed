"""`is_stale` as conditions of Dagster evaluate it, on lakes of logs: no engine, and no daemon.

Tested here: which days it is true for, once and while they are stale, composed, under a prefix and
in the sensor of `build_lake_defs`. Not tested here: which days are stale
(`kernel.core.test_states`, `kernel.core.test_needs`).
"""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster import build_lake_defs, is_stale
from backfill_assets.dagster.adapter.partitions import partitions_of
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets.dagster.stale import _shared_tables
from backfill_assets.kernel.core.calendars import DAILY, Calendar
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets_tests.synthetic import START, Made, build, end_of, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
DAYS = 10
NOW = end_of(DAYS + 1)


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    return synthetic_lake(tmp_path / "lake", DAYS)


def day(number: int) -> date:
    return START + ONE_DAY * number


def make_stale(lake: Made, table: str, *numbers: int, by: str = "older") -> None:
    build(
        *lake,
        table,
        dict.fromkeys(map(day, numbers), 3),
        digests=dict.fromkeys(map(day, numbers), by),
    )


class Ticks:
    """Ticks of one asset with a condition, each with the cursor that the one before left."""

    def __init__(
        self,
        instance: dg.DagsterInstance,
        condition: dg.AutomationCondition[Any],
        *path: str,
        calendar: Calendar = DAILY,
    ) -> None:
        days = partitions_of(calendar, date(2024, 1, 1))

        @dg.asset(key=dg.AssetKey(list(path)), partitions_def=days, automation_condition=condition)
        def theirs() -> None: ...

        self.defs, self.instance, self.key = dg.Definitions(assets=[theirs]), instance, theirs.key
        self.cursor: Any = None
        self.number = 0

    def next(self) -> set[str | None]:
        self.number += 1
        now = NOW + timedelta(minutes=self.number)
        told = dg.evaluate_automation_conditions(
            self.defs, self.instance, cursor=self.cursor, evaluation_time=now
        )
        self.cursor = told.cursor
        return set(told.get_requested_partitions(self.key))


def test_stale_days_are_true_of_an_asset_that_leaves_others_out(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    calendar = Calendar(left_out_dates=frozenset({day(4)}))
    ticks = Ticks(instance, is_stale(lake[0].root), "staging", calendar=calendar)
    make_stale(lake, "staging", 2, 5)
    assert ticks.next() == {str(day(2)), str(day(5))}


def test_stale_days_are_true_once_for_the_same_inputs(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(instance, is_stale(lake[0].root), "staging")
    assert ticks.next() == set()
    make_stale(lake, "staging", 2, 5)
    assert ticks.next() == {str(day(2)), str(day(5))}
    assert ticks.next() == set(), "a run that failed left it as it was"
    make_stale(lake, "staging", 5, by="still another")
    assert ticks.next() == {str(day(5))}, "what is there is another write"
    build(*lake, "staging", {day(2): 3, day(5): 3})
    assert ticks.next() == set()
    make_stale(lake, "staging", 2)
    assert ticks.next() == {str(day(2))}


def test_while_stale_they_are_true_at_every_tick(lake: Made, instance: dg.DagsterInstance) -> None:
    ticks = Ticks(instance, is_stale(lake[0].root, while_stale=True), "staging")
    make_stale(lake, "staging", 2)
    assert [ticks.next() for _ in range(3)] == [{str(day(2))}] * 3


def test_a_day_waits_for_its_inputs(lake: Made, instance: dg.DagsterInstance) -> None:
    ticks = Ticks(instance, is_stale(lake[0].root), "features")
    make_stale(lake, "staging", 4)
    make_stale(lake, "features", 4, 8)
    assert ticks.next() == {str(day(8))}
    build(*lake, "staging", {day(4): 3})
    assert str(day(4)) in ticks.next()


def test_all_assets_of_a_lake_share_one_look_per_tick(lake: Made) -> None:
    tables = _shared_tables(lake[0].root, ())
    assert tables is _shared_tables(lake[0].root, ())
    first = tables.lake_at_tick(NOW)
    assert first is not None
    assert tables.lake_at_tick(NOW) is first
    assert tables.lake_at_tick(NOW + timedelta(seconds=30)) is not first


def test_the_sensor_requests_what_is_stale_upstream_first(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    defs = build_lake_defs(lake[0].root, key_prefix="shop", automation="conditions")
    repository = defs.get_repository_def()
    running = {
        s.name for s in repository.sensor_defs if s.default_status is dg.DefaultSensorStatus.RUNNING
    }
    assert running == {f"shop__{name}" for name in ("landing", "plans", "controls", "conditions")}
    assert not [
        s for s in repository.schedule_defs if s.default_status is dg.DefaultScheduleStatus.RUNNING
    ]
    make_stale(lake, "staging", 3)
    make_stale(lake, "features", 3)
    sensor = repository.get_sensor_def("shop__conditions")
    with dg.build_sensor_context(instance=instance, repository_def=repository) as context:
        told = sensor.evaluate_tick(context)
    requests = told.run_requests or []
    assert [(r.asset_selection, r.partition_key) for r in requests] == [
        ([dg.AssetKey(["shop", "staging"])], str(day(3)))
    ]
    assert requests[0].tags[LAKE_TAG] == str(lake[0].root)


def test_raw_and_ledgers_bear_no_condition_and_the_users_own_wins(lake: Made) -> None:
    specs = build_lake_defs(lake[0].root, automation="conditions").resolve_all_asset_specs()
    bearing = {s.key.path[-1] for s in specs if s.automation_condition is not None}
    assert bearing == {"staging", "features", "features_as_known", "labels", "training"}
    own = dg.AutomationCondition.eager()
    specs = build_lake_defs(
        lake[0].root, automation="conditions", automation_condition=own
    ).resolve_all_asset_specs()
    assert {s.automation_condition for s in specs if s.key.path[-1] == "labels"} == {own}


def test_a_day_that_is_blocked_is_true_until_it_is_requested(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    """Blocked at the first two ticks, as by a run under way; nothing is requested, so that it stays
    true."""
    make_stale(lake, "staging", 3)
    ticks = Ticks(instance, is_stale(lake[0].root) & OpenAt(3), "staging")
    assert [ticks.next() for _ in range(5)] == [set(), set(), {str(day(3))}, set(), set()]


class OpenAt(dg.AutomationCondition[Any]):
    """True for every day from its n-th evaluation on."""

    def __init__(self, first: int) -> None:
        self.first, self.seen = first, 0

    def evaluate(self, context: "dg.AutomationContext[Any]") -> "dg.AutomationResult[Any]":
        self.seen += 1
        true = context.candidate_subset if self.seen >= self.first else context.get_empty_subset()
        return dg.AutomationResult(context, true)
