"""The short compare says what a write changed, and the command for more; it never raises.

Tested here: `operations.compare` on real files without an engine. Not tested here: comparing
(`test_compare.py`), and that range runs carry it (`orchestration/test_metadata.py`).
"""

from pathlib import Path

import pytest

from backfill_assets.lake.home import Lake
from backfill_assets.operations import compare as short
from backfill_assets.operations.compare import short_compare
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.operations.test_compare import PIPELINE, TABLE, rows

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Version 2 adds a row to the second day, takes one away, and changes one."""
    made = bare_lake(tmp_path)
    publish_by_hand(made, TABLE, rows({(1, "a"): (1, "x"), (1, "b"): (2, "y")}))
    publish_by_hand(made, TABLE, rows({(1, "b"): (20, "y"), (1, "d"): (4, "z")}), digest="two")
    return made


def test_rows_columns_and_the_command_for_more_are_told(lake: Lake) -> None:
    told = short_compare(lake, PIPELINE, "t", [day(1)], 2, 0)
    assert "1 of 1 day(s) differ: 1 row(s) added, 1 removed, 1 changed." in told
    assert f"| {day(1)} | 1 | 1 | 1 | n 1 |" in told
    assert f"compare --table t --days {day(1)}..{day(1)} --from-version 1 --to-version 2" in told


def test_what_is_large_or_gone_is_said_and_not_raised(lake: Lake) -> None:
    assert "Not compared here, for its size" in short_compare(lake, PIPELINE, "t", [day(1)], 2, short.MOST_BYTES + 1)
    for file in lake.table_path("t").rglob("*.parquet"):
        file.unlink()
    assert short_compare(lake, PIPELINE, "t", [day(1)], 2, 0).startswith("Not compared: the table t:")
