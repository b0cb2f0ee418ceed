"""Sessions: what they promise about data, what happens when the engine dies, and the settings that choose it.

Lives here: opening and losing sessions on each kind of engine. Does not live here: the server's process
(`test_server`). Whatever has a session runs in a process of its own.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from backfill_assets.core.errors import EngineLost
from backfill_assets.engine import session as opening
from backfill_assets.engine.confs import EngineSettings, scrub
from backfill_assets.engine.loss import engine_lost, is_engine_loss
from backfill_assets.engine.server import stop_server
from backfill_assets.engine.session import changed_settings, drop_session, open_session, set_confs
from backfill_assets_tests.processes import CHECKOUT, run_python

pytestmark = pytest.mark.on_spark("it is Spark's sessions, server and driver")

IMPORTS = """
import contextlib, os, sys, threading, time, warnings
from dataclasses import replace
from pathlib import Path
warnings.simplefilter("ignore")
from backfill_assets.engine.session import *
from backfill_assets.engine.server import ensure_server, server_status
lake = Path(sys.argv[1])
settings = EngineSettings(memory="1g", cores=1, idle_minutes=5)
"""


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake whose server is started by the first test that opens a session, and stopped at the end."""
    lake = tmp_path_factory.mktemp("engine") / "lake, with spaces & 湖"
    lake.mkdir()
    yield lake
    stop_server(lake, force=True)


def run(code: str, lake: Path, cwd: Path | None = None, **env: str) -> list[str]:
    """The lines that `code` prints in a process of its own; `cwd` is where it works."""
    move = f"os.chdir({str(cwd)!r})\n" if cwd else ""
    return run_python(IMPORTS + move + code, lake, env={"PYTHONPATH": str(CHECKOUT), **env}, fresh=True).splitlines()


def test_a_session_writes_and_reads_delta_in_utc_and_leaves_nothing_behind(spark_server: Path, tmp_path: Path) -> None:
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
        "1767225600", "UTC", "NumberFormatException False", "True",
    ]  # fmt: skip
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_files_and_folders_get_the_rights_of_the_lake_without_a_program_forked_for_each(spark_server: Path) -> None:
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


def test_a_session_whose_settings_were_never_read_is_not_taken_for_changed_by_what_was_said(tmp_path: Path) -> None:
    """Its server was replaced while it was opened. To put static settings back would be refused."""
    session = Mock()
    session.conf.getAll = {"spark.sql.extensions": "delta", "spark.sql.shuffle.partitions": "1"}
    opening._open[tmp_path] = opening._Open(session, EngineSettings(), None)
    try:
        set_confs(session, {"spark.sql.shuffle.partitions": "1"})
        assert changed_settings(session) == {}
        assert not session.conf.unset.called
    finally:
        drop_session(tmp_path)


def test_the_wait_for_a_session_is_counted_once_however_often_it_is_asked_for(spark_server: Path) -> None:
    code = """
from backfill_assets.lake.session import CpuMeter
meter = CpuMeter(lake, settings)
print(meter.waited(), opening_seconds(lake))
open_session(lake, settings)
waited = meter.waited()
print(waited > 0.05)
open_session(lake, settings)
print(meter.waited() == waited, CpuMeter(lake, settings).waited())
"""
    assert run(code, spark_server) == ["0.0 0.0", "True", "True 0.0"]


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


def test_a_master_url_has_the_lakes_server_for_its_driver(spark_server: Path, tmp_path: Path) -> None:
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


def test_an_address_where_nobody_listens_is_a_lost_engine_at_once(tmp_path: Path) -> None:
    with pytest.raises(EngineLost, match="cannot be reached") as lost:
        open_session(tmp_path, EngineSettings(engine="sc://localhost:1/;token=hunter2"))
    assert "hunter2" not in str(lost.value)
    assert is_engine_loss(lost.value)


class SparkConnectGrpcException(Exception):
    """Stands for pyspark's error of that name."""


def test_a_loss_is_found_behind_the_error_it_caused() -> None:
    outer = RuntimeError("step failed")
    outer.__cause__ = ConnectionResetError("gone")
    assert is_engine_loss(outer)
    assert "ConnectionResetError" in str(engine_lost(outer))


def test_no_secret_of_an_address_is_shown() -> None:
    assert scrub("sc://h:1/;token=abc;user_id=me") == "sc://h:1/;token=***;user_id=me"
    told = engine_lost(SparkConnectGrpcException("cannot reach sc://h:1/;token=abc\nmore"))
    assert "abc" not in str(told)
    assert "\n" not in str(told)
    settings = EngineSettings(engine="sc://h:1/;token=abc", confs={"spark.k": "hunter2"})
    assert "abc" not in repr(settings)
    assert "hunter2" not in repr(settings)
