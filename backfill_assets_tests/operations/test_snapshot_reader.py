"""A snapshot gives rows in the same forms as a table does.

Tested here: `operations.reader`. Not tested here: what keeps it whole (`test_snapshots`).
"""

from pathlib import Path

import pytest

from backfill_assets.operations.snapshots import SnapshotRequest, create_snapshot
from backfill_assets_tests.operations.readable_lake import TABLE, readable_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_every_form_holds_the_kept_rows(tmp_path: Path) -> None:
    reader = readable_lake(tmp_path)
    create_snapshot(reader.lake, reader.pipeline, SnapshotRequest("spring", (TABLE,), unfit="take"))
    kept, live = reader.snapshot("spring").table(TABLE), reader.table(TABLE)
    assert kept.arrow() == live.arrow()
    assert kept.pandas().equals(live.pandas())
    assert sorted(map(repr, kept.duckdb().fetchall())) == sorted(map(repr, live.duckdb().fetchall()))
