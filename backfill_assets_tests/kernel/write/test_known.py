"""What a run knows of a lake while others write it. Not here: reading a view
(`kernel.tables.test_view`)."""

from pathlib import Path

from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets_tests.synthetic import START as FIRST
from backfill_assets_tests.synthetic import build, synthetic_lake


def test_what_others_write_beside_a_run_it_knows_once_it_looks_again(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 9)
    known = KnownStates(lake, pipeline)
    before = known.states
    for table in ("staging", "labels"):
        build(lake, pipeline, table, {FIRST: 3}, digests={FIRST: "older"})
    assert known.states is before
    known.wrote("staging")
    moved = [
        known.states.view.table(table) != before.view.table(table)
        for table in ("staging", "labels")
    ]
    assert moved == [True, False]
    assert known.states.of("staging", FIRST) is State.STALE
    assert known.read().view.table("labels") != before.view.table("labels")
    assert known.states is known.read(), "no log moved"
