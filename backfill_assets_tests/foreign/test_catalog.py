"""Tables get names in the catalog of a project's own Spark, and tables of others are read by
theirs; an engine whose catalog no reader can see is refused.
Not here: Glue and Unity, which Spark reaches by the same statements."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.foreign.catalog import (
    locate_table,
    location_of,
    register_new_table,
    register_tables,
)
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.testing import new_lake
from backfill_assets_tests.engine_choice import java_of_theirs
from backfill_assets_tests.processes import run_python

DAY = date(2024, 3, 1)
THEIRS = """
from functools import cache
from pathlib import Path
from backfill_assets_tests.engines.test_session_theirs import CONFS

@cache
def get():
    from pyspark.sql import SparkSession
    made, here = SparkSession.builder.enableHiveSupport(), Path(__file__).parent
    derby = f"jdbc:derby:;databaseName={here}/metastore;create=true"
    confs = {"spark.sql.warehouse.dir": f"{here}/warehouse", "spark.hadoop.javax.jdo.option.ConnectionURL": derby}
    confs |= {"spark.sql.variable.substitute": "false", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
    confs |= {"spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={here}/derby.log"}
    for name, value in {**CONFS, **confs, "spark.sql.session.timeZone": "UTC"}.items():
        made = made.config(name, value)
    return made.getOrCreate()
"""
PROGRAM = """
import json, sys
from datetime import date
import dagster as dg, pyarrow as pa
from click.testing import CliRunner
from backfill_assets.cli.app import app
from backfill_assets.dagster import LakeIOManager
from backfill_assets.testing import materialize

root, reading, here = sys.argv[1:]
sys.path.insert(0, here)
from theirs import get

def asset(name):
    @dg.asset(name=name, partitions_def=dg.DailyPartitionsDefinition("2024-03-01"))
    def made():
        return pa.table({"day": [date(2024, 3, 1)], "id": ["a"]})
    return made

def make(name):
    resources = {"io_manager": LakeIOManager(lake=root)}
    assert materialize([asset(name)], "2024-03-01", resources=resources).success

def run(lake, *words):
    done = CliRunner().invoke(app, ["--lake", lake, *words])
    return done.exit_code, " ".join(done.output.split())

def register(*words):
    return run(root, "register", *words)

make("orders")
rows = [tuple(r) for r in get().sql("SELECT id FROM default.orders").collect()]
get().sql(f"CREATE TABLE default.more USING delta LOCATION '{here}/elsewhere' AS SELECT 1 AS id")
make("more")
get().sql("CREATE SCHEMA second")
second, no = register("--schema", "second", "--json"), register("--schema", "no")
told = {"rows": rows, "again": register(), "second": second, "no": no}

def daily(folder, number):
    made = f"SELECT DATE'2024-03-01' AS day, {number} AS Location"
    get().sql(f"CREATE TABLE default.daily USING delta LOCATION '{here}/{folder}' AS {made}")

daily("daily", 1)
get().sql("CREATE VIEW default.seen AS SELECT * FROM default.daily")
get().sql("CREATE TABLE default.plain USING parquet AS SELECT 1 AS id")
told["unknown"] = run(reading, "status")
told["others"] = {name: run(reading, "locate", f"default.{name}") for name in ("seen", "plain", "nothing")}
told["located"], told["scan"] = run(reading, "locate", "default.daily"), run(reading, "scan")
get().sql("DROP TABLE default.daily")
daily("moved", 2)
told["moved"] = run(reading, "catch-up")
told["followed"], told["caught up"] = run(reading, "locate", "default.daily"), run(reading, "catch-up")
told["sums"] = run(reading, "sql", "SELECT total FROM sums")
print(json.dumps(told))
"""
SUMS = """
/*
description = "Money."
day = "day"
key = ["total"]
columns = { day = "DATE", total = "BIGINT -- sum" }
inputs = { daily = {} }
*/
SELECT day, sum(Location) AS total FROM daily GROUP BY day
"""


@pytest.mark.on_spark("it is Spark's catalog")
@pytest.mark.usefixtures("processes")
def test_a_table_gets_its_name_with_its_first_commit_and_a_name_of_another_is_refused(
    tmp_path: Path,
) -> None:
    java_of_theirs()
    (tmp_path / "theirs.py").write_text(THEIRS)
    spark = {"engine": "session", "session": "theirs:get"}
    new_lake(
        tmp_path / "lake", DAY, assets_only=True, access={"register_in": "default"}, spark=spark
    )
    tables = {"daily": {"external": "default.daily", "day": "day"}}
    reading = {"assets_only": True, "pipeline": {"sql": "*.sql"}, "tables": tables, "spark": spark}
    new_lake(tmp_path / "reading", DAY, **reading)
    (tmp_path / "reading/sums.sql").write_text(SUMS)
    told = run_python(
        PROGRAM, tmp_path / "lake", tmp_path / "reading", tmp_path, timeout=300
    ).splitlines()[-1]
    found, orders = json.loads(told), (tmp_path / "lake" / "tables" / "orders").as_uri()
    assert found["rows"] == [["a"]]
    code, text = found["again"]
    assert (code, f"known default.orders: {orders}" in text) == (1, True)
    assert f"the name default.more: it belongs to another table: file:{tmp_path}/elsewhere" in text
    code, text = found["second"]
    tables = json.loads(text)["tables"]
    assert (code, [(t["name"], t["is_new"]) for t in tables]) == (
        0,
        [("second.more", True), ("second.orders", True)],
    )
    assert (found["no"][0], "Create the schema no" in found["no"][1]) == (1, True)
    assert_a_lake_reads_by_a_name(found, tmp_path)


def assert_a_lake_reads_by_a_name(found: dict[str, Any], folder: Path) -> None:
    """Once the place of the name is recorded; one that leads elsewhere later is refused until the
    lake follows it."""
    (code, text), daily, moved = found["unknown"], f"{folder}/daily", f"{folder}/moved"
    assert (code, "Run `backfill-assets locate default.daily`" in text) == (2, True)
    for name, why in (
        ("seen", "a view"),
        ("plain", "a table of parquet"),
        ("nothing", "has no table of that name"),
    ):
        code, text = found["others"][name]
        assert (code, text.startswith(f"Error: the table default.{name}: "), why in text) == (
            1,
            True,
            True,
        ), text
    assert found["located"] == [0, f"located default.daily: {daily}"]
    assert "external daily: version 0 there, rows of 2024-03-01 are new" in found["scan"][1]
    assert (
        f"default.daily: its name leads to {moved} now, and the lake reads {daily}. Nothing was"
        in found["moved"][1]
    )
    assert found["followed"] == [0, f"located default.daily: {moved} (before: {daily})"]
    assert (found["caught up"][0], found["sums"]) == (0, [0, "total 2 1 row(s)"]), found[
        "caught up"
    ][1]


def test_an_engine_that_keeps_its_catalog_in_memory_is_refused_by_name(tmp_path: Path) -> None:
    session = LakeSession(new_lake(tmp_path, DAY, assets_only=True, access={"register_in": "lake"}))
    with pytest.raises(
        SettingsError, match=r"its names are kept in the memory of a server.*No name was given"
    ):
        register_tables(session, ["orders"], "lake")
    with pytest.raises(
        SettingsError,
        match=r"has no table of others.*Nothing was recorded.*DESCRIBE DETAIL shop.orders",
    ):
        locate_table(session, "shop.orders")
    assert (
        "orders got no name in lake, `backfill-assets register` tries again"
        in register_new_table(session, "orders", -1)
    )
    assert register_new_table(session, "orders", 0) == "", "it has commits"
    candidate = replace(session.lake, shared=session.lake.root, own=frozenset({"orders"}))
    assert register_new_table(LakeSession(candidate), "orders", -1) == "", (
        "readers see nothing of a candidate"
    )


def test_locations_are_as_sparks_clients_write_them() -> None:
    assert location_of("s3://tables/a%20b") == "s3a://tables/a b"
    assert location_of("file:///lake/tables/t") == "file:///lake/tables/t"
