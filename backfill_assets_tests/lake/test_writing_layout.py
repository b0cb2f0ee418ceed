"""How Sail writes the rows of many days: file by file no more at once than its memory holds, and all of them.

Tested here: a write that would open more files than fit. Not tested here: what Spark writes (`test_staging`).
"""

import json
from pathlib import Path

import pytest

from backfill_assets.engine.sail import Sail
from backfill_assets_tests.processes import run_python

WIDE, DAYS, LITTLE = 3, 7, "1m"
WRITES = """
    import json, sys
    from pathlib import Path
    from backfill_assets.engine.session import own_server
    from backfill_assets.lake.writing import write
    from backfill_assets_tests.second_engine_probe import session_on

    wide, days, memory, to = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    with session_on("sail") as session:
        frame = session.range(2 * days).selectExpr(
            *(f"id + {n} AS c{n}" for n in range(wide)),
            f"CASE WHEN id < 2 * {days} - 1 THEN date_add(DATE '1969-12-25', cast(id % {days} AS INT)) END AS day",
        )
        write(frame, Path(to), "day", days + 1, memory)
        back = session.read.parquet(to).selectExpr("count(*)", "sum(c0)", "sum(c1)").collect()[0]
        left = [p.name for p in own_server(session).scratch.glob("unordered_*")]
    print(json.dumps([list(back), left, sorted({p.parent.name for p in Path(to).rglob("*.parquet")})]))
"""


@pytest.mark.usefixtures("processes")
def test_more_days_than_sails_memory_has_room_for_open_files_are_written_in_turn(tmp_path: Path) -> None:
    assert Sail().files_at_once(LITTLE, WIDE + 1) == 1
    rows, left, folders = json.loads(run_python(WRITES, str(WIDE), str(DAYS), LITTLE, tmp_path / "out"))
    assert rows == [2 * DAYS, sum(range(2 * DAYS)), sum(range(2 * DAYS)) + 2 * DAYS]
    assert left == []
    assert len(folders) == DAYS + 1  # a file each
    assert folders[0] == "day=1969-12-25"
    assert folders[-1] == "day=__HIVE_DEFAULT_PARTITION__"


def test_of_wide_rows_fewer_files_are_open_at_once_and_always_one() -> None:
    assert Sail().files_at_once("2g", 14) > 700
    assert Sail().files_at_once("512m", 14) < 200
    assert Sail().files_at_once("64m", 2000) == 1
