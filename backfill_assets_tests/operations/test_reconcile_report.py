"""The report of a reconciliation: what counts as a mismatch, and its record in the lake.

Tested here: `operations.reconcile`. Not tested here: how it is made (`test_reconcile`).
"""

import json
from pathlib import Path

import pytest

from backfill_assets.lake.matched_columns import DIFFERS, MISSING_LEFT, WITHIN, ColumnCount, DayCount
from backfill_assets.operations.reconcile import ReconcileReport, keep_report, kept_mismatches
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake

pytestmark = pytest.mark.quick


def report(*columns: ColumnCount) -> ReconcileReport:
    days = (DayCount(day(0), 5, 6, {DIFFERS: 2, WITHIN: 1}), DayCount(day(1), 0, 1, {MISSING_LEFT: 1}))
    return ReconcileReport("l", "r", ("k",), days, columns, (0, 0), (0, 0), ((), ()), (), (), None, "SELECT 1;\n")


def test_rows_within_tolerance_are_no_mismatch_and_a_column_of_another_kind_is_one() -> None:
    assert (report().mismatches, report().rows) == (3, (5, 7))
    assert report(ColumnCount("n", "BIGINT", "VARCHAR", 0, 0, {}, same_kind=False)).mismatches == 4


def test_a_record_and_its_sql_lie_beside_each_other(tmp_path: Path) -> None:
    kept = keep_report(bare_lake(tmp_path), report())
    body = json.loads(kept.read_text())
    assert (body["mismatches"], body["rows_left"], body[WITHIN]) == (3, 5, 1)
    assert "SELECT 1;" in kept.with_suffix(".sql").read_text()


def test_the_newest_record_of_each_pair_of_sides_counts_and_other_files_do_not(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    assert kept_mismatches(lake) == {}
    kept = keep_report(lake, report())
    kept.with_name("20200101-000000-aaaaaa.json").write_text(
        kept.read_text().replace('"mismatches": 3', '"mismatches": 9')
    )
    kept.with_name("bd46a663-ecf1-43b3-8d40-b0ba51b09426.json").write_text("{}")
    assert list(kept_mismatches(lake).values()) == [3]
