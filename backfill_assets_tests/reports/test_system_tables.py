"""System tables of days, writes and checks: the records of reports as tables.

Tested here: `reports.system_tables`. Not tested here: how a record becomes columns (`reading/test_system_tables.py`).
"""

from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.tables.gate_bounds import GateSettings, TableGate
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.outcomes import ControlOutcome, keep_outcomes
from backfill_assets.reading.proofs import (
    DIFFERS,
    EQUAL,
    PASSED_OVER,
    Proof,
    keep_proofs,
    newest_writes,
)
from backfill_assets.reading.sql import answer_query
from backfill_assets.reading.system_tables import columns_of
from backfill_assets.reports.status import DayStatus, lake_status
from backfill_assets_tests.builders import day
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.synthetic import START, build, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    found = Planned(tmp_path / "lake")
    found.chunk(2, (3, 4), 3)
    return found


def rows(made: Planned, query: str, **options: Any) -> list[tuple[Any, ...]]:
    found = answer_query(made.lake, made.pipeline, query, **options).rows
    return [tuple(row.values()) for row in found.to_pylist()]


def test_days_are_the_days_of_status_and_a_field_of_the_record_is_a_column_of_both(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)
    build(lake, pipeline, "staging", {START: 4})
    found = answer_query(lake, pipeline, "FROM system.days").rows.to_pylist()
    told = json_of(lake_status(lake, pipeline))["days"]
    assert [{**row, "day": str(row["day"]), "culprits": []} for row in found] == told
    assert {f.name for f in fields(DayStatus)} == {*columns_of(DayStatus), "culprits"}
    stale = (
        "SELECT count(*) AS n FROM system.days WHERE state = 'stale' AND reason = 'its inputs "
        "changed since'"
    )
    assert answer_query(lake, pipeline, stale).rows.to_pylist()[0]["n"] > 0


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


def test_every_check_of_every_written_day_is_a_row(tmp_path: Path) -> None:
    """Three rows on a day, whose gate is told to take two."""
    lake, pipeline = synthetic_lake(tmp_path, 3)
    strict = lake.settings.model_copy(
        update={"gates": GateSettings(tables={"staging": TableGate(max_rows=2)})}
    )
    query = """SELECT outcome, "table" = 'staging' AS is_strict, count(*) AS n FROM system.checks
        WHERE "check" = 'row_count' GROUP BY ALL ORDER BY ALL"""
    found = answer_query(Lake(lake.root, strict), pipeline, query).rows.to_pylist()
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
    told = answer_query(lake, made.pipeline, query).rows.to_pylist()
    assert [tuple(row.values()) for row in told] == [
        ("control total", "fail", "3 value(s) differ: 1, expected 2")
    ]


def write_of(made: Planned, of: date) -> str:
    """The id of the newest write of a day of staging."""
    return newest_writes(made.lake, made.pipeline, "staging")[of]
