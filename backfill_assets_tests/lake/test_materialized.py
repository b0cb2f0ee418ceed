"""Gathered rows: the same as of all files at once, whole while the block runs, and gone after it.

Tested here: `lake.embedded.materialized`, without an engine. Not tested here: batches of files (`test_embedded`).
"""

from pathlib import Path
from typing import Any

import pytest

from backfill_assets.lake.embedded import AT_ONCE, connection, materialized
from backfill_assets.lake.home import Lake
from backfill_assets.lake.staging import WRITES
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand

DAYS = AT_ONCE + 2
ROWS: list[dict[str, Any]] = [{"entity": "a", "value": n, "event_date": day(n)} for n in range(DAYS)]


def answer(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with connection(lake) as engine:
        return engine.execute(query).fetchall()


def kept(lake: Lake) -> int:
    """Folders of gathered rows: of all writes of the table but the one that staged the files."""
    return len(list((lake.table_path(STAGING.name) / WRITES).iterdir())) - 1


def odd(rows: str) -> str:
    return f"SELECT value FROM ({rows}) WHERE value % 2 = 1"


def test_rows_of_more_files_than_a_stretch_are_kept_while_the_block_runs(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    files = stage_by_hand(lake, STAGING, ROWS).paths
    with materialized(lake, files, STAGING, odd) as query:
        assert kept(lake) == 1
        assert sorted(answer(lake, query)) == [(n,) for n in range(1, DAYS, 2)]
    assert kept(lake) == 0


def test_rows_of_few_files_are_read_by_the_query_itself(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    files = stage_by_hand(lake, STAGING, ROWS[:2]).paths
    with materialized(lake, files, STAGING, odd) as query:
        assert kept(lake) == 0
        assert answer(lake, query) == [(1,)]
    with materialized(lake, [], STAGING) as query:
        assert answer(lake, query) == []


def test_what_was_gathered_is_gone_where_its_query_fails(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    files = stage_by_hand(lake, STAGING, ROWS).paths
    with pytest.raises(RuntimeError), materialized(lake, files, STAGING):
        raise RuntimeError("the query")
    assert kept(lake) == 0
