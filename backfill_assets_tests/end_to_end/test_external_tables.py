"""Daily tables that others write, as inputs of own tables: which days become stale when they change
there.

Tested here: the way from a change in the others' table to the rebuilt day, by the doors that users
take. Not tested here: what one look finds (`foreign/test_observing.py`), and what can be read of a
table (`foreign/test_external.py`).
"""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from backfill_assets.cli.app import app
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.runs import RANGE_END, RANGE_START
from backfill_assets.dagster.adapter.ticks import SCAN, landing_tick, late_data_tick
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.foreign.observing import observe_table
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.place.choice import place_at, place_of_others
from backfill_assets.kernel.tables.home import Lake, read_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.pipeline.chosen import chosen_pipeline, tables_at
from backfill_assets.reading.opening import open_lake
from backfill_assets.testing import new_lake, rows_of
from backfill_assets_tests.lakes import SHARED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

D1, D2, D3 = date(2024, 3, 1), date(2024, 3, 2), date(2024, 3, 3)
Command = Callable[..., Any]
TRAILING = '''"""Money per customer over two days."""

from backfill_assets import Column, Contract, Input, Table
from pyspark.sql import functions as F

SPENT = Contract(
    "spent",
    "Money per customer, the day and the one before.",
    (Column("customer", "STRING", "whose"), Column("day", "DATE", "when"), Column("amount", "BIGINT", "how much")),
    day_column="day",
    key=("customer",),
    inputs=(Input("orders", before=1),),
)


def spent(frames, chunk):
    orders = frames["orders"]
    later = orders.withColumn("order_date", F.date_add("order_date", 1))
    both = orders.union(later).groupBy("customer", F.col("order_date").alias("day"))
    days = both.agg(F.sum("amount").alias("amount"))
    return days.where(F.col("day").between(F.lit(chunk.days.start), F.lit(chunk.days.last)))


def tables(settings):
    return [Table(SPENT, spent)]
'''


def orders(*rows: tuple[date | None, str, int]) -> pa.Table:
    days, customers, amounts = zip(*rows, strict=True)
    return pa.table(
        {
            "order_date": pa.array(days, pa.date32()),
            "customer": list(customers),
            "amount": pa.array(amounts, pa.int64()),
        }
    )


FIRST = orders((D1, "ada", 1), (D1, "ben", 2), (D2, "ada", 4), (D3, "ben", 8))


everywhere = pytest.mark.parametrize(
    "place",
    [("folder", ["order_date"]), ("folder", []), ("bucket", ["order_date"])],
    ids=["partitioned by the day", "not partitioned", "with the lake in a bucket"],
    indirect=True,
)


