"""Forty days of use with upkeep: what a lake holds stays within its bounds, and what was promised works.

Tested here: landings, late data, backfills, rollbacks, a candidate, snapshots and `maintain` together, without an
engine. Not tested here: 400 days (`benchmarks.years`, by hand).
"""

from pathlib import Path

import pytest

from backfill_assets.core.states import State
from backfill_assets_tests.benchmarks.years import beyond, simulate
from backfill_assets_tests.builders import day
from backfill_assets_tests.operations.planned import DAYS

pytestmark = pytest.mark.usefixtures("storages")


def test_a_lake_in_use_stays_small_and_every_kept_rollback_and_snapshot_works(tmp_path: Path) -> None:
    (_, first), (years, last) = simulate(tmp_path / "lake", 40, kept=15)
    assert first.day + 1 < last.day + 1 == 40
    assert (beyond(last), years.broken(last.day)) == ([], [])
    states = years.made.states()
    assert {states.of("raw", day(n)) for n in range(40)} == {State.FRESH}
    assert {states.of("staging", day(n)) for n in range(DAYS, 40)} == {State.FRESH}
    assert last.files < 225, "without upkeep there are 233"
    assert last.runs < years.dagster.written, "runs whose days were all made again go"
