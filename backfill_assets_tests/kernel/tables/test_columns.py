"""Types by the names of each engine, and that files of every type fit the contract they were made
from. Not here: values (`test_frame_files_conform`)."""

import json
import os
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from backfill_assets.cli.findings import Level
from backfill_assets.kernel.core.column_types import PLAIN_KINDS, read_type
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import ContractBroken
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.view import DayReceipt
from backfill_assets.kernel.tables.columns import (
    COLUMNS_REASON,
    arrow_type,
    column_types,
    columns_misfit,
    delta_schema,
    file_statistics,
    read_footer,
    rows_where,
    type_of_arrow,
)
from backfill_assets.kernel.tables.embedded import duckdb_cursor, rows_query
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.plans.restore import RestoreRequest, restore_partitions
from backfill_assets.reading.fitness import audit_as_written
from backfill_assets.upkeep.doctor_tables import examine_rows
from backfill_assets.upkeep.inspection import inspect_table
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")

KINDS = (
    *PLAIN_KINDS,
    "DECIMAL(18,2)",
    *(f"ARRAY<{k}>" for k in PLAIN_KINDS),
    "ARRAY<DECIMAL(5,5)>",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tables_schema_gives_back_the_type_it_was_made_with(kind: str) -> None:
    schema = delta_schema([Column("x", kind, "x", nullable=True)])
    assert str(column_types(cast(Any, SimpleNamespace(schema=lambda: schema)))["x"]) == kind
    assert str(type_of_arrow(arrow_type(read_type(kind)))) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_a_type_fits_its_contract_and_no_other(kind: str) -> None:
    made = Contract(
        "t", "t", (Column("x", kind, "x", nullable=True), Column("d", "DATE", "d")), "d", (), ()
    )
    data = pa.table([pa.array([None], arrow_type(read_type(kind)))], names=["x"])
    sink = BytesIO()
    pq.write_table(data, sink)
    footer = read_footer(sink)
    assert columns_misfit(footer.schema, made) == ""
    other = Column("x", "ARRAY<DATE>" if kind == "STRING" else "STRING", "x", nullable=True)
    assert columns_misfit(footer.schema, Contract("t", "t", (other, made.columns[1]), "d", (), ()))
    assert '"numRecords":1' in file_statistics(footer)


def stats_of(folder: Path, **columns: Any) -> dict[str, Any]:
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=2)
    found: dict[str, Any] = json.loads(file_statistics(read_footer(folder / "x.parquet")))
    return found


def test_rows_and_nulls_of_all_row_groups_are_counted_and_no_value_is_named(tmp_path: Path) -> None:
    """Whatever the values: in a log that is never changed a bound would be an entity's for good."""
    far = pa.array([2**63 - 1, -(2**63), 0, None, 1], pa.int64())
    found = stats_of(
        tmp_path,
        n=[5, None, -3, 7, None],
        t=["b", "a", None, "é", "x" * 99],
        many=[[3, None], None, [], [1], [2]],
        at=far.cast(pa.timestamp("us", "UTC")),
        day=pa.array([1, 2, 3, 2**31 - 1, 4], pa.int32()).cast(pa.date32()),
    )
    assert found == {"numRecords": 5, "nullCount": {"at": 1, "day": 0, "n": 2, "t": 1}}


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
    publish_by_hand(
        lake, WIDER, [{"entity": "B", "value": 2, "country": "DE", "event_date": day(1)}]
    )
    assert [(r["entity"], r["country"]) for r in content(lake)] == [("A", None), ("B", "DE")]
    assert {d: p.nulls.get("country", 0) for d, p in audit_table(lake, WIDER).items()} == {
        day(0): 1,
        day(1): 0,
    }
    assert len(audit_table(lake, WIDER, days=[day(0)])) == 1, "also where no file has it"
    view = lake.store.view("staging", "event_date")
    written = {d: r.entry.fingerprint for d, r in view.latest.items()}
    as_written = audit_as_written(lake, WIDER, [day(0), day(1)])
    assert {d: p.fingerprint for d, p in as_written.items()} == written
    assert examine_rows(lake, WIDER, view).level is Level.OK, (
        "the doctor does not take an older day for a damaged one"
    )
    assert (set(view.latest), view.foreign) == ({day(0), day(1)}, frozenset())
    said = [
        c.receipt
        for c in lake.store.commits("staging")
        if c.receipt and c.receipt.reason == COLUMNS_REASON
    ]
    assert [r.note for r in said] == ["gets country STRING"]
    before = view.version
    publish_by_hand(
        lake, WIDER, [{"entity": "C", "value": 3, "country": None, "event_date": day(2)}]
    )
    assert lake.store.view("staging", "event_date").version == before + 1, "once is enough"


