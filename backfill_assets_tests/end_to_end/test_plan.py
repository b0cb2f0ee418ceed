"""A plan run by the command line, with Spark behind it, killed in the middle; and by the job with a launchpad.

Tested here: SIGKILL of `run` after its second chunk wrote, then the same command again; the job `backfill_range` on the
same lake. Not tested here: kills at every chunk and what gates refuse (`backfill/test_run.py`).
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.core.plans import CHUNK_TAG, MODE_TAG, PLAN_TAG, WriteMode
from backfill_assets.core.receipts import Built
from backfill_assets.engine.server import stop_server
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.home import Lake
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.end_to_end.typed import PATIENCE_SECONDS, answer, command, told_file
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import delivery, make_lake
from backfill_assets_tests.processes import run_python, until

pytestmark = pytest.mark.on_spark("a plan on the engine that users have by default")

FIRST, LAST = "2024-03-01", "2024-03-04"
TABLES = ("raw", "staging")


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake into which four days landed; its server ends with the module."""
    root = tmp_path_factory.mktemp("plan")
    rows = [delivery(n, f"2024-03-0{n} 10:00:00", None, f"k{n}") for n in (1, 2, 3, 4)]
    lake = make_lake(root / "lake", rows, FIRST, spark={"engine": "embedded", "memory": "1g"})
    make_home(root)
    yield lake
    stop_server(lake.root, force=True)


def chunks_of(lake: Lake, table: str, plan: str = "") -> list[str]:
    """The chunks of a plan ("": of any) that a table's receipts name, in the order of its commits."""
    found = [c.receipt for c in lake.store.commits(table) if c.receipt is not None]
    return [r.tags[CHUNK_TAG] for r in found if r.tags.get(PLAN_TAG, "").startswith(plan) and PLAN_TAG in r.tags]


def test_a_plan_that_was_killed_goes_on_where_it_stood(spark_server: Lake) -> None:
    lake = spark_server
    asked = ("--partitions", f"{FIRST}..{LAST}", "--chunk", "1d", "--tables", ",".join(TABLES), "--force")
    plan = answer(lake, "plan", *asked)["id"]  # by force: whether the other test came first makes no difference
    with command(lake, "run", plan) as killed:
        until(lambda: "2" in chunks_of(lake, "raw", plan), told_file(lake), PATIENCE_SECONDS)
        killed.send_signal(signal.SIGKILL)
    done = answer(lake, "run", plan)
    assert done["state"] == "finished"
    assert {c["state"] for c in done["progress"]} == {"done"}
    assert all(c["cpu_s"] > 0 and c["bytes"] > 0 for c in done["progress"][:4])
    again = [["1", "2", "2", "3", "4"]]  # the load that was killed, if raw was written and its ledger not yet
    for table in TABLES:  # nothing took effect twice
        assert chunks_of(lake, table, plan) in [["1", "2", "3", "4"], *(again if table == "raw" else [])]
        held = audit_table(lake, next(t.contract for t in tables(lake.settings) if t.name == table))
        assert {str(d): p.rows for d, p in held.items()} == {f"2024-03-0{n}": 1 for n in (1, 2, 3, 4)}


LAUNCHED = """
import json, sys
from pathlib import Path
from backfill_assets.core.plans import CHUNK_TAG
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.backfill.work import PARENT
from backfill_assets.orchestration.plan_job import BACKFILL_RANGE, RUN_CHUNKS
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.homes import opened_home

job = assemble(Path(sys.argv[1]), tables).resolve_job_def(BACKFILL_RANGE)
config = {"ops": {RUN_CHUNKS: {"config": json.loads(sys.argv[3])}}}
with opened_home(sys.argv[2]) as instance:
    result = job.execute_in_process(instance=instance, run_config=config)
    runs = [r for r in instance.get_runs() if r.tags.get(PARENT) == result.run_id]
    print("chunks", *sorted(r.tags[CHUNK_TAG] for r in runs))
"""


def test_the_launchpads_job_runs_the_chunks_as_runs_of_their_own(spark_server: Lake, tmp_path: Path) -> None:
    lake = spark_server
    days = {"start_date": FIRST, "end_date": "2024-03-02", "chunk": "1d", "force": True}
    for asked in ({"tables": "raw,staging"}, {"tables": "staging", "write_mode": "merge"}):
        told = run_python(LAUNCHED, lake.root, tmp_path, json.dumps(days | asked), timeout=PATIENCE_SECONDS)
        assert told.splitlines()[-1] == "chunks 1 2"
        assert chunks_of(lake, "staging")[-2:] == ["1", "2"]
    newest = list(lake.store.commits("staging"))[-1].receipt
    assert newest
    assert newest.tags[MODE_TAG] == WriteMode.MERGE
    assert {e.built for e in newest.days.values()} == {Built.COMPLETE}, "nothing was removed: an overwrite"
