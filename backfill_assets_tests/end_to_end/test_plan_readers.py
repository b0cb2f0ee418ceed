"""Who reads while a plan runs and is rolled back sees of a table only the old or only the new of a whole chunk.

Tested here: a reader in a thread of its own, over and over, on a table that chunks are written to and taken back from.
Not tested here: readers of Spark, whose snapshots are versions of the same log (`test_independent_reader`).
"""

import threading
from datetime import date
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from backfill_assets.backfill.run import run_plan
from backfill_assets.lake.replace import Provenance
from backfill_assets.operations.rollback import RollbackRequest, roll_back
from backfill_assets.plans.model import ChunkKind, Plan
from backfill_assets_tests.operations.planning import (
    DAYS,
    ROWS,
    HandWorker,
    bare_staging,
    good_rows,
    planned,
    write_by_hand,
)

OLD, NEW = 0, 1
SAID = Provenance("", tags={"by": "ann@desk"})


def corrected(day: date) -> list[dict[str, Any]]:
    return [row | {"flag": NEW} for row in good_rows(day)]


class Reader(threading.Thread):
    """Reads the table as long as it may; keeps what each look found per chunk: the flags, and the rows."""

    def __init__(self, table: Path, plan: Plan) -> None:
        super().__init__(daemon=True)
        self.table, self.over, self.seen = table, threading.Event(), list[dict[int, tuple[set[int], int]]]()
        self.chunks = [c for c in plan.chunks if c.kind is not ChunkKind.BOUNDARY]

    def run(self) -> None:
        while True:
            last = self.over.is_set()  # one look more, at what is left
            rows = DeltaTable(str(self.table)).to_pyarrow_table(columns=["event_date", "flag"]).to_pylist()
            found = {c.number: [r["flag"] for r in rows if r["event_date"] in c.days] for c in self.chunks}
            self.seen.append({number: (set(flags), len(flags)) for number, flags in found.items()})
            if last:
                return


def test_a_reader_sees_only_the_old_or_only_the_new_of_a_chunk(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    plan = planned(lake, pipeline, chunk="3d")
    reader = Reader(lake.table_place("staging").local(), plan)
    reader.start()
    try:
        run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline, corrected))
        roll_back(lake, pipeline, RollbackRequest(plan=plan.id, chunk="2"), SAID)
        roll_back(lake, pipeline, RollbackRequest(plan=plan.id), SAID)
    finally:
        reader.over.set()
        reader.join(60)
    states = {(number, tuple(flags)) for look in reader.seen for number, (flags, _) in look.items()}
    assert states <= {(c.number, (flag,)) for c in reader.chunks for flag in (OLD, NEW)}
    assert all(
        rows == ROWS * len(c.days) for look in reader.seen for c in reader.chunks for _, rows in [look[c.number]]
    )
    assert {flags for look in reader.seen for flags in map(tuple, (f for f, _ in look.values()))} == {(OLD,), (NEW,)}
    assert all(flags == {OLD} for flags, _ in reader.seen[-1].values())
