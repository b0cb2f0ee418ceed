"""Stretches of files: every file once, all of a day together, and the audit of all stretches is
that of all files. Not here: what is counted (`test_audit`)."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from backfill_assets.intake.arrival_rows import materialized_rows
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.embedded import (
    AT_ONCE,
    MEMORY,
    SPILL,
    delta_rows,
    duckdb_cursor,
    file_batches,
    is_delta,
)
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import WRITES
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.processes import start


@pytest.mark.slow
def test_the_audit_of_all_stretches_together_is_that_of_all_files(lake: Lake) -> None:
    rows = [{"entity": "a", "value": n, "event_date": day(n % 3) if n else None} for n in range(7)]
    written = [
        stage_by_hand(lake, STAGING, rows),
        stage_by_hand(lake, STAGING, [{**rows[1], "value": 9}]),
    ]
    files = [path for staged in written for path in staged.paths]
    whole = audit_files(lake, files, STAGING)
    assert whole[day(1)].duplicates == 2, "two of its rows lie in one file and the third in another"
    for at_once, bytes_at_once in ((1, 1 << 20), (2, 1 << 20), (3, 1 << 20), (99, 1)):
        stretches = file_batches(files, STAGING, at_once, bytes_at_once)
        parts = [dict(audit_files(lake, some, STAGING)) for some in stretches]
        assert len(parts) > 1
        assert {d: p for part in parts for d, p in part.items()} == whole


def test_a_delta_folder_gives_a_version_and_its_rows(tmp_path: Path) -> None:
    assert not is_delta(place_of(tmp_path))
    for value in (1, 2):
        write_deltalake(tmp_path / "t", pa.table({"n": [value]}), mode="append")
    assert is_delta(place_of(tmp_path / "t"))
    with duckdb.connect() as engine:
        for wanted, version, rows in ((None, 1, [(1,), (2,)]), (0, 0, [(1,)])):
            found, query = delta_rows(engine, place_of(tmp_path / "t"), wanted)
            assert (found, engine.execute(f"FROM ({query}) ORDER BY n").fetchall()) == (
                version,
                rows,
            )


def test_a_query_that_needs_more_memory_than_it_may_use_says_so_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    lake = bare_lake(tmp_path)

    def numbers(count: int, memory: str) -> Any:
        with duckdb_cursor(lake) as engine:
            engine.execute(f"SET memory_limit = '{memory}'")
            return engine.execute(
                f"SELECT len(list(n)) FROM range({count}) AS numbers(n)"
            ).fetchone()

    with pytest.raises(BackfillError, match=r"needs more memory.*fewer days at once") as raised:
        numbers(20_000_000, "16MB")
    assert str(tmp_path) in str(raised.value)
    assert numbers(3, MEMORY) == (3,)


DAYS = AT_ONCE + 2
ROWS: list[dict[str, Any]] = [
    {"entity": "a", "value": n, "event_date": day(n)} for n in range(DAYS)
]


def answer(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with duckdb_cursor(lake) as engine:
        return engine.execute(query).fetchall()


def kept(lake: Lake) -> int:
    """Folders of gathered rows: of all writes of the table but the one that staged the files."""
    return len(list((lake.table_place(STAGING.name).local() / WRITES).iterdir())) - 1


def odd(rows: str) -> str:
    return f"SELECT value FROM ({rows}) WHERE value % 2 = 1"


@pytest.mark.slow
def test_rows_of_more_files_than_a_stretch_are_kept_while_the_block_runs(lake: Lake) -> None:
    files = stage_by_hand(lake, STAGING, ROWS).paths
    with materialized_rows(lake, files, STAGING, odd) as query:
        assert kept(lake) == 1
        assert sorted(answer(lake, query)) == [(n,) for n in range(1, DAYS, 2)]
    assert kept(lake) == 0


SPILLS = """
import sys
from pathlib import Path
from backfill_assets.kernel.tables.embedded import new_engine
from backfill_assets_tests.files import bare_lake
engine = new_engine(bare_lake(Path(sys.argv[1])).root)
engine.execute("SET memory_limit = '40MB'; SET threads = 1")
rows = "SELECT md5(x::VARCHAR) AS s FROM range(600000) t(x)"
batches = engine.execute(f"SELECT s FROM ({rows}) ORDER BY s").to_arrow_reader(1000)
batches.read_next_batch()
print("spilled", flush=True)
sys.stdin.readline()
"""


@pytest.mark.usefixtures("processes")
def test_what_a_killed_process_spilled_is_removed_by_the_next_one_that_spills(lake: Lake) -> None:
    (lake.root / SPILL).parent.mkdir()
    left = set[str]()
    for number in range(2):
        with start(
            "-c", SPILLS, lake.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "spilled"
            found = {path.name for path in (lake.root / SPILL).iterdir()}
            assert not number or not left & found
            left = found
            assert left
            process.send_signal(signal.SIGKILL)
            process.wait(60)
