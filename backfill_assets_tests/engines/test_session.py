"""Sessions: what they promise about data, what happens when the engine dies, and the settings that
choose it. Not here: the server's process (`test_server`)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.loss import engine_lost_error, is_engine_loss
from backfill_assets.engines.server import stop_server
from backfill_assets.engines.session import open_session
from backfill_assets.kernel.core.errors import EngineLost
from backfill_assets_tests.processes import CHECKOUT, run_python

pytestmark = [pytest.mark.long, pytest.mark.on_spark("it is Spark's sessions, server and driver")]

IMPORTS = """
import contextlib, os, sys, threading, time, warnings
from dataclasses import replace
from pathlib import Path
warnings.simplefilter("ignore")
from backfill_assets.engines.session import *
from backfill_assets.engines.server import ensure_server, server_status
lake = Path(sys.argv[1])
settings = EngineSettings(memory="1g", cores=1, idle_minutes=5)
"""


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake whose server is started by the first test that opens a session, and stopped at the
    end."""
    lake = tmp_path_factory.mktemp("engine") / "lake, with spaces & 湖"
    lake.mkdir()
    yield lake
    stop_server(lake, force=True)


def run(code: str, lake: Path, cwd: Path | None = None, **env: str) -> list[str]:
    """The lines that `code` prints in a process of its own; `cwd` is where it works."""
    move = f"os.chdir({str(cwd)!r})\n" if cwd else ""
    return run_python(
        IMPORTS + move + code, lake, env={"PYTHONPATH": str(CHECKOUT), **env}, fresh=True
    ).splitlines()


def test_a_session_writes_and_reads_delta_in_utc_and_leaves_nothing_behind(
    spark_server: Path, tmp_path: Path
) -> None:
    code = """
spark = open_session(lake, settings)
path = str(lake / "tables" / "a table")
spark.sql("select timestamp '2026-01-01 00:00:00' as at, 1 as n").write.format("delta").save(path)
print(spark.read.format("delta").load(path).selectExpr("unix_timestamp(at)").first()[0])
print(spark.sql("select current_timezone()").first()[0])
try:
    spark.sql("select cast('x' as int)").collect()
except Exception as error:
    print(type(error).__name__, is_engine_loss(error))
print(open_session(lake, settings) is spark)
"""
    assert run(code, spark_server, tmp_path, TZ="Asia/Tokyo") == [
        "1767225600",
        "UTC",
        "NumberFormatException False",
        "True",
    ]
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_files_and_folders_get_the_rights_of_the_lake_without_a_program_forked_for_each(
    spark_server: Path,
) -> None:
    code = """
import psutil
spark, folder = open_session(lake, settings), lake / "many"
def of_children():
    times = psutil.Process(server_status(lake).pid).cpu_times()
    return times.children_user + times.children_system
spark.range(9).count()  # what a server starts once, it has started
before = of_children()
spark.range(90).selectExpr("id", "id as day").write.partitionBy("day").parquet(str(folder))
print(*sorted({f"{p.stat().st_mode & 0o777:o}" for p in folder.rglob("*") if p.suffix != ".crc"}))
print(of_children() - before)
"""
    assert run(code, spark_server) == ["600 700", "0.0"]


def test_a_wrong_token_is_refused_and_no_error_shows_the_right_one(spark_server: Path) -> None:
    code = """
url = ensure_server(lake, settings).url
token = url.partition("token=")[2]
import traceback
try:
    open_session(lake, EngineSettings(engine=url[:-4] + "xxxx")).range(1).count()
except Exception as error:
    print("UNAUTHENTICATED" in str(error), is_engine_loss(error))
    print(token in "".join(traceback.format_exception(error)) + repr(EngineSettings(engine=url)))
"""
    assert run(code, spark_server) == ["True False", "False"]


def test_any_connect_address_is_an_engine_with_the_same_promises(spark_server: Path) -> None:
    code = """
url = ensure_server(lake, settings).url
remote = EngineSettings(engine=url, confs={"spark.sql.shuffle.partitions": "3"})
spark = open_session(lake / "elsewhere", remote)
print([spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")])
print(spark.range(4).count(), open_session(lake / "elsewhere", remote) is spark, server_status(lake).in_use)
spark.stop()
print(open_session(lake / "elsewhere", remote).range(5).count())
"""
    assert run(code, spark_server) == ["['UTC', '3']", "4 True False", "5"]


def test_a_master_url_has_the_lakes_server_for_its_driver(
    spark_server: Path, tmp_path: Path
) -> None:
    code = """
local = EngineSettings(engine="local[1]", memory="1g", confs={"spark.hadoop.some.secret": "hunter2"})
spark = open_session(lake, local)
path = str(lake / "tables" / "local")
spark.range(3).write.format("delta").save(path)
print(spark.read.format("delta").load(path).count(), spark.conf.get("spark.sql.session.timeZone"))
import psutil
driver = psutil.Process(server_status(lake).pid)
print("hunter2" in " ".join(driver.cmdline()), open_session(lake, local) is spark)
sockets = [s for s in driver.net_connections() if s.status == "LISTEN"]
print(sorted({s.laddr.ip.removeprefix("::ffff:") for s in sockets}))
"""
    try:
        assert run(code, tmp_path) == ["3 UTC", "False True", "['127.0.0.1']"]
    finally:
        stop_server(tmp_path, force=True)


@pytest.mark.slow
def test_an_address_where_nobody_listens_is_a_lost_engine_at_once_and_shows_no_secret(
    tmp_path: Path,
) -> None:
    settings = EngineSettings(engine="sc://localhost:1/;token=abc", confs={"spark.k": "hunter2"})
    with pytest.raises(EngineLost, match="cannot be reached") as lost:
        open_session(tmp_path, settings)
    outer = RuntimeError("step failed")
    outer.__cause__ = lost.value
    assert is_engine_loss(outer)
    told = engine_lost_error(SparkConnectGrpcException("cannot reach sc://h:1/;token=abc\nmore"))
    for text in (str(lost.value), str(told), repr(settings)):
        assert not [word for word in ("abc", "hunter2", "\n") if word in text]


class SparkConnectGrpcException(Exception):
    """Stands for pyspark's error of that name."""
