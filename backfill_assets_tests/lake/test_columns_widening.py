"""A column's type becomes a wider one with the next write; older files keep theirs, and every reader casts.

Tested here: `lake.columns` through commits on real tables, without an engine: rows, fingerprints, restores, files
written again. Not tested here: engines' readers (`test_data_files_types`), whole loads
(`end_to_end.test_changed_payload`).
"""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.lake.audit import audit_as_written, audit_table
from backfill_assets.lake.columns import REASON
from backfill_assets.lake.data_files import columns
from backfill_assets.lake.home import Lake
from backfill_assets.lake.inspection import inspect
from backfill_assets.operations.doctor_tables import Level, examine_rows
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")

LARGEST, LARGE = (1 << 31) - 1, 1 << 40


def typed(number: str, price: str, marks: str) -> Contract:
    own = tuple(replace(c, type=number) if c.name == "value" else c for c in STAGING.columns)
    more = Column("price", price, "a price", nullable=True), Column("marks", marks, "some marks", nullable=True)
    return replace(STAGING, columns=(*own, *more))


NARROW, WIDE = typed("INT", "DECIMAL(9,2)", "ARRAY<INT>"), typed("BIGINT", "DECIMAL(20,2)", "ARRAY<BIGINT>")


def row(number: int, value: int, price: Decimal | None) -> dict[str, Any]:
    return {"entity": "A", "value": value, "price": price, "marks": [value, None], "event_date": day(number)}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Four days of narrow columns, of which one was written twice and one has no price; then one of wide columns."""
    made = bare_lake(tmp_path)
    for number, price in enumerate((Decimal("1.50"), Decimal("-99.99"), None, Decimal(7), Decimal(8))):
        publish_by_hand(made, NARROW, [row(number % 4, LARGEST, price)], digest=str(number))
    publish_by_hand(made, WIDE, [row(1, LARGE, Decimal(10**15))], digest="large")
    return made


def fingerprints(lake: Lake) -> dict[Any, str]:
    latest = lake.store.view("staging", "event_date").latest
    return {d: r.entry.fingerprint for d, r in latest.items()}


def test_the_next_write_widens_the_schema_and_no_older_file_or_receipt_changes(lake: Lake) -> None:
    view = lake.store.view("staging", "event_date")
    assert columns(lake, "staging") == {c.name: c.type for c in WIDE.columns}
    assert (len(view.latest), view.foreign) == (4, frozenset())
    notes = [c.receipt.note for c in lake.store.commits("staging") if c.receipt and c.receipt.reason == REASON]
    assert notes == ["widens to value BIGINT, price DECIMAL(20,2), marks ARRAY<BIGINT>"]
    opened = DeltaTable(str(lake.table_place("staging").local()))
    assert opened.metadata().partition_columns == ["event_date"]
    assert {f.name: f.nullable for f in opened.schema().fields} == {c.name: c.nullable for c in WIDE.columns}
    before = view.version
    publish_by_hand(lake, WIDE, [row(2, LARGE, None)], digest="again")
    assert lake.store.view("staging", "event_date").version == before + 1, "once is enough"


def test_every_audit_finds_what_the_receipts_say(lake: Lake) -> None:
    assert {d: p.fingerprint for d, p in audit_table(lake, WIDE).items()} == fingerprints(lake)
    assert {d: p.fingerprint for d, p in audit_as_written(lake, WIDE, [*fingerprints(lake)]).items()} == fingerprints(
        lake
    )
    found = inspect(lake, WIDE, read=True, deep=True)
    assert (found.absent, found.altered, found.edited, found.lost) == ((), (), (), 0)
    assert examine_rows(lake, WIDE, lake.store.view("staging", "event_date")).level is Level.OK
