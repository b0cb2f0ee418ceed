"""A lake made by a session of the project's own holds the rows of one made by ours, and the session stays as it was.

Tested here: `lake.session` and `lake.given_rows` with a classic session and a foreign server, each in a program of its
own. Not tested here: what is asked of a session (`engine/test_foreign.py`).
"""

import json
import os
import subprocess
import sys
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from backfill_assets.core.receipts import DayEntry
from backfill_assets.engine.jvm import find_java
from backfill_assets.lake.audit import audit
from backfill_assets.lake.given_rows import GivenRows
from backfill_assets.lake.home import Lake
from backfill_assets.lake.replace import Provenance, Write, replace_days
from backfill_assets.lake.session import LakeSession
from backfill_assets_tests.engines import OF_LAKES, why_no_sail
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.lake.test_given_rows import CONTRACT, DAY, SCHEMA

WATCHED = ("spark.sql.session.timeZone", "spark.sql.parquet.outputTimestampType", "spark.sql.shuffle.partitions")
NEXT = "date_add(day, 1) AS day"


def publish(lake: Lake, rows: Any) -> None:
    """Stage the rows, judge nothing, and commit them for the days that they have."""
    staged = GivenRows.of(rows).stage(lake, CONTRACT)
    found = audit(lake, staged.paths, CONTRACT)
    entries = {d: DayEntry(p.rows, p.fingerprint, "digest") for d, p in found.items() if d is not None}
    write = Write(CONTRACT, staged, entries, lake.store.head("t"), Provenance("test"))
    replace_days(lake, write, lambda days: dict.fromkeys(days, "digest"))


def lines(days: timedelta = timedelta()) -> pa.Table:
    row = {"k": "a", "n": 2**60, "i": 3, "f": 0.1, "b": False, "on": DAY, "raw": b"x", "texts": ["é", None]}
    rows = [{**row, "k": str(n), "n": n or None, "day": DAY + days} for n in range(100)]
    table = pa.Table.from_pylist(rows, SCHEMA)
    instants = pa.array([-5_364_662_400_000_000 + n * 86_400_000_001 for n in range(100)], SCHEMA.field("at").type)
    return table.set_column(SCHEMA.get_field_index("at"), "at", instants)


def their_session(kind: str) -> tuple[Any, Any]:
    """Its server, which stops when it is forgotten, and a session as a project has it, with settings unlike ours."""
    from pyspark.sql import SparkSession

    if kind == "classic":
        made = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        return None, made.config("spark.sql.session.timeZone", "America/New_York").getOrCreate()
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _, port = server.listening_address
    return server, SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()


def make(kind: str, root: Path) -> dict[str, Any]:
    """Make a day from rows, and the next from what the lake holds of it; what there is to say afterwards."""
    lake = bare_lake(root)
    if kind == "none":
        publish(lake, lines())
        publish(lake, lines(timedelta(1)))
        session = None
    else:
        lake_session = LakeSession(lake)
        if kind != "ours":
            _server, given = their_session(kind)
            lake_session = LakeSession(lake, theirs=lambda: given)
        session = lake_session.spark() if kind == "ours" else given
        before = {key: session.conf.get(key, None) for key in WATCHED}
        publish(lake, session.createDataFrame(lines()))
        made = lake_session.read("t", lake.store.head("t"), "day", [DAY])
        publish(lake, made.selectExpr(*(NEXT if n == "day" else f"`{n}`" for n in made.columns)))
        assert {key: session.conf.get(key, None) for key in WATCHED} == before
        assert session.range(3).count() == 3
    stamps = lake.store.view("t", "day").stamps
    return {
        "fingerprints": {str(day): stamp.entry.fingerprint for day, stamp in sorted(stamps.items())},
        "server": (root / ".server").exists(),
        "java": sum(p.name() == "java" for p in psutil.Process().children(recursive=True)),
    }


@cache
def told(kind: str, folder: Path) -> dict[str, Any]:
    """What a program says that made a lake so."""
    environ = {**os.environ, OF_LAKES: "sail", "JAVA_HOME": str(find_java().home)}
    environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    program = [sys.executable, "-m", __name__, kind, str(folder / kind)]
    run = subprocess.run(program, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def folder(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("theirs")


@pytest.mark.parametrize(("kind", "java"), [("classic", 1), ("foreign server", 0), ("none", 0)])
def test_no_server_and_no_java_of_ours_start_and_the_rows_are_ours(kind: str, java: int, folder: Path) -> None:
    if why := why_no_sail():
        pytest.skip(f"no Sail here: {why}")
    assert told(kind, folder) == {**told("ours", folder), "server": False, "java": java}
    assert told("ours", folder)["server"]


if __name__ == "__main__":
    print(json.dumps(make(sys.argv[1], Path(sys.argv[2]))))
    sys.stdout.flush()
    os._exit(0)  # pyspark's farewell would wait for a server of this process
