"""Days put back across a column that the table got or lost meanwhile: by the table's schema, not by today's contract.

Tested here: `lake.restore` on real tables, without an engine. Not tested here: all else of it (`test_restore.py`), and
the story of a plan (`end_to_end.test_plan_columns`).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.view import DayReceipt
from backfill_assets.lake.audit import audit_as_written
from backfill_assets.lake.home import Lake
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.restore import RestoreRequest, release_partitions, restore_partitions
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import read_commit

pytestmark = pytest.mark.usefixtures("storages")

SAID = Provenance("rollback", note="why", tags={})
SCORE = Column("score", "BIGINT", "new", nullable=True)
WIDE = replace(STAGING, columns=(*STAGING.columns, SCORE))
REQUIRED = replace(STAGING, columns=(*STAGING.columns, replace(SCORE, nullable=False)))


@pytest.mark.parametrize(
    ("before", "after"), [(STAGING, WIDE), (WIDE, STAGING), (REQUIRED, STAGING), (STAGING, REQUIRED)]
)
def test_a_day_goes_back_across_a_column_that_was_added_or_dropped_and_forth_again(
    tmp_path: Path, before: Contract, after: Contract
) -> None:
    lake = bare_lake(tmp_path / "columns")
    for contract, value in ((before, 1), (after, 2)):
        wrote = [{c.name: value for c in contract.columns} | {"entity": "A", "event_date": day(0)}]
        publish_by_hand(lake, contract, wrote, digest=f"d{value}")
    known = {v: table_at(lake, v) for v in (1, lake.store.view("staging", "event_date").version)}
    for target, held in known.items():
        for contract in (after, before):
            seen = {day(0): receipt(lake).version}
            restore_partitions(lake, RestoreRequest(contract, {day(0): target}, seen), SAID)
            assert table_at(lake) == held
        said = read_commit(lake.table_place("staging"), target).receipt
        assert said is not None
        release_partitions(lake, after, [day(0)], SAID)
        assert receipt(lake).entry == said.days[day(0)]
        assert audit_as_written(lake, after, [day(0)])[day(0)].fingerprint == said.days[day(0)].fingerprint


def receipt(lake: Lake) -> DayReceipt:
    return lake.store.view("staging", "event_date").latest[day(0)]


def table_at(lake: Lake, version: int | None = None) -> list[dict[str, Any]]:
    """The rows, without what is NULL in them."""
    found = DeltaTable(str(lake.table_place("staging").local()), version=version).to_pyarrow_table().to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]
