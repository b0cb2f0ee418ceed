"""System tables: one look at the lake as tables that anybody may query, each column described. Not
here: what may be asked at all (`test_sql`), and figures that reports make of the same records
(`test_status`, `test_report`, `test_check_history`)."""

from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from backfill_assets.intake.ledger import QUARANTINE
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.tables.gate_bounds import GateSettings, TableGate
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import record
from backfill_assets.reading.sql import ask
from backfill_assets.reading.system_tables import SYSTEM_TABLES, columns_of, write_parquet
from backfill_assets.reconcile.standing import (
    DIFFERS,
    EQUAL,
    PASSED_OVER,
    ControlOutcome,
    Proof,
    keep_outcomes,
    keep_proofs,
    newest_writes,
)
from backfill_assets.reports.report import DayAudit, audit
from backfill_assets.reports.status import DayStatus, status
from backfill_assets_tests.builders import day, write_rows
from backfill_assets_tests.late_lake import late_lake
from backfill_assets_tests.planned import DAYS, Planned
from backfill_assets_tests.synthetic import START, build, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    found = Planned(tmp_path / "lake")
    found.chunk(2, (3, 4), 3)
    return found


def rows(made: Planned, query: str, **options: Any) -> list[tuple[Any, ...]]:
    found = ask(made.lake, made.pipeline, query, **options).rows
    return [tuple(row.values()) for row in found.to_pylist()]


def test_each_system_table_can_be_read_and_has_the_columns_that_it_describes(
    tmp_path: Path,
) -> None:
    lake, pipeline = late_lake(tmp_path / "lake")
    described = ask(
        lake, pipeline, 'SELECT "table", "column", about FROM system.columns'
    ).rows.to_pylist()
    assert {row["table"] for row in described} == {*SYSTEM_TABLES}
    assert all(row["about"] for row in described)
    for name in SYSTEM_TABLES:
        found = ask(lake, pipeline, f"FROM system.{name}").rows
        assert found.column_names == [row["column"] for row in described if row["table"] == name]
    late = "SELECT days_late, rows FROM system.lateness WHERE days_late > 0"
    assert ask(lake, pipeline, late).rows.to_pylist() == [{"days_late": 3, "rows": 1}]


def test_days_are_the_days_of_status_and_a_field_of_the_record_is_a_column_of_both(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)
    build(lake, pipeline, "staging", {START: 4})
    found = ask(lake, pipeline, "FROM system.days").rows.to_pylist()
    told = json_of(status(lake, pipeline))["days"]
    assert [{**row, "day": str(row["day"]), "culprits": []} for row in found] == told
    assert {f.name for f in fields(DayStatus)} == {*columns_of(DayStatus), "culprits"}
    stale = (
        "SELECT count(*) AS n FROM system.days WHERE state = 'stale' AND reason = 'its inputs "
        "changed since'"
    )
    assert ask(lake, pipeline, stale).rows.to_pylist()[0]["n"] > 0


def test_writes_are_joined_to_days_and_to_runs(made: Planned) -> None:
    query = f"""SELECT DISTINCT d."table", w.plan, w.chunk, r.days, r.changed FROM system.days d
        JOIN system.day_writes w USING ("table", day, version) JOIN system.runs r USING (run_id)
        WHERE d.day = DATE '{day(3)}' AND w.plan <> '' ORDER BY ALL"""
    assert rows(made, query) == [("features", "p1", "2", 4, 4), ("staging", "p1", "2", 4, 4)]
    assert rows(made, "SELECT tables, rows FROM system.runs") == [(["staging", "features"], 4)]
    newest = (
        "SELECT days FROM system.writes WHERE \"table\" = 'staging' ORDER BY version DESC LIMIT 1"
    )
    assert rows(made, newest) == [([f"{day(3)}..{day(4)}"],)]


def test_a_query_that_joins_tables_of_the_lake_sees_them_as_of_the_same_look(made: Planned) -> None:
    record(made.lake, made.pipeline.contracts, "made")
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


def test_every_check_of_every_written_day_is_a_row(tmp_path: Path) -> None:
    """Three rows on a day, whose gate is told to take two."""
    lake, pipeline = synthetic_lake(tmp_path, 3)
    strict = lake.settings.model_copy(
        update={"gates": GateSettings(tables={"staging": TableGate(max_rows=2)})}
    )
    query = """SELECT outcome, "table" = 'staging' AS is_strict, count(*) AS n FROM system.checks
        WHERE "check" = 'row_count' GROUP BY ALL ORDER BY ALL"""
    found = ask(Lake(lake.root, strict), pipeline, query).rows.to_pylist()
    assert [tuple(row.values()) for row in found] == [("fail", True, 3), ("pass", False, 15)]


def test_proofs_and_controls_are_checks_too(made: Planned) -> None:
    proven = [
        Proof("staging", str(day(n)), "2026-01-01", o, "", "w")
        for n, o in ((1, EQUAL), (2, DIFFERS))
    ]
    keep_proofs(
        made.lake,
        [*proven, Proof("staging", str(day(3)), "2026-01-01", DIFFERS, "", write_of(made, day(3)))],
    )
    found = rows(
        made, "SELECT day, outcome FROM system.checks WHERE \"check\" = 'proof' ORDER BY day"
    )
    assert found == [(day(1), "pass"), (day(3), "fail")], "another write made the second day since"
    keep_proofs(
        made.lake,
        [Proof("staging", str(day(n)), "2026-01-02", PASSED_OVER, "gone", "w") for n in (1, 3)],
    )
    again = rows(
        made, "SELECT day, outcome, what FROM system.checks WHERE \"check\" = 'proof' ORDER BY day"
    )
    assert [row[:2] for row in again] == found, "a day that was passed over keeps its verdict"
    assert not any("passed over" in row[2] for row in again)
    lake = Lake(made.lake.root, made.lake.settings.model_copy(update={"controls": {"total": None}}))
    (lake.root / ".locks").mkdir(parents=True, exist_ok=True)
    keep_outcomes(lake, [ControlOutcome("total", False, 3, "1, expected 2")])
    query = 'SELECT "check", outcome, what FROM system.checks WHERE day IS NULL'
    told = ask(lake, made.pipeline, query).rows.to_pylist()
    assert [tuple(row.values()) for row in told] == [
        ("control total", "fail", "3 value(s) differ: 1, expected 2")
    ]


def write_of(made: Planned, of: date) -> str:
    """The id of the newest write of a day of staging."""
    return newest_writes(made.lake, made.pipeline, "staging")[of]


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
    found = audit(made.lake, made.pipeline)
    assert write_parquet(DayAudit, found, tmp_path / "audit.parquet") == len(found)
    read = pq.read_table(tmp_path / "audit.parquet")
    assert (read.num_rows, read.column_names) == (len(found), [f.name for f in fields(DayAudit)])
    assert str(read.schema.field("at").type) == "timestamp[us, tz=UTC]"