@pytest.fixture(
    params=[("folder", ["order_date"]), ("folder", [])],
    ids=["partitioned by the day", "not partitioned"],
)
def place(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The others' table."""
    where, laid_out = request.param
    top = (
        request.getfixturevalue("bucket_address").removesuffix("/lake")
        if where == "bucket"
        else tmp_path
    )
    write_deltalake(f"{top}/warehouse/orders", FIRST, partition_by=laid_out or None)
    return f"{top}/warehouse/orders"


@pytest.fixture
def lake(
    tmp_path: Path,
    place: str,
    spark: "SparkSession",
    storages: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Lake:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "pipeline.py").write_text(TRAILING)
    made = new_lake(
        tmp_path / "lake",
        D1,
        assets_only=True,
        spark=dict(SHARED),
        pipeline={"tables": "pipeline.py:tables"},
        tables={"orders": {"external": "../warehouse/orders", "day": "order_date"}},
    )
    if "://" not in place:
        return made
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    root = local_root(place.replace("warehouse/orders", "lake"))
    for name in (FILE_NAME, "pipeline.py"):
        place_at(root).write(name, (made.root / name).read_bytes())
    return read_lake(root)


@pytest.fixture
def command(lake: Lake) -> Command:
    def run(*words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, ["--lake", str(lake.root), *words])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if "--json" in words else done.output

    return run


def tree(place: str) -> dict[str, str]:
    """The digest of every file of the others' table."""
    return {name: place_of_others(place).sha256(name) for name in place_of_others(place).below()}


def spent(lake: Lake, day: date) -> dict[str, int]:
    return {row["customer"]: row["amount"] for row in rows_of(lake, "spent", day)}


@everywhere
def test_exactly_the_days_made_from_a_changed_day_are_made_again(
    lake: Lake, place: str, command: Command
) -> None:
    command("catch-up")
    assert [spent(lake, d) for d in (D1, D2, D3)] == [
        {"ada": 1, "ben": 2},
        {"ada": 5, "ben": 2},
        {"ada": 4, "ben": 8},
    ]
    DeltaTable(place).update(
        updates={"amount": "5"}, predicate="customer = 'ada' AND order_date = '2024-03-02'"
    )
    assert command("scan", "--json")["external"]["orders"] == {
        "version": 1,
        "days": [str(D2)],
        "rows_without_day": 0,
    }
    runs = command("catch-up", "--json")["runs"]
    assert [(r["days"], [t["table"] for t in r["tables"]]) for r in runs] == [
        (f"{D2}..{D3}", ["spent"])
    ]
    assert [spent(lake, d) for d in (D1, D2, D3)] == [
        {"ada": 1, "ben": 2},
        {"ada": 6, "ben": 2},
        {"ada": 5, "ben": 8},
    ]


def test_a_backfill_and_a_plan_look_first(lake: Lake, place: str, command: Command) -> None:
    days = ("--from", str(D1), "--to", str(D3))
    assert "orders: version 0 there" in command("backfill", *days, "--tables", "spent")
    DeltaTable(place).update(
        updates={"amount": "5"}, predicate="customer = 'ada' AND order_date = '2024-03-02'"
    )
    plan = command("plan", *days, "--chunk", "2d", "--json", "--note", "n")
    command("run", plan["id"])
    assert [spent(lake, d) for d in (D1, D2, D3)] == [
        {"ada": 1, "ben": 2},
        {"ada": 6, "ben": 2},
        {"ada": 5, "ben": 8},
    ]
    assert "looks whether others have written them" in command(
        "backfill", "--from", "2024-03-09", "--to", "2024-03-09", "--tables", "spent", code=1
    )


def test_a_compaction_there_makes_no_day_stale(lake: Lake, place: str, command: Command) -> None:
    write_deltalake(place, orders((D3, "cid", 16)), mode="append")
    command("catch-up")
    DeltaTable(place).optimize.compact()
    DeltaTable(place).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert command("scan", "--json")["external"]["orders"]["days"] == []
    assert "Nothing to do" in command("catch-up")
    assert {row["customer"] for row in rows_of(lake, "orders", D3)} == {"ben", "cid"}


@everywhere
def test_no_command_touches_it_and_those_that_would_refuse_it_by_name(
    lake: Lake, place: str, command: Command
) -> None:
    command("catch-up")
    DeltaTable(place).update(
        updates={"amount": "5"}, predicate="customer = 'ada' AND order_date = '2024-03-02'"
    )
    command("catch-up")
    before, days = tree(place), ("--from", str(D1), "--to", str(D3))
    theirs = "others write it, in"
    assert theirs in command("backfill", *days, "--tables", "orders", code=1)
    assert theirs in command("plan", *days, "--tables", "orders", code=1)
    assert theirs in command(
        "rollback", "--table", "orders", "--to-version", "1", *days, "--yes", code=1
    )
    assert "written by others" in command("candidate", "create", "v2", "--tables", "orders", code=1)
    assert theirs in command("maintain", "--tables", "orders", "--yes", code=1)
    command("maintain", "--yes")
    assert "all is well" in command("verify", "--deep")
    assert "orders" in command("snapshot", "create", "march", *days)
    assert tree(place) == before
    DeltaTable(place).delete()
    kept = open_lake(lake.root).snapshot("march").table("orders").arrow()
    assert sorted(kept.column("amount").to_pylist()) == [1, 2, 5, 8]


@everywhere
def test_readers_days_are_put_back_and_a_candidate_reads_what_the_lake_saw(
    lake: Lake, place: str, command: Command
) -> None:
    command("catch-up")
    DeltaTable(place).update(
        updates={"amount": "5"}, predicate="customer = 'ada' AND order_date = '2024-03-02'"
    )
    command("catch-up")
    command(
        "rollback",
        "--table",
        "spent",
        "--to-version",
        "1",
        "--from",
        str(D2),
        "--to",
        str(D2),
        "--yes",
    )
    assert (spent(lake, D2), spent(lake, D3)) == ({"ada": 5, "ben": 2}, {"ada": 5, "ben": 8})
    command("release", "spent", "--from", str(D2), "--to", str(D2), "--yes")
    command("candidate", "create", "v2", "--tables", "spent")
    candidate = lake.root / ".candidates" / "v2"
    done = CliRunner().invoke(app, ["--lake", str(candidate), "catch-up"])
    assert done.exit_code == 0, done.output
    assert spent(
        Lake(candidate, lake.settings, shared=lake.root, own=frozenset({"spent"})), D2
    ) == {"ada": 6, "ben": 2}


def test_sensors_request_what_follows_and_each_changed_day_is_observed(
    lake: Lake, place: str, command: Command
) -> None:
    command("catch-up")
    defs = assemble(lake.root, tables_at(lake.root))
    context, key = LakeContext(lake.root, tables_at(lake.root)), dg.AssetKey("orders")
    with dg.DagsterInstance.ephemeral() as instance:
        late_data_tick(instance, context, utc_now())
        assert landing_tick(instance, context, utc_now()).requests == []
        DeltaTable(place).update(
            updates={"amount": "5"}, predicate="customer = 'ada' AND order_date = '2024-03-02'"
        )
        (asked,) = landing_tick(instance, context, utc_now()).requests
        assert asked.job_name == SCAN
        assert defs.resolve_job_def(SCAN).execute_in_process(instance=instance).success
        assert landing_tick(instance, context, utc_now()).requests == []
        (rebuild,) = late_data_tick(instance, context, utc_now()).requests
        assert (rebuild.tags[RANGE_START], rebuild.tags[RANGE_END]) == (str(D2), str(D3))
        late_data_tick(instance, context, utc_now())
        observed = [
            str(r.partition_key) for r in instance.fetch_observations(key, limit=10).records
        ]
    assert sorted(observed) == [str(D1), str(D2), str(D2), str(D3)]
    assert defs.resolve_asset_graph().get(dg.AssetKey("spent")).parent_keys == {key}


@everywhere
def test_an_entity_is_forgotten_once_others_removed_it(
    lake: Lake, place: str, command: Command, tmp_path: Path
) -> None:
    settings = lake.place.read(FILE_NAME) + b'[features]\nentity = ["customer"]\n'
    lake.place.write(FILE_NAME, settings)
    command("catch-up")
    told = command("forget", "ada", "--note", "asked for", "--yes", code=1)
    assert "orders, which others write, has 2 row(s) of it, and they come back" in told
    DeltaTable(place).delete("customer = 'ada'")
    command("catch-up")
    command("forget", "ada", "--note", "asked for", "--yes")
    assert [spent(lake, d) for d in (D1, D2, D3)] == [{"ben": 2}, {"ben": 2}, {"ben": 8}]
    held = [
        n
        for n in lake.place.below("tables")
        if n.endswith(".parquet") and b"ada" in lake.place.read(n)
    ]
    assert held == []
    assert [p for p in (tmp_path / "state").rglob("*.parquet") if b"ada" in p.read_bytes()] == []


NINE_ORDERS = (
    "SELECT date_add(DATE'2024-03-01', CAST(id % 3 AS INT)), id, "
    "timestamp_seconds(1709251200 + id), array('x') FROM range(9)"
)
MERGE_OF_ORDER_4 = (
    "MERGE INTO {} t USING (SELECT 4L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET "
    "tags = array('y')"
)
SAME_ROWS_OF_D3 = (
    "INSERT INTO {} REPLACE WHERE day = DATE'2024-03-03' SELECT * FROM {} WHERE day = "
    "DATE'2024-03-03'"
)


def orders_of_second_day(lake: Lake) -> set[tuple[object, ...]]:
    """Id, first tag and seconds of each order of D2, read by the lake's engine."""
    frame = LakeSession(lake).read("orders", lake.store.head("orders"), "day", [D2])
    rows = frame.selectExpr("id", "tags[0]", "unix_timestamp(at)").collect()
    return {tuple(row) for row in rows}


@pytest.mark.users_do
def test_what_spark_writes_is_followed_by_its_days(
    tmp_path: Path, spark: "SparkSession", storages: None
) -> None:
    table = f"delta.`{tmp_path / 'orders'}`"

    def look(statement: str) -> list[str]:
        """Run the statement on the table `{}`; the days that changed by it."""
        spark.sql(statement.replace("{}", table)).collect()
        pipeline = chosen_pipeline(made)
        return [str(d) for d in observe_table(made, pipeline.contracts, pipeline.contracts[0]).days]

    spark.sql(
        f"CREATE TABLE {table} (day DATE, id BIGINT, at TIMESTAMP, tags ARRAY<STRING>) USING delta"
    ).collect()
    of = {"external": "../orders", "day": "day"}
    made = new_lake(
        tmp_path / "lake", D1, assets_only=True, spark=dict(SHARED), tables={"orders": of}
    )
    assert look(f"INSERT INTO {{}} {NINE_ORDERS}") == [str(D1), str(D2), str(D3)]
    assert look(MERGE_OF_ORDER_4) == [str(D2)]
    assert look("OPTIMIZE {}") == []
    assert look("UPDATE {} SET tags = array('u') WHERE id = 3") == [str(D1)]
    assert look("DELETE FROM {} WHERE id = 2") == [str(D3)]
    assert look("UPDATE {} SET tags = array('x') WHERE id IN (3, 6)") == [str(D1)]
    assert look(SAME_ROWS_OF_D3) == [], "the rows are written again as they were"
    assert look("ALTER TABLE {} ADD COLUMNS (note STRING)") == []
    assert look(
        "INSERT INTO {} SELECT DATE'2024-03-02', 9L, timestamp_seconds(1709251209), array('x'), 'n'"
    ) == [str(D2)]
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    assert look("VACUUM {} RETAIN 0 HOURS") == []
    assert orders_of_second_day(made) == {
        (1, "x", 1709251201),
        (4, "y", 1709251204),
        (7, "x", 1709251207),
        (9, "x", 1709251209),
    }
    _assert_vectors_and_names_are_read(made, look)


def _assert_vectors_and_names_are_read(made: Lake, look: Callable[[str], list[str]]) -> None:
    """Deletion vectors move their days alone; a renamed column moves all of them."""
    assert look("ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')") == []
    assert look("DELETE FROM {} WHERE id = 5") == [str(D3)]
    assert look("UPDATE {} SET tags = array('z') WHERE id = 1") == [str(D2)]
    assert (1, "z", 1709251201) in orders_of_second_day(made)
    assert look("ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')") == []
    assert look("ALTER TABLE {} RENAME COLUMN at TO ordered_at") == [str(D1), str(D2), str(D3)]
    frame = LakeSession(made).read("orders", made.store.head("orders"), "day", [D2])
    assert {row.id for row in frame.where("ordered_at IS NOT NULL").collect()} == {1, 4, 7, 9}
