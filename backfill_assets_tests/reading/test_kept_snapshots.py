"""Snapshots that are kept: read again, altered, or named wrongly.

Tested here: `reading.kept_snapshots`. Not tested here: making one (`candidates/test_snapshots.py`).
"""

import pytest

from backfill_assets.candidates.snapshots import (
    SnapshotRequest,
    create_snapshot,
)
from backfill_assets.kernel.core.days import day_range as span_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.reading.kept_snapshots import Snapshot
from backfill_assets.reading.reader import LakeReader
from backfill_assets_tests.readable_lake import TABLE

pytestmark = pytest.mark.usefixtures("storages")


def keep(reader: LakeReader, name: str = "spring", **more: object) -> Snapshot:
    asked = SnapshotRequest(name, (TABLE,), **{"unfit": "take", **more})  # type: ignore[arg-type]  # written by hand
    return create_snapshot(reader.lake, reader.pipeline, asked)


def test_a_file_that_was_changed_or_is_gone_is_told_and_not_read(reader: LakeReader) -> None:
    keep(reader)
    [file, *_] = sorted((reader.lake.root / ".snapshots" / "spring").rglob("*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BackfillError, match="has other bytes than those that were kept"):
        reader.snapshot("spring").table(TABLE).arrow()
    file.unlink()
    with pytest.raises(BackfillError, match="is gone"):
        reader.snapshot("spring").table(TABLE).duckdb()


def test_days_and_tables_that_are_not_kept_are_named(reader: LakeReader) -> None:
    keep(reader, days=span_of("2024-03-01", "2024-03-01"))
    kept = reader.snapshot("spring")
    assert kept.tables == (TABLE,)
    assert kept.table(TABLE).arrow().num_rows == 2
    with pytest.raises(BackfillError, match="keeps no 2024-03-02"):
        kept.table(TABLE).days("2024-03-01", "2024-03-02").arrow()
    with pytest.raises(BackfillError, match="keeps no table 'raw'"):
        kept.table("raw")
