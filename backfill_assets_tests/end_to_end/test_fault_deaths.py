"""Deaths while something runs: a client in the middle of the server's write, a server in the middle
of a run.

Tested here: kills at moments that only a slow commit has, between quarantine and raw, and the next
writer beside an orphan that still commits. Not tested here: kills right before and after a commit
with their record in Dagster (`test_late_data`).
"""

import signal
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.engines.server import server_status, stop_server
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.lakes import (
    content,
    delivery,
    land,
    make_lake,
    request,
    snapshot,
    toy,
    version,
)
from backfill_assets_tests.processes import PIPES, run_python, start

pytestmark = [pytest.mark.long, pytest.mark.on_spark("it kills JVMs")]

FIRST, LAST = "2024-03-01", "2024-03-03"
DEADLINE_SECONDS = 90.0
SLOW_MS = 8000
MOST_SECONDS_TO_NOTICE = 10.0
EMBEDDED = {"memory": "1g", "cores": 2, "idle_minutes": 5}
LOAD = """
import sys
from pathlib import Path
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.engine_choice import FOR_SERVERS
from backfill_assets_tests.lakes import backfill, toy
backfill(open_lake(Path(sys.argv[1])), sys.argv[2], sys.argv[3], None, toy(), force="force" in sys.argv)
"""
# Replaces a day by a row that takes its time, and whose computation makes a folder when it begins.
SLOW = """
import sys
from pathlib import Path
from datetime import date
import backfill_assets.kernel.write.replace as replace_module
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.engines.frame_files import conformed_frame, stage_frame
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets_tests.engine_choice import FOR_SERVERS
from backfill_assets_tests.lakes import ECHO

lake, day, pause = open_lake(Path(sys.argv[1])), date.fromisoformat(sys.argv[2]), sys.argv[3]
lake_session, path = LakeSession(lake), lake.table_place("echo").local()
rows = lake_session.spark().sql(f"SELECT 'orphan' event_key, id value, DATE'{day}' event_date FROM range(1, 2)")
sign = f"reflect('org.apache.spark.util.Utils', 'createTempDir', '{sys.argv[4]}', 'began') is not null"
wait = f"(reflect('java.lang.Thread', 'sleep', {pause}L) is not null or value > 0)"
done = f"reflect('org.apache.spark.util.Utils', 'createTempDir', '{sys.argv[4]}', 'ended') is not null"
slow = conformed_frame(rows.where(f"{sign} and {wait} and {done}"), ECHO)
write = replace_module.Write(
    ECHO, stage_frame(lake, ECHO, slow), {day: DayEntry(1, "orphan", "older")}, LOGS.state(path, "event_date").version,
    replace_module.Provenance("test"))
print(replace_module.replace_days(lake, write, lambda days: {}).write_id, flush=True)
"""
# Runs whose server is killed while it computes and while it writes, then the same run again, in one
# process.
SERVER_KILLED = """
import os, signal, sys, time
from pathlib import Path
import backfill_assets.engines.lake_session as build_module
from backfill_assets.kernel.core.errors import EngineLost
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.engines.server import server_status
from backfill_assets_tests.engine_choice import FOR_SERVERS
from backfill_assets_tests.lakes import backfill, toy

lake = open_lake(Path(sys.argv[1]))

def killing(module, name):
    real = getattr(module, name)

    def kill(*args):
        os.kill(server_status(lake.root).pid, signal.SIGKILL)
        killing.began = time.monotonic()
        return real(*args)

    setattr(module, name, kill)
    try:
        backfill(lake, *sys.argv[2:], ["echo"], toy())
    except EngineLost as lost:
        print(time.monotonic() - killing.began)
        print(lost)
    setattr(module, name, real)

backfill(lake, *sys.argv[2:], ["raw"], toy())
killing(build_module, "conformed_frame")
killing(build_module, "stage_frame")
backfill(lake, *sys.argv[2:], ["echo"], toy())
"""
KILLED_BEFORE_RAW = """
import os, signal, sys
from pathlib import Path
import backfill_assets.kernel.tables.store as store_module
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.engine_choice import FOR_SERVERS
from backfill_assets_tests.lakes import backfill, toy

real = store_module.commit_files

def commit(path, *rest):
    if path.name == "raw":
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, *rest)

store_module.commit_files = commit
backfill(open_lake(Path(sys.argv[1])), *sys.argv[2:], ["raw"], toy())
"""


