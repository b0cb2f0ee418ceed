"""Held days by the rollback that put them back, with the command that lets exactly them go. No engine.

Tested here: `operations.show`. Not tested here: how `status` draws it (`cli.test_status`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.states import State
from backfill_assets.lake.replace import Provenance
from backfill_assets.operations.rollback import RollbackRequest, roll_back
from backfill_assets.operations.show import holds
from backfill_assets_tests.builders import day
from backfill_assets_tests.operations.planned import BUILT, Planned

pytestmark = pytest.mark.usefixtures("storages")

SAID = Provenance("", tags={"by": "ann@desk"})


def test_held_days_are_told_by_plan_and_chunk_and_else_by_table_and_days(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    made.chunk(1, (1, 2), 2)
    made.chunk(2, (3, 4), 3)
    made.write("features", {6: 5})
    roll_back(made.lake, made.pipeline, RollbackRequest(plan="p1", chunk="2"), SAID)
    alone = RollbackRequest(table="features", days=DayRange(day(6), day(7)), to_version=1)
    roll_back(made.lake, made.pipeline, alone, SAID)
    held = {table: made.of(table, State.HELD) for table in BUILT}
    chunk, table = holds(made.lake, made.states(), held)
    assert chunk.days == {name: (day(3), day(4)) for name in BUILT}
    assert chunk.release == "backfill-assets release --plan p1 --chunk 2 --yes"
    assert table.days == {"features": (day(6),)}
    assert table.release == f"backfill-assets release features --from {day(6)} --to {day(6)} --yes"
    assert table.to_dict()["plan"] is None
    assert holds(made.lake, made.states(), {}) == ()
