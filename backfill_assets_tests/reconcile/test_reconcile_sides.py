"""Sides of a reconciliation: every way to name one is read, and one that cannot be read is named.
Not here: matching rows (`test_reconcile`), a PostgreSQL server
(`end_to_end.test_reconcile_postgres`)."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.reading.matching import DIFFERS
from backfill_assets.reading.sql import own_engine
from backfill_assets.reconcile.reconcile import ReconcileRequest, reconcile
from backfill_assets.reconcile.reconcile_sides import open_side
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")  # an engine of DuckDB's, or a lake, for each test
PIPELINE = Pipeline((), {})


COLUMNS = Column("day", "DATE", "d"), Column("key", "STRING", "k"), Column("n", "BIGINT", "n")
CONTRACT = Contract("t", "t", COLUMNS, "day", ("key",), ())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of settings only, below the test's folder."""
    return bare_lake(tmp_path / "lake")


def test_a_table_is_held_against_a_version_a_time_a_write_and_a_query(lake: Lake) -> None:
    one = [{"day": day(0), "key": "a", "n": 1}, {"day": day(0), "key": "b", "n": 2}]
    publish_by_hand(lake, CONTRACT, one)
    publish_by_hand(lake, CONTRACT, [*one[:1], {"day": day(0), "key": "b", "n": 3}], digest="two")
    pipeline = Pipeline((Table(CONTRACT),), {})
    write = next(c.receipt.write_id for c in lake.store.commits("t") if c.receipt)
    for right in ("t@1", f"t@write:{write}"):
        report = reconcile(lake, pipeline, ReconcileRequest("t", right))
        assert (report.key, report.total(DIFFERS)) == (("day", "key"), 1)
    assert reconcile(lake, pipeline, ReconcileRequest("t", "t@2999-01-01")).mismatches == 0
    query = "duckdb:SELECT day, key, n FROM t"
    assert reconcile(lake, pipeline, ReconcileRequest("t", query)).mismatches == 0


@pytest.mark.parametrize(
    ("right", "words"),
    [
        ("nowhere.parquet", "it is no table"),
        ("duckdb:DELETE FROM t", "it is DELETE"),
        ("duckdb:SELECT x FROM nowhere", "nowhere does not exist"),
        ("duckdb:WITH w AS (SELECT 1) SELECT 'a' AS other", "it has no column day, key"),
        ("duckdb:WITH w AS (COPY (SELECT 1) TO 'stolen.csv') SELECT * FROM w", "it would write"),
        ("t@7", "it has no version 7"),
        ("t@yesterday", "no version, time, write or snapshot"),
        ("t@write:zz", "it has no write"),
        ("t@snapshot:march", "no such snapshot"),
        ("lake:nowhere#t", "nowhere"),
        ("duckdb:SELECT * FROM read_xlsx('a.xlsx')", "fetches no extension"),
        ("duckdb:SELECT * FROM 's3://bucket/a.parquet'", "fetches no extension"),
    ],
)
def test_a_side_that_cannot_be_read_is_named(lake: Lake, right: str, words: str) -> None:
    publish_by_hand(lake, CONTRACT, [{"day": day(0), "key": "a", "n": 1}])
    with pytest.raises(BackfillError, match=words):
        reconcile(lake, Pipeline((Table(CONTRACT),), {}), ReconcileRequest("t", right))


def test_a_file_that_changes_while_it_is_read_is_an_error(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "golden.csv"
    file.write_text("id\n1\n")
    with own_engine(lake) as engine:
        side = open_side(engine, lake, PIPELINE, str(file))
        side.refuse_changed()
        file.write_text("id\n1\n2\n")
        with pytest.raises(BackfillError, match="changed while it was read"):
            side.refuse_changed()
        file.unlink()
        with pytest.raises(BackfillError, match="is gone"):
            side.refuse_changed()


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A table of another program, laid out by two columns, of which one has a NULL and one a
    blank."""
    folder = tmp_path / "delta table"
    rows = {"day": [day(0), day(1), None], "kind": ["a b", "x/y", "ü"], "n": [1, 2, 3]}
    schema = pa.schema({"day": pa.date32(), "kind": pa.string(), "n": pa.int64()})
    write_deltalake(folder, pa.table(rows, schema), partition_by=["day", "kind"])
    return folder


def test_a_commit_while_a_delta_table_is_read_is_not_seen(lake: Lake, delta: Path) -> None:
    with own_engine(lake) as engine:
        side = open_side(engine, lake, PIPELINE, str(delta))
        write_deltalake(delta, pa.table({"day": [day(5)], "kind": ["z"], "n": [9]}), mode="append")
        found = engine.execute(f"SELECT day, kind, n FROM ({side.select}) ORDER BY n").fetchall()
    assert found == [(day(0), "a b", 1), (day(1), "x/y", 2), (None, "ü", 3)]
    assert side.name.endswith("version 0")


def test_a_delta_table_that_its_plain_files_do_not_give_is_named(lake: Lake, delta: Path) -> None:
    (log,) = (delta / "_delta_log").glob("*.json")
    protocol = '"minReaderVersion":3,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]'
    log.write_text(log.read_text().replace('"minReaderVersion":1', protocol))
    with own_engine(lake) as engine, pytest.raises(BackfillError, match="It was not read"):
        open_side(engine, lake, PIPELINE, str(delta))


def test_the_kept_sql_of_every_kind_of_side_gives_the_same_counts_by_hand(
    lake: Lake, delta: Path, tmp_path: Path
) -> None:
    rows = [{"day": day(n), "key": "a", "n": n + 1} for n in (0, 1)]
    other = bare_lake(tmp_path / "other")
    for made in (lake, other):
        publish_by_hand(made, CONTRACT, rows)
    pq.write_table(pa.table({"day": [day(0), day(9)], "n": [1, 2]}), tmp_path / "some.parquet")
    query = "duckdb:SELECT day, n FROM t; -- all"
    for right in (
        "t@1",
        f"lake:{other.root}#t@1",
        str(delta),
        str(tmp_path / "some.parquet"),
        query,
    ):
        asked = ReconcileRequest(query, right, ("day",), columns=("n",), sample=2)
        report = reconcile(lake, Pipeline((Table(CONTRACT),), {}), asked)
        with duckdb.connect() as by_hand:
            by_hand.execute(report.sql)
            found = dict(by_hand.execute('SELECT "@kind", count(*) FROM off GROUP BY 1').fetchall())
        assert found == {k: report.total(k) for d in report.days for k in d.kinds}
