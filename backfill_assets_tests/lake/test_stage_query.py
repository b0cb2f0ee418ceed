"""What a query gives is staged as files of the contract, laid out by its partition column, or not at all.

Tested here: `lake.stage_query`, without Spark. Not tested here: publishing what was staged (`test_merge`).
"""

from pathlib import Path

import duckdb
import pytest

from backfill_assets.lake.audit import audit
from backfill_assets.lake.ledger import ARRIVALS
from backfill_assets.lake.stage_query import stage_query
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake

ROW = "SELECT DATE '{}' AS arrival_date, DATE '2024-02-26' AS event_date, 1::BIGINT AS deliveries, 1::BIGINT AS keys, \
0::BIGINT AS moved_keys, NULL::BIGINT AS greatest_lateness_s, 'f' AS fingerprint, '{}' AS arrival_month"


def test_rows_lie_in_the_folder_of_their_partition(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    query = f"{ROW.format(day(0), '2024-02')} UNION ALL {ROW.format('2024-03-02', '2024-03')}"
    staged = stage_query(lake, ARRIVALS, query)
    assert sorted(f.partition or "" for f in staged.files) == ["2024-02", "2024-03"]
    assert audit(lake, staged.paths, ARRIVALS)[day(0)].rows == 1
    staged.drop()
    assert not staged.folder.exists()


def test_a_query_that_fails_leaves_no_file_and_no_marker(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    with pytest.raises(duckdb.Error):
        stage_query(lake, ARRIVALS, "SELECT error('no') AS arrival_date")
    assert not list(tmp_path.rglob("*.parquet"))
    assert not list((lake.root / ".staging" / "arrivals").iterdir())
