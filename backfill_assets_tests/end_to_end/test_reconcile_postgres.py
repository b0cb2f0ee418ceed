"""A table of the lake against a table of a real PostgreSQL server, which reads only and keeps its
password to itself.

Tested here: the side `postgresql://…`. Not tested here: matching rows
(`reconcile.test_reconcile`).
"""

import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import duckdb
import pytest

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.reading.matching import DIFFERS, MISSING_LEFT, MISSING_RIGHT
from backfill_assets.reconcile.reconcile import ReconcileRequest, reconcile
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.postgres import execute, postgres_server

SPENT = Column("spent", "DECIMAL(18,2)", "s", nullable=True)
TOTALS = Contract(
    "totals",
    "t",
    (Column("day", "DATE", "d"), Column("customer", "STRING", "c"), SPENT),
    "day",
    ("customer",),
    (),
)
PIPELINE = Pipeline((Table(TOTALS),), {})
DAY = date(2024, 3, 1)
GOLDEN = (
    "CREATE TABLE golden (day date, customer text, spent numeric(18, 2))",
    "INSERT INTO golden VALUES ('2024-03-01', 'a', 1), ('2024-03-01', 'b', 2.01), ('2024-03-01', "
    "'c', NULL)",
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server of this test's own."""
    with postgres_server() as found:
        execute(found, *GOLDEN)
        yield found


def test_a_table_is_reconciled_with_a_table_and_a_query_of_postgres(
    address: str, tmp_path: Path
) -> None:
    lake = bare_lake(tmp_path)
    rows = [
        {"day": DAY, "customer": c, "spent": s}
        for c, s in (("a", 1), ("b", 2), ("c", None), ("d", 4))
    ]
    publish_by_hand(lake, TOTALS, rows)
    report = reconcile(lake, PIPELINE, ReconcileRequest("totals", f"{address}#golden"))
    assert {k: report.total(k) for d in report.days for k in d.kinds} == {
        DIFFERS: 1,
        MISSING_RIGHT: 1,
    }
    assert "secret" not in str(report.to_dict())
    query = "SELECT day, customer, spent FROM golden UNION ALL SELECT '2024-03-01', 'd', 4"
    near = ReconcileRequest("totals", f"{address}#{query}", tolerance={"spent": "0.01"})
    assert reconcile(lake, PIPELINE, near).mismatches == 0


def test_the_kept_sql_runs_over_what_psql_copied(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, TOTALS, [{"day": DAY, "customer": c, "spent": 1} for c in ("a", "b")])
    cells = "('2024-03-01', 'a', 1.50), ('2024-03-01', '', NULL)"
    execute(
        address,
        "CREATE TABLE withdrawals (day date, customer text, spent numeric)",
        f"INSERT INTO withdrawals VALUES {cells}",
    )
    report = reconcile(lake, PIPELINE, ReconcileRequest("totals", f"{address}#withdrawals"))
    (first,) = [line for line in report.sql.splitlines() if line.startswith("-- first: psql")]
    monkeypatch.chdir(tmp_path)
    copy = first.partition("-c ")[2].strip('"')
    subprocess.run(["psql", address, "-c", copy], check=True, stdout=subprocess.DEVNULL)
    with duckdb.connect() as by_hand:
        by_hand.execute(report.sql)
        found = dict(by_hand.execute('SELECT "@kind", count(*) FROM off GROUP BY 1').fetchall())
    assert (
        found
        == {k: report.total(k) for d in report.days for k in d.kinds}
        == {DIFFERS: 1, MISSING_RIGHT: 1, MISSING_LEFT: 1}
    )