def until(fact: Callable[[], object]) -> None:
    """Wait for `fact`; fails when it does not come true in time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def three_days(folder: Path, **settings: object) -> Lake:
    rows = [delivery(n, f"2024-03-0{n} 09:00:00", None, f"k{n}") for n in (1, 2, 3)]
    return make_lake(folder, rows, FIRST, **settings)


def killed_while_writing(lake: Lake, day: str, signs: Path) -> None:
    """Kill a client once its slow write of a day has begun on the engine.

    The engine puts a folder `began...` into `signs`, and one `ended...` when it has computed the
    row after all.
    """
    client = start("-c", SLOW, lake.root, day, str(SLOW_MS), signs, **PIPES)
    try:
        until(lambda: client.poll() is not None or list(signs.iterdir()))
    finally:
        client.kill()
        out, err = client.communicate()
    assert client.returncode == -signal.SIGKILL, out + err


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with an embedded server on which three days were built; this process opens no session
    on it."""
    lake = three_days(tmp_path_factory.mktemp("served"), spark=EMBEDDED)
    run_python(LOAD, lake.root, FIRST, LAST)
    yield lake
    stop_server(lake.root, force=True)


def keys(lake: Lake) -> list[tuple[str, str]]:
    """The days and keys of the rows of echo."""
    return sorted((str(day), key) for key, _, day in content(lake, "echo"))


def test_a_client_killed_while_the_server_writes_leaves_the_day_whole_and_a_newer_commit_wins(
    spark_server: Lake, tmp_path: Path
) -> None:
    before, first = keys(spark_server), version(spark_server, "echo")
    killed_while_writing(spark_server, "2024-03-02", tmp_path)
    jvm = server_status(spark_server.root)
    assert keys(spark_server) == before
    run_python(LOAD, spark_server.root, "2024-03-02", "2024-03-02", "force")
    newest = version(spark_server, "echo")
    assert newest > first
    assert keys(spark_server) == before
    over = time.monotonic() + 2 * SLOW_MS / 1000  # the server may also have given the orphan up
    until(lambda: list(tmp_path.glob("ended*")) or time.monotonic() > over)
    run_python(LOAD, spark_server.root, FIRST, LAST)
    assert keys(spark_server) == before
    assert version(spark_server, "echo") == newest
    now = server_status(spark_server.root)
    assert jvm is not None
    assert now is not None
    assert now.pid == jvm.pid


def test_a_killed_server_is_noticed_in_seconds_in_one_line_and_replaced_in_the_same_process(
    spark_server: Lake,
) -> None:
    before, rows = server_status(spark_server.root), keys(spark_server)
    late = delivery(9, f"{LAST} 12:00:00", "2024-03-01 12:00:00", "late")
    land(spark_server, "late.jsonl", [late])
    lines = run_python(SERVER_KILLED, spark_server.root, FIRST, LAST).splitlines()
    assert len(lines) == 4
    for seconds, told in zip(lines[::2], lines[1::2], strict=True):
        assert float(seconds) < MOST_SECONDS_TO_NOTICE
        assert told.startswith("Spark: the engine died")
    after = server_status(spark_server.root)
    assert before is not None
    assert after is not None
    assert before.pid != after.pid
    assert keys(spark_server) == sorted([*rows, ("2024-03-01", "late")])
    assert snapshot(spark_server, toy())["echo"][date(2024, 3, 1)][0] == 2


def test_killed_between_quarantine_and_raw_the_next_load_completes_the_day(
    spark_server: Lake,
) -> None:
    bad = delivery(20, f"{LAST} 13:00:00", None, "bad", op="no such operation")
    land(spark_server, "more.jsonl", [bad, delivery(21, f"{LAST} 13:00:00", None, "good")])
    raw, kept = version(spark_server, "raw"), version(spark_server, "quarantine")
    with pytest.raises(AssertionError, match="exit code -9"):
        run_python(KILLED_BEFORE_RAW, spark_server.root, FIRST, LAST)
    named = version(spark_server, "quarantine")
    assert (version(spark_server, "raw"), named > kept) == (raw, True)
    assert is_stale(spark_server, "raw")
    run_python(LOAD, spark_server.root, FIRST, LAST)
    assert (version(spark_server, "raw"), version(spark_server, "quarantine")) == (raw + 1, named)
    assert not is_stale(spark_server, "raw")
    assert "good" in {key for key, *_ in content(spark_server, "echo")}
    assert len(content(spark_server, "quarantine")) == 1


def is_stale(lake: Lake, table: str) -> bool:
    """Whether the last day of a table is stale by its receipts and ledgers."""
    asked = request(lake, table, LAST, LAST, toy())
    return asked.known.read().of(table, asked.days.start) is State.STALE
