"""Sides of a reconciliation: every way to name one is read, and one that cannot be read is named.

Tested here: `operations.reconcile_sides`. Not tested here: matching rows (`test_reconcile`), a PostgreSQL server
(`end_to_end.test_reconcile_postgres`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table
from backfill_assets.operations.reconcile import reconcile
from backfill_assets.operations.reconcile_report import DIFFERS, ReconcileRequest
from backfill_assets.operations.reconcile_sides import open_side
from backfill_assets.operations.sql import own_engine
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.quick
PIPELINE = Pipeline((), {})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path / "lake")


COLUMNS = Column("day", "DATE", "d"), Column("key", "STRING", "k"), Column("n", "BIGINT", "n")
CONTRACT = Contract("t", "t", COLUMNS, "day", ("key",), ())


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
        ("t@write:zz", "no such write"),
        ("t@snapshot:march", "no such snapshot"),
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


def test_another_lake_and_a_delta_folder_are_sides(lake: Lake, tmp_path: Path) -> None:
    row = {"day": day(0), "key": "a", "n": 1}
    other, pipeline = bare_lake(tmp_path / "other"), Pipeline((Table(CONTRACT),), {})
    for made in (lake, other):
        publish_by_hand(made, CONTRACT, [row])
    sides = (f"lake:{other.root}#t", str(other.table_path("t")))
    reports = [reconcile(lake, pipeline, ReconcileRequest("t", s), lambda _: (other, pipeline)) for s in sides]
    assert [(r.mismatches, r.rows) for r in reports] == [(0, (1, 1))] * 2
