"""System tables: one look at the lake as tables that anybody may query, each column described. Not
here: what may be asked at all (`test_sql`), and figures that reports make of the same records
(`test_status`, `test_report`, `test_check_history`)."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from backfill_assets.intake.ledger import QUARANTINE
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.reading.sql import answer_query
from backfill_assets.reading.system_tables import system_tables, write_parquet
from backfill_assets.reading.writes import DayAudit, day_audits
from backfill_assets_tests.builders import day, write_rows
from backfill_assets_tests.late_lake import late_lake
from backfill_assets_tests.planned import DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    found = Planned(tmp_path / "lake")
    found.chunk(2, (3, 4), 3)
    return found


def rows(made: Planned, query: str, **options: Any) -> list[tuple[Any, ...]]:
    found = answer_query(made.lake, made.pipeline, query, **options).rows
    return [tuple(row.values()) for row in found.to_pylist()]


def test_each_system_table_can_be_read_and_has_the_columns_that_it_describes(
    tmp_path: Path,
) -> None:
    lake, pipeline = late_lake(tmp_path / "lake")
    described = answer_query(
        lake, pipeline, 'SELECT "table", "column", about FROM system.columns'
    ).rows.to_pylist()
    assert {row["table"] for row in described} == {*system_tables()}
    assert all(row["about"] for row in described)
    for name in system_tables():
        found = answer_query(lake, pipeline, f"FROM system.{name}").rows
        assert found.column_names == [row["column"] for row in described if row["table"] == name]
    late = "SELECT days_late, rows FROM system.lateness WHERE days_late > 0"
    assert answer_query(lake, pipeline, late).rows.to_pylist() == [{"days_late": 3, "rows": 1}]


def test_a_query_that_joins_tables_of_the_lake_sees_them_as_of_the_same_look(made: Planned) -> None:
    record_versions(made.lake, made.pipeline.contracts, "made")
    made.write("staging", {5: 9})
    both = (
        "SELECT (SELECT max(version) FROM system.writes WHERE \"table\" = 'staging'), max(value) "
        "FROM staging"
    )
    before, after = rows(made, both), rows(made, both, newest=True)
    assert (after[0][0] - before[0][0], before[0][1], after[0][1]) == (1, 3, 9)


def test_landed_rows_and_rejected_ones_are_named_with_file_and_reason(made: Planned) -> None:
    made.list_files()
    bad = [
        {"arrival_date": day(1), "source_file": "f", "row_number": n, "text": "x", "reason": "why"}
        for n in (1, 2)
    ]
    said = Receipt("w", QUARANTINE.name, "landing", {day(1): DayEntry(2, "F", "d")})
    write_rows(made.lake.table_place(QUARANTINE.name).local(), QUARANTINE, bad, said)
    assert rows(made, "FROM system.rejected") == [("", "quarantine", day(1), "f", "why", 2)]
    assert rows(made, "SELECT count(*), min(day), max(day) FROM system.landed") == [
        (DAYS, day(0), day(DAYS - 1))
    ]


@pytest.mark.parametrize(
    "query",
    [
        'FROM "SYSTEM"."days"',
        "FROM system . days -- system.writes",
        "SELECT system.days.day FROM system.days",
    ],
)
def test_however_a_query_writes_the_name(made: Planned, query: str) -> None:
    assert len(rows(made, query)) == 3 * DAYS


def test_the_past_has_no_system_tables_and_a_wrong_name_is_refused(made: Planned) -> None:
    with pytest.raises(BackfillError, match="system tables are of now"):
        rows(made, "FROM system.days", at=1)
    with pytest.raises(BackfillError, match="no table"):
        rows(made, "FROM system.nothing")


def test_records_are_written_as_parquet_for_any_engine(made: Planned, tmp_path: Path) -> None:
    found = day_audits(made.lake, made.pipeline)
    assert write_parquet(DayAudit, found, tmp_path / "audit.parquet") == len(found)
    read = pq.read_table(tmp_path / "audit.parquet")
    assert (read.num_rows, read.column_names) == (len(found), [f.name for f in fields(DayAudit)])
    assert str(read.schema.field("at").type) == "timestamp[us, tz=UTC]"