def test_a_wider_type_goes_into_a_column_of_another_name(lake: Lake) -> None:
    wider = tuple(
        replace(c, type="DECIMAL(20,0)") if c.name == "value" else c for c in STAGING.columns
    )
    before = lake.store.view("staging", "event_date").version
    with pytest.raises(
        ContractBroken, match=r"value is BIGINT, not DECIMAL\(20,0\).*value_2, in `select`"
    ):
        publish_by_hand(
            lake,
            replace(STAGING, columns=wider),
            [{"entity": "B", "value": None, "event_date": day(1)}],
        )
    assert lake.store.view("staging", "event_date").version == before
    both = replace(
        STAGING,
        columns=(*STAGING.columns, Column("value_2", "DECIMAL(20,0)", "wider", nullable=True)),
    )
    row = {"entity": "B", "value": 1, "value_2": Decimal(10**19), "event_date": day(1)}
    publish_by_hand(lake, both, [row])
    assert [(r["value"], r["value_2"]) for r in content(lake)] == [(1, None), (1, 10**19)]


def test_days_that_share_files_get_a_column_together(tmp_path: Path) -> None:
    lake, shared = bare_lake(tmp_path), replace(STAGING, partition_by="entity")
    rows: list[dict[str, Any]] = [
        {"entity": "A", "value": 1, "event_date": day(n)} for n in range(3)
    ]
    publish_by_hand(lake, shared, rows)
    wider = replace(WIDER, partition_by="entity")
    told = (
        rf"{day(0)}\.\.{day(1)} lie in the same files, and were made without .*--from {day(0)} "
        rf"--to {day(1)}"
    )
    with pytest.raises(ContractBroken, match=told):
        publish_by_hand(lake, wider, [{**rows[2], "country": "DE"}])
    publish_by_hand(lake, wider, [{**row, "country": "DE"} for row in rows])
    publish_by_hand(lake, wider, [{**rows[2], "country": "FR"}])
    assert [r["country"] for r in content(lake)] == ["DE", "DE", "FR"]


LARGEST, LARGE = (1 << 31) - 1, 1 << 40


def typed(number: str, price: str, marks: str) -> Contract:
    own = tuple(replace(c, type=number) if c.name == "value" else c for c in STAGING.columns)
    more = (
        Column("price", price, "a price", nullable=True),
        Column("marks", marks, "some marks", nullable=True),
    )
    return replace(STAGING, columns=(*own, *more))


NARROW, WIDE = (
    typed("INT", "DECIMAL(9,2)", "ARRAY<INT>"),
    typed("BIGINT", "DECIMAL(20,2)", "ARRAY<BIGINT>"),
)


def row(number: int, value: int, price: Decimal | None) -> dict[str, Any]:
    return {
        "entity": "A",
        "value": value,
        "price": price,
        "marks": [value, None],
        "event_date": day(number),
    }


@pytest.fixture
def widened(tmp_path: Path) -> Lake:
    """Four days of narrow columns, of which one was written twice and one has no price; then one of
    wide columns."""
    made = bare_lake(tmp_path)
    for number, price in enumerate(
        (Decimal("1.50"), Decimal("-99.99"), None, Decimal(7), Decimal(8))
    ):
        publish_by_hand(made, NARROW, [row(number % 4, LARGEST, price)], digest=str(number))
    publish_by_hand(made, WIDE, [row(1, LARGE, Decimal(10**15))], digest="large")
    return made


