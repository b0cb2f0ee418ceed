"""What a tick sees: one lake, one moment, and the days that are spoken for.

Tested here: `orchestration.backfill_requests` on a lake without an engine. Not tested here: decisions
(`test_ticks`).
"""

from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg

from backfill_assets.core.states import State
from backfill_assets.orchestration.backfill_requests import TickState, read_tick_state
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.synthetic import START, synthetic_lake

NOW = datetime(2024, 3, 1, 23, 59, tzinfo=UTC)


def seen(root: Path, planned: frozenset[date] = frozenset()) -> TickState:
    synthetic_lake(root, 2)
    with dg.DagsterInstance.ephemeral() as instance:
        found = read_tick_state(instance, LakeContext(root, tables), NOW)
        return TickState(instance, found.lake, found.states, found.busy, NOW, {"raw": planned})


def test_a_snapshot_knows_the_states_and_no_day_is_taken_where_nothing_runs(tmp_path: Path) -> None:
    found = seen(tmp_path)
    assert found.states.of("raw", START) is State.FRESH
    assert not any(found.busy.values())


def test_todays_partition_does_not_exist_before_the_day_is_over(tmp_path: Path) -> None:
    assert seen(tmp_path).until == date(2024, 3, 1)


def test_days_of_active_plans_are_neither_free_nor_asked_for(tmp_path: Path) -> None:
    found = seen(tmp_path, frozenset({START}))
    assert found.free("raw", {START}) == set()
    assert START in found.taken["raw"]
