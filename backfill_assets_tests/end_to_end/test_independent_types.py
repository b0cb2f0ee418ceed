"""Another engine reads columns of every type: NaN, -0.0, NULL within arrays, decimals with zeros at
their end.

Lives here: a lake of all types that a payload can have, from Parquet to staging, read by delta-rs
and DuckDB, its fingerprints computed again in Python. Does not live here: the ledgers
(`test_independent_reader`), and text files.
"""

import io
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.pipeline.tables import delivered
from backfill_assets_tests.end_to_end.cells import fingerprint
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land_bytes

pytestmark = [
    pytest.mark.on_spark("it reads types that Sail refuses by name"),
    pytest.mark.usefixtures("spark"),
]
NOON, PAST = (
    datetime(2024, 3, 1, 12, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)
# Per type three values that are easily mistaken; each stands once alone, and all of them with a
# NULL in an array.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "BOOLEAN": (True, False, True),
    "INT": (-(2**31), 0, 7),
    "BIGINT": (2**63 - 1, -1, 0),
    "DOUBLE": (float("nan"), -0.0, 1e-300),
    "DECIMAL(18,2)": (Decimal("10.00"), Decimal("-0.50"), Decimal("0.00")),
    "DECIMAL(38,0)": (Decimal(10**37), Decimal(0), Decimal(-100)),
    "STRING": ("", "é|-", "NULL"),
    "DATE": (date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)),
    "TIMESTAMP": (PAST, NOON, NOON.replace(year=2100)),
    "BINARY": (b"", b"\x00\xff|", b"-"),
}
ONE = {f"c{i}": kind for i, kind in enumerate(VALUES)}
MANY = {f"a{i}": f"ARRAY<{kind}>" for i, kind in enumerate(VALUES)}
PAYLOAD = {"who": "STRING", **ONE, **MANY}
DAYS = DayRange(date(2024, 3, 1), date(2024, 3, 2))


def rows() -> list[dict[str, Any]]:
    """Three rows of values, of which arrays are whole, empty and without anything, and one of NULLs
    alone."""
    made: list[dict[str, Any]] = []
    for n in range(4):
        arrays = [
            [*values, None] if n == 0 else [None] if n == 1 else [] if n == 2 else None
            for values in VALUES.values()
        ]
        cells = [values[n] if n < 3 else None for values in VALUES.values()]
        made.append(
            {
                "event_key": f"k{n}",
                "event_ts": NOON,
                "arrival_ts": NOON,
                "who": "w",
                **dict(zip(ONE, cells, strict=True)),
                **dict(zip(MANY, arrays, strict=True)),
            }
        )
    return made


def landed() -> bytes:
    instant = pa.timestamp("us", "UTC")
    fields = [("event_key", pa.string()), ("event_ts", instant), ("arrival_ts", instant)]
    fields += [(name, arrow_type(read_type(kind))) for name, kind in PAYLOAD.items()]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows(), pa.schema(fields)), sink)
    return sink.getvalue()


def world_of_types(root: Path) -> World:
    root.mkdir()
    payload = "".join(f'{name} = "{kind}"\n' for name, kind in PAYLOAD.items())
    (root / "lake.toml").write_text(
        f'start_date = 2024-03-01\n[source]\nfiles = "landing/**"\nformat = "parquet"\n'
        f'select = "event_key, event_ts, arrival_ts, {", ".join(PAYLOAD)}"\n'
        f'[source.payload]\n{payload}[features]\nentity = ["who"]\n{SHARED}'
    )
    return World(root, delivered)


def told(value: Any) -> Any:
    """A value that equals itself, and is told apart by its sign: for comparing what was landed with
    what is read."""
    if isinstance(value, list):
        return [told(v) for v in value]
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def test_another_engine_reads_values_and_fingerprints_of_every_type(tmp_path: Path) -> None:
    world = world_of_types(tmp_path / "lake")
    land_bytes(world, "all.parquet", landed())
    world.backfill(DAYS)
    assert world.content("quarantine") == []
    expected = {r["event_key"]: {n: told(r[n]) for n in PAYLOAD} for r in rows()}
    receipts, lake = world.fingerprints(), open_lake(world.root)
    for contract in (t.contract for t in delivered(lake.settings)):
        found = world.content(contract.name)
        assert {r["event_key"]: {n: told(r[n]) for n in PAYLOAD} for r in found} == expected
        types = {c.name: c.type for c in contract.columns}
        assert receipts[contract.name][DAYS.start] == (4, fingerprint(found, types))
        assert audit_table(lake, contract)[DAYS.start].fingerprint == fingerprint(found, types)
        assert duckdb_reads(world, contract.name) == {
            "k0": (True, 4),
            "k1": (False, 1),
            "k2": (False, 0),
            "k3": (False, 0),
        }


def duckdb_reads(world: World, table: str) -> dict[str, tuple[bool, int]]:
    """By key: whether the DOUBLE is NaN, and how many elements its array has (0 where there is
    none)."""
    numbers, db = f"c{list(VALUES).index('DOUBLE')}", duckdb.connect()
    db.register("t", DeltaTable(str(world.root / "tables" / table)).to_pyarrow_dataset())
    array = numbers.replace("c", "a")
    asked = f"SELECT event_key, coalesce(isnan({numbers}), false), coalesce(len({array}), 0) FROM t"
    return {key: (nan, length) for key, nan, length in db.sql(asked).fetchall()}