def test_the_next_write_widens_the_schema_and_no_older_file_or_receipt_changes(
    widened: Lake,
) -> None:
    view = widened.store.view("staging", "event_date")
    assert (len(view.latest), view.foreign) == (4, frozenset())
    notes = [
        c.receipt.note
        for c in widened.store.commits("staging")
        if c.receipt and c.receipt.reason == COLUMNS_REASON
    ]
    assert notes == ["widens to value BIGINT, price DECIMAL(20,2), marks ARRAY<BIGINT>"]
    opened = DeltaTable(str(widened.table_place("staging").local()))
    assert {n: str(k) for n, k in column_types(opened).items()} == {
        c.name: c.type for c in WIDE.columns
    }
    assert opened.metadata().partition_columns == ["event_date"]
    assert {f.name: f.nullable for f in opened.schema().fields} == {
        c.name: c.nullable for c in WIDE.columns
    }
    before = view.version
    publish_by_hand(widened, WIDE, [row(2, LARGE, None)], digest="again")
    assert widened.store.view("staging", "event_date").version == before + 1, "once is enough"


def test_a_day_goes_back_to_a_file_of_the_narrower_type(widened: Lake) -> None:
    def newest() -> DayReceipt:
        return widened.store.view("staging", "event_date").latest[day(1)]

    narrow = next(
        c.version
        for c in widened.store.commits("staging")
        if c.receipt and day(1) in c.receipt.days
    )
    asked = RestoreRequest(WIDE, {day(1): narrow}, {day(1): newest().version})
    assert restore_partitions(widened, asked, Provenance("rollback")) is not None
    [file] = widened.store.data_files(WIDE, days=[day(1)])
    assert pq.read_schema(file).field("value").type == pa.int32()
    query = f"SELECT value, price FROM ({rows_query([file], WIDE)})"
    with duckdb_cursor(widened) as engine:
        assert engine.sql(query).fetchall() == [(LARGEST, Decimal("-99.99"))]
    assert audit_table(widened, WIDE)[day(1)].fingerprint == newest().entry.fingerprint


def test_every_audit_finds_what_the_receipts_say(widened: Lake) -> None:
    said = {
        d: r.entry.fingerprint
        for d, r in widened.store.view("staging", "event_date").latest.items()
    }
    for found in (audit_table(widened, WIDE), audit_as_written(widened, WIDE, [*said])):
        assert {d: p.fingerprint for d, p in found.items()} == said
    seen = inspect_table(widened, WIDE, read=True, deep=True)
    assert (seen.absent, seen.altered, seen.edited, seen.lost) == ((), (), (), 0)
    assert (
        examine_rows(widened, WIDE, widened.store.view("staging", "event_date")).level is Level.OK
    )


def test_a_small_file_is_read_once_while_it_stays_as_it_is(tmp_path: Path) -> None:
    table, path = bare_lake(tmp_path).table_place("files"), pc.field("path") == "1.csv"

    def put(rows: int) -> None:
        sink = BytesIO()
        pq.write_table(pa.table({"path": ["1.csv", "2.csv"], "rows": [rows, 0]}), sink)
        table.write("1.parquet", sink.getvalue())

    put(1)
    file = table.local("1.parquet")
    first = file.stat()
    assert rows_where(table, ["1.parquet"], path) == [{"path": "1.csv", "rows": 1}]
    file.write_bytes(bytes(first.st_size))  # no Parquet: whoever opens it fails
    os.utime(file, ns=(first.st_atime_ns, first.st_mtime_ns))
    for _ in range(5):
        assert rows_where(table, ["1.parquet"], path) == [{"path": "1.csv", "rows": 1}]
    put(17)
    assert rows_where(table, ["1.parquet"], path) == [{"path": "1.csv", "rows": 17}]
