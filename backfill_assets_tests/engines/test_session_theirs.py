"""A lake made by a session of the project's own holds the rows of one made by ours, and the session
stays as it was. Not here: what is asked of a session (`engines/test_foreign.py`)."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pyarrow as pa
import pytest
import stamina

from backfill_assets import testing
from backfill_assets.assets.given_rows import GivenRows
from backfill_assets.dagster import LakeIOManager
from backfill_assets.engines.cache import present_jars, spark_home
from backfill_assets.engines.jvm import find_java
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.tables.home import Lake, read_lake
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets_tests.assets.test_given_rows import CONTRACT, DAY, SCHEMA
from backfill_assets_tests.engine_choice import OF_LAKES, java_of_theirs, why_no_sail
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.processes import free_port

WATCHED = (
    "spark.sql.session.timeZone",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.shuffle.partitions",
)
NEXT = "date_add(day, 1) AS day"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CONFS = {  # of a project's own Spark, which has Delta
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.jars": ",".join(map(str, present_jars())),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
KINDS = {  # and the processes of Java that each leaves
    "classic": 1,
    "assets by dagster-pyspark": 1,
    "a server of Spark": 0,
    "none": 0,
}


def publish(lake: Lake, rows: Any) -> None:
    """Stage the rows, judge nothing, and commit them for the days that they have."""
    staged = GivenRows.of(rows).stage(lake, CONTRACT)
    found = audit_files(lake, staged.paths, CONTRACT)
    entries = {
        d: DayEntry(p.rows, p.fingerprint, "digest") for d, p in found.items() if d is not None
    }
    write = Write(CONTRACT, staged, entries, lake.store.head("t"), Provenance("test"))
    replace_days(lake, write, lambda days: dict.fromkeys(days, "digest"))


def lines(days: timedelta = timedelta()) -> pa.Table:
    row = {
        "k": "a",
        "n": 2**60,
        "i": 3,
        "f": 0.1,
        "b": False,
        "on": DAY,
        "raw": b"x",
        "texts": ["é", None],
    }
    rows = [{**row, "k": str(n), "n": n or None, "day": DAY + days} for n in range(100)]
    table = pa.Table.from_pylist(rows, SCHEMA)
    instants = pa.array(
        [-5_364_662_400_000_000 + n * 86_400_000_001 for n in range(100)], SCHEMA.field("at").type
    )
    return table.set_column(SCHEMA.get_field_index("at"), "at", instants)


@contextmanager
def their_session(kind: str) -> Iterator[Any]:
    """A session as a project has it, with settings unlike ours, or a resource that has one."""
    from pyspark.sql import SparkSession

    if kind == "classic":
        made = SparkSession.builder
        for name, value in CONFS.items():
            made = made.config(name, value)
        yield made.getOrCreate()
    else:
        with (
            spark_server() as port
        ):  # not `getOrCreate`: it hands back another test's session, whose server has ended
            session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
            yield session
            session.stop()


@contextmanager
def spark_server(port: int = 0, /, **more: str) -> Iterator[int]:
    """The port of pyspark's own Connect server with Delta, as a platform team would start it: a
    program by itself, on a free port unless one is given. `more`: further configuration."""
    port = port or free_port()
    bound = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    confs = {**CONFS, **more, **bound}
    words = [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
    program = [str(spark_home() / "bin/spark-submit"), "--class", SERVER, *words, "spark-internal"]
    with subprocess.Popen(program, stdout=sys.stderr) as server:
        try:
            for attempt in stamina.retry_context(
                on=OSError, attempts=None, timeout=180, wait_max=0.5
            ):
                with attempt, socket.create_connection(("127.0.0.1", port)):
                    yield port
        finally:
            end_server(server)


def end_server(server: "subprocess.Popen[bytes]") -> None:
    """End a server of pyspark's: one in many does not end at a request to terminate."""
    server.terminate()
    try:
        server.wait(timeout=30)
    except subprocess.TimeoutExpired:
        server.kill()


def make_by(made: LakeSession) -> None:
    """Make both days by a session, which must stay as it was."""
    lake, session = made.lake, made.spark() if made.project_session is None else made.for_reading()
    before = {key: session.conf.get(key, None) for key in WATCHED}
    publish(lake, session.createDataFrame(lines()))
    read = made.read("t", lake.store.head("t"), "day", [DAY])
    publish(lake, read.selectExpr(*(NEXT if n == "day" else f"`{n}`" for n in read.columns)))
    assert {key: session.conf.get(key, None) for key in WATCHED} == before
    assert session.range(3).count() == 3


def run_assets(root: Path) -> None:
    """Both days by an asset that returns frames of dagster-pyspark's resource, read and written
    again by another."""
    import pyspark.sql
    from dagster_pyspark import PySparkResource

    days = dg.DailyPartitionsDefinition(str(DAY))
    day, one_run = {"partition_expr": "day"}, dg.BackfillPolicy.single_run()

    @dg.asset(partitions_def=days, metadata=day, backfill_policy=one_run)
    def t(pyspark_of_theirs: PySparkResource) -> pyspark.sql.DataFrame:
        session: pyspark.sql.SparkSession = pyspark_of_theirs.spark_session
        return session.createDataFrame(lines()).unionAll(
            session.createDataFrame(lines(timedelta(1)))
        )

    @dg.asset(partitions_def=days, metadata=day, backfill_policy=one_run)
    def again(t: pyspark.sql.DataFrame) -> pyspark.sql.DataFrame:
        return t

    project_session = PySparkResource(spark_config=CONFS)
    resources = {
        "io_manager": LakeIOManager(lake=str(root), spark=project_session),
        "pyspark_of_theirs": project_session,
    }
    with dg.DagsterInstance.ephemeral() as instance:
        testing.materialize(
            [t, again], str(DAY), str(DAY + timedelta(1)), resources=resources, instance=instance
        )
    store = read_lake(root).store
    first, second = (
        {d: r.entry.content for d, r in store.view(n, "day").latest.items()} for n in ("t", "again")
    )
    assert first == second


def make(kind: str, root: Path) -> dict[str, Any]:
    """Make a day from rows, and the next from what the lake holds of it; what there is to say
    afterwards."""
    lake = bare_lake(root)
    if kind == "assets by dagster-pyspark":
        run_assets(root)
    elif kind == "none":
        publish(lake, lines())
        publish(lake, lines(timedelta(1)))
    elif kind == "ours":
        make_by(LakeSession(lake))
    else:
        with their_session(kind) as given:
            make_by(LakeSession(lake, project_session=lambda: given))
    latest = lake.store.view("t", "day").latest
    return {
        "fingerprints": {
            str(day): receipt.entry.fingerprint for day, receipt in sorted(latest.items())
        },
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


@pytest.mark.parametrize(("kind", "java"), [*KINDS.items()])
def test_no_server_and_no_java_of_ours_start_and_the_rows_are_ours(
    kind: str, java: int, folder: Path
) -> None:
    if why := why_no_sail():
        pytest.skip(f"no Sail here: {why}")
    if kind != "none":
        java_of_theirs()
    assert told(kind, folder) == {**told("ours", folder), "server": False, "java": java}
    assert told("ours", folder)["server"]


if __name__ == "__main__":
    print(json.dumps(make(sys.argv[1], Path(sys.argv[2]))))
    sys.stdout.flush()
    os._exit(0)  # pyspark's farewell would wait for a server of this process
