"""Another engine reads what we wrote: delta-rs and DuckDB, and fingerprints computed again in
Python, byte by byte.

Lives here: receipts against rows, without Spark. Does not live here: whether the rows are right
(`test_other_data`). The fingerprints inside the ledger `arrivals` are the same sums as those of
days, in decimal.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime

import duckdb
import pytest
from deltalake import DeltaTable

from backfill_assets.intake.ledger import ARRIVALS, FILES, QUARANTINE
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets_tests.end_to_end.cells import fingerprint
from backfill_assets_tests.end_to_end.worlds import World, land, land_bytes, make_world, span
from backfill_assets_tests.oracle import Row, Rules, delivery, unruly

START = date(2024, 2, 25)
RULES = Rules(START, datetime.fromisoformat("2024-03-06"), date(2024, 3, 7))
ROWS = [
    *unruly(9, START, days=9, rows=50),
    delivery(900, "2024-03-01 00:00", key="ключ-湖", entity="é" * 40),
]


@pytest.fixture(scope="module")
def world(spark: object, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = make_world(tmp_path_factory.mktemp("read"), RULES)
    land(made, "rows.jsonl", ROWS)
    land_bytes(made, "bad.jsonl", b'{"seq": 1}\nnot json\n')
    made.backfill(span(RULES))
    return made


def contracts(world: World) -> list[Contract]:
    _, pipeline = world.open()
    return [*pipeline.contracts, ARRIVALS, QUARANTINE]


def by_day(rows: Iterable[Row], column: str) -> dict[date, list[Row]]:
    days: dict[date, list[Row]] = defaultdict(list)
    for row in rows:
        days[row[column]].append(row)
    return days


def test_the_receipts_of_every_day_say_what_another_engine_reads(world: World) -> None:
    receipts = world.fingerprints()
    for contract in contracts(world):
        types = {c.name: c.type for c in contract.columns}
        rows = world.content(contract.name)
        read = {
            d: (len(r), fingerprint(r, types)) for d, r in by_day(rows, contract.day_column).items()
        }
        assert read, contract.name
        assert {d: f for d, f in receipts[contract.name].items() if f[0]} == read, contract.name
        assert {f for f in receipts[contract.name].values() if not f[0]} <= {(0, "0")}


def test_duckdb_counts_and_types_what_the_contracts_promise(world: World) -> None:
    db, receipts = duckdb.connect(), world.fingerprints()
    for contract in contracts(world):
        table = DeltaTable(str(world.root / "tables" / contract.name))
        db.register("t", table.to_pyarrow_dataset())
        counted = dict(
            db.sql(f"select {contract.day_column}, count(*) from t group by 1").fetchall()
        )
        assert counted == {d: n for d, (n, _) in receipts[contract.name].items() if n}
        nullable = {f.name: f.nullable for f in table.schema().fields}
        assert nullable == {c.name: c.nullable for c in contract.columns}
        db.unregister("t")
    files = DeltaTable(str(world.root / "tables" / FILES.name)).to_pyarrow_table().to_pylist()
    assert sum(f["rows"] for f in files) == len(ROWS) + 2
