"""Lakes on Sail: the known answers, without Java; the same days on Spark afterwards; its server
killed while it writes.

Lives here: what a lake holds and tells when Sail computed it. Does not live here: the server's life
(`engines.test_launch`), and what Sail is not asked (`intake.test_differing`).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets.engines.sail import no_isolation_reason
from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.core.engines import ENGINE
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.lakes import (
    SHARED,
    backfill,
    configure,
    delivery,
    make_lake,
    request,
    snapshot,
)
from backfill_assets_tests.processes import run_python

pytestmark = pytest.mark.long

SAIL = {"engine": "sail", "memory": "512m", "cores": 2, "idle_minutes": 5}
NO_JAVA = {"JAVA_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
FIRST, LAST = "2024-03-01", "2024-03-04"
PATIENCE_SECONDS = 180
LOAD = """
import sys
from pathlib import Path
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.lakes import backfill
backfill(open_lake(Path(sys.argv[1])), sys.argv[2], sys.argv[3])
"""
CLIENT = """
import sys
from pathlib import Path
from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.lakes import backfill
lake, (first, last, table) = open_lake(Path(sys.argv[1])), sys.argv[2:]
for attempt in range(5):
    try:
        backfill(lake, first, last, [table], force=True)
        break
    except TransientError as overtaken:
        print(overtaken)
else:
    sys.exit("overtaken five times")
"""
BUSY = """
import sys
from pathlib import Path
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.engines.lake_session import LakeSession
print("begins", flush=True)
rows = LakeSession(open_lake(Path(sys.argv[1]))).spark().range(1 << 40)
rows.selectExpr("id % 1000 AS k").groupBy("k").count().collect()
"""
KILLED_WHILE_IT_WRITES = """
import os, signal, sys, threading, time
from pathlib import Path
from backfill_assets.engines.server import server_status
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.engines.lake_session import LakeSession, explaining_losses
on = LakeSession(open_lake(Path(sys.argv[1])))
rows = on.spark().range(1 << 40).selectExpr("id", "id % 7 AS day")
threading.Timer(1.0, lambda: os.kill(server_status(on.lake.root).pid, signal.SIGKILL)).start()
began = time.monotonic()
try:
    with explaining_losses():
        rows.write.mode("append").parquet(sys.argv[2])
except Exception as error:
    print(type(error).__name__, time.monotonic() - began < 15)
"""


@pytest.fixture
def lake(tmp_path: Path, processes: None) -> Lake:
    """A lake on Sail of four days with late and moved deliveries, not loaded."""
    if why := no_isolation_reason():
        pytest.skip(why)
    rows = [
        delivery(1, "2024-03-01T10:00:00Z", "2024-03-01T09:00:00Z", "a", value=5),
        delivery(2, "2024-03-02T10:00:00Z", "2024-03-02T09:00:00Z", "b", entity="Ä", flag=1),
        delivery(3, "2024-03-03T10:00:00Z", "2024-03-01T23:59:59.999999Z", "c", entity=None),
        delivery(4, "2024-03-04T10:00:00Z", "2024-03-02T09:00:00Z", "a", value=-(2**53)),
        delivery(5, "2024-03-04T11:00:00Z", None, "b", op="delete"),
    ]
    return make_lake(tmp_path / "lake", rows, FIRST, spark=SAIL)


@pytest.mark.on_spark("Spark makes again what Sail made")
def test_what_sail_made_is_fresh_on_spark_which_makes_the_very_same(
    spark: "SparkSession", lake: Lake
) -> None:
    run_python(LOAD, lake.root, FIRST, LAST, env=NO_JAVA)
    made = snapshot(lake)
    (commit,) = list(lake.store.commits("staging", -1))[-1:]
    assert commit.receipt is not None
    assert commit.receipt.tags[ENGINE] == "sail 0.7.2"
    stop_server(lake.root, force=True)
    moved = configure(lake.root, FIRST, spark=dict(SHARED))
    states = request(moved, "staging", FIRST, LAST).known.states
    days = request(moved, "staging", FIRST, LAST).days
    assert {states.of("staging", d) for d in days} == {State.FRESH}
    assert not any(p.write_id for p in backfill(moved, FIRST, LAST).values())
    backfill(moved, FIRST, LAST, force=True)
    assert snapshot(moved) == made
    (commit,) = list(moved.store.commits("staging", -1))[-1:]
    assert commit.receipt is not None
    assert commit.receipt.tags[ENGINE] == "spark 4.2.0"


def test_a_server_killed_while_it_writes_is_noticed_in_seconds_and_the_rerun_writes(
    lake: Lake, tmp_path: Path
) -> None:
    assert run_python(KILLED_WHILE_IT_WRITES, lake.root, tmp_path / "out").split() == [
        "EngineLost",
        "True",
    ]
    run_python(LOAD, lake.root, FIRST, LAST)
    assert snapshot(lake)["staging"]
    stop_server(lake.root, force=True)


def test_clients_of_one_server_write_other_days_and_the_same_day_at_once_while_it_is_busy(
    lake: Lake,
) -> None:
    """What two of them hold afterwards is what one would have made, and nobody waits for the query
    of a third."""
    run_python(LOAD, lake.root, FIRST, LAST)
    made = snapshot(lake)
    spans = [
        (FIRST, "2024-03-02"),
        ("2024-03-03", LAST),
        (FIRST, "2024-03-02"),
    ]  # of other days, and of the same
    busy, *clients = (
        subprocess.Popen(
            [sys.executable, "-c", code, str(lake.root), *span, *table],
            stdout=subprocess.PIPE,
            text=True,
        )
        for code, span, table in [
            (BUSY, (), ()),
            *((CLIENT, s, (t,)) for t in ("staging", "features") for s in spans),
        ]
    )
    try:
        assert [c.wait(PATIENCE_SECONDS) for c in clients] == [0] * len(clients)
        assert busy.poll() is None
    finally:
        for process in (busy, *clients):
            process.kill()
            process.communicate()
    assert snapshot(lake) == made
    for table in ("staging", "features"):
        receipts = [c.receipt for c in lake.store.commits(table, -1) if c.receipt is not None]
        assert len({r.write_id for r in receipts}) == len(receipts) == 1 + len(spans)
    stop_server(lake.root, force=True)
