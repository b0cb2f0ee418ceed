"""A contract that changes over a table that has rows: new columns are NULL there, lost ones stay, types do not change.

Tested here: `lake.columns` through commits on real tables, without an engine. Not tested here: whole loads over it
(`end_to_end.test_changed_payload`).
"""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill_assets.core.contracts import Column
from backfill_assets.core.errors import ContractBroken
from backfill_assets.lake.audit import audit_as_written, audit_table
from backfill_assets.lake.columns import REASON
from backfill_assets.lake.home import Lake
from backfill_assets.operations.doctor_tables import Level, examine_rows
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")
COUNTRY = Column("country", "STRING", "where", nullable=True)
WIDER = replace(STAGING, columns=(*STAGING.columns[:2], COUNTRY, STAGING.columns[2]))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging holds a row on one day."""
    made = bare_lake(tmp_path)
    publish_by_hand(made, STAGING, [{"entity": "A", "value": 1, "event_date": day(0)}])
    return made


def content(lake: Lake) -> list[dict[str, Any]]:
    found = DeltaTable(str(lake.table_place("staging").local())).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda r: str(r["event_date"]))


def test_a_table_gets_a_column_and_older_days_read_it_as_null(lake: Lake) -> None:
    publish_by_hand(lake, WIDER, [{"entity": "B", "value": 2, "country": "DE", "event_date": day(1)}])
    assert [(r["entity"], r["country"]) for r in content(lake)] == [("A", None), ("B", "DE")]
    assert {d: p.nulls.get("country", 0) for d, p in audit_table(lake, WIDER).items()} == {day(0): 1, day(1): 0}
    assert len(audit_table(lake, WIDER, days=[day(0)])) == 1, "also where no file has it"
    view = lake.store.view("staging", "event_date")
    written = {d: r.entry.fingerprint for d, r in view.latest.items()}
    as_written = audit_as_written(lake, WIDER, [day(0), day(1)])
    assert {d: p.fingerprint for d, p in as_written.items()} == written
    assert examine_rows(lake, WIDER, view).level is Level.OK, "the doctor does not take an older day for a damaged one"
    assert (set(view.latest), view.foreign) == ({day(0), day(1)}, frozenset())
    said = [c.receipt for c in lake.store.commits("staging") if c.receipt and c.receipt.reason == REASON]
    assert [r.note for r in said] == ["gets country STRING"]
    before = view.version
    publish_by_hand(lake, WIDER, [{"entity": "C", "value": 3, "country": None, "event_date": day(2)}])
    assert lake.store.view("staging", "event_date").version == before + 1, "once is enough"


def test_a_wider_type_goes_into_a_column_of_another_name(lake: Lake) -> None:
    wider = tuple(replace(c, type="DECIMAL(20,0)") if c.name == "value" else c for c in STAGING.columns)
    before = lake.store.view("staging", "event_date").version
    with pytest.raises(ContractBroken, match=r"value is BIGINT, not DECIMAL\(20,0\).*value_2, in `select`"):
        publish_by_hand(lake, replace(STAGING, columns=wider), [{"entity": "B", "value": None, "event_date": day(1)}])
    assert lake.store.view("staging", "event_date").version == before
    both = replace(STAGING, columns=(*STAGING.columns, Column("value_2", "DECIMAL(20,0)", "wider", nullable=True)))
    row = {"entity": "B", "value": 1, "value_2": Decimal(10**19), "event_date": day(1)}
    publish_by_hand(lake, both, [row])
    assert [(r["value"], r["value_2"]) for r in content(lake)] == [(1, None), (1, 10**19)]


def test_days_that_share_files_get_a_column_together(tmp_path: Path) -> None:
    lake, shared = bare_lake(tmp_path), replace(STAGING, partition_by="entity")
    rows: list[dict[str, Any]] = [{"entity": "A", "value": 1, "event_date": day(n)} for n in range(3)]
    publish_by_hand(lake, shared, rows)
    wider = replace(WIDER, partition_by="entity")
    told = rf"{day(0)}\.\.{day(1)} lie in the same files, and were made without .*--from {day(0)} --to {day(1)}"
    with pytest.raises(ContractBroken, match=told):
        publish_by_hand(lake, wider, [{**rows[2], "country": "DE"}])
    publish_by_hand(lake, wider, [{**row, "country": "DE"} for row in rows])
    publish_by_hand(lake, wider, [{**rows[2], "country": "FR"}])
    assert [r["country"] for r in content(lake)] == ["DE", "DE", "FR"]
