"""Wider types over kept days: the same rows and receipts, in one commit of schema and files.

Tested here: `lake.widening` on real tables, without an engine. Not tested here: days that are current afterwards
(`operations.test_widening`).
"""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.core.column_types import read_type
from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.errors import Altered
from backfill_assets.core.receipts import Built, Receipt
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.data_files import columns
from backfill_assets.lake.home import Lake
from backfill_assets.lake.inspection import inspect
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.restore import RestoreRequest, prepare_restore, restore_partitions
from backfill_assets.lake.widening import is_wider, widen, wider_columns
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")


def typed(number: str, price: str, marks: str) -> Contract:
    own = tuple(replace(c, type=number) if c.name == "value" else c for c in STAGING.columns)
    more = Column("price", price, "a price", nullable=True), Column("marks", marks, "some marks", nullable=True)
    return replace(STAGING, columns=(*own, *more))


NARROW, WIDE = typed("INT", "DECIMAL(9,2)", "ARRAY<INT>"), typed("BIGINT", "DECIMAL(20,2)", "ARRAY<BIGINT>")
SAID = Receipt("", "staging", "widen", {})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Four days of narrow columns, of which one was written twice and one has no price."""
    made = bare_lake(tmp_path)
    for number, price in enumerate((Decimal("1.50"), Decimal("-99.99"), None, Decimal(7), Decimal(8))):
        row = {"entity": "A", "value": (1 << 31) - 1, "price": price, "marks": [1, None], "event_date": day(number % 4)}
        publish_by_hand(made, NARROW, [row], digest=str(number))
    return made


@pytest.mark.parametrize(
    ("there", "wanted", "wider"),
    [
        ("INT", "BIGINT", True), ("DECIMAL(9,2)", "DECIMAL(20,2)", True), ("ARRAY<INT>", "ARRAY<BIGINT>", True),
        ("BIGINT", "INT", False), ("DATE", "TIMESTAMP", False), ("DECIMAL(9,2)", "DECIMAL(20,4)", False),
        ("INT", "DOUBLE", False), ("INT", "INT", False), ("DECIMAL(9,2)", "DECIMAL(8,2)", False),
    ],
)  # fmt: skip
def test_a_type_is_wider_if_it_holds_every_value_with_the_same_text(there: str, wanted: str, wider: bool) -> None:
    assert is_wider(read_type(wanted), read_type(there)) is wider


def test_all_files_and_the_schema_change_in_one_commit_and_no_fingerprint_does(lake: Lake) -> None:
    view, held = lake.store.view("staging", "event_date"), audit_table(lake, NARROW)
    assert {n: str(kinds[1]) for n, kinds in wider_columns(lake, WIDE).items()} == {
        "value": "BIGINT", "price": "DECIMAL(20,2)", "marks": "ARRAY<BIGINT>",
    }  # fmt: skip
    assert widen(lake, WIDE, SAID) == view.version + 1
    after = lake.store.view("staging", "event_date")
    assert (after.stamps, after.foreign) == (view.stamps, view.foreign)
    assert (columns(lake, "staging"), wider_columns(lake, WIDE)) == ({c.name: c.type for c in WIDE.columns}, {})
    assert {d: p.fingerprint for d, p in audit_table(lake, WIDE).items()} == {d: p.fingerprint for d, p in held.items()}
    found = inspect(lake, WIDE)
    assert (found.absent, found.altered, found.torn, found.lost) == ((), (), (), 0)
    path = str(lake.table_path("staging"))
    assert DeltaTable(path).to_pyarrow_table().num_rows == DeltaTable(path, view.version).to_pyarrow_table().num_rows


def test_days_are_written_in_the_wider_types_from_then_on(lake: Lake) -> None:
    widen(lake, WIDE, SAID)
    row = {"entity": "A", "value": 1 << 40, "price": Decimal(10**15), "marks": [1 << 40], "event_date": day(1)}
    publish_by_hand(lake, WIDE, [row], digest="large")
    values = DeltaTable(str(lake.table_path("staging"))).to_pyarrow_table().column("value").to_pylist()
    assert sorted(values) == [(1 << 31) - 1] * 3 + [1 << 40]


def test_a_day_of_narrow_files_is_put_back_by_a_cast_of_them(lake: Lake) -> None:
    before = lake.store.view("staging", "event_date")
    old = next(c.version for c in lake.store.commits("staging") if c.names(day(0)))
    widen(lake, WIDE, SAID)
    asked = RestoreRequest(WIDE, {day(0): old}, {day(0): before.stamps[day(0)].version})
    assert "cast to BIGINT" in str(prepare_restore(lake, asked))
    version = restore_partitions(lake, asked, Provenance("rollback"))
    held = lake.store.view("staging", "event_date").stamps[day(0)]
    assert (held.version, held.entry.built, held.entry.rows) == (version, Built.HELD, 1)
    audited = audit_table(lake, WIDE)[day(0)]
    assert (audited.fingerprint, audited.rows) == (held.entry.fingerprint, held.entry.rows)
    assert held.entry.fingerprint != before.stamps[day(0)].entry.fingerprint, "the day has its first rows again"
    found = inspect(lake, WIDE)
    assert (found.absent, found.altered, found.torn, found.lost) == ((), (), (), 0)
    assert not [*(lake.root / ".staging" / "staging").iterdir()]
    assert restore_partitions(lake, replace(asked, seen={day(0): version or 0}), Provenance("rollback")) is None


def test_where_a_file_is_altered_nothing_is_written(lake: Lake) -> None:
    version = lake.store.view("staging", "event_date").version
    next(lake.table_path("staging").rglob(f"event_date={day(2)}/*.parquet")).write_bytes(b"PAR1")
    with pytest.raises(Altered):
        widen(lake, WIDE, SAID)
    assert lake.store.view("staging", "event_date").version == version
    assert wider_columns(lake, WIDE), "the next one goes on"


def test_a_table_of_no_rows_gets_the_wider_types(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    with lake.store.lock("staging"):
        lake.store.replace_days(NARROW, None, (), replace(SAID, write_id="first"))
    widen(lake, WIDE, SAID)
    assert columns(lake, "staging")["value"] == "BIGINT"
