"""Scan reports: when one asks for a person, and its JSON form.

Tested here: `kernel.core.scans`. Not tested here: scanning a folder (`intake.scan`).
"""

import json
from dataclasses import replace

import pytest

from backfill_assets.kernel.core.scans import ScanReport
from backfill_assets_tests.builders import day


@pytest.mark.parametrize(
    "report",
    [
        ScanReport(altered=("a.csv",)),
        ScanReport(missing=("a.csv",)),
        ScanReport(refused={"a.csv": "a link out of the folder"}),
        ScanReport(unreadable={"a.csv": "not UTF-8"}),
    ],
    ids=["altered", "missing", "refused", "unreadable"],
)
def test_a_report_with_a_contradiction_asks_for_a_person(report: ScanReport) -> None:
    assert not report.is_clean


def test_a_report_is_json_with_days_in_order() -> None:
    report = ScanReport(
        new={"a.csv": (3, 1)}, altered=("b.csv",), blocked=frozenset({day(2), day(0)}), known=2
    )
    told = json.loads(json.dumps(report.to_dict()))
    assert told["new"] == {"a.csv": {"rows": 3, "bad_rows": 1}}
    assert told["altered"] == ["b.csv"]
    assert told["let_go"] == []
    assert told["blocked_days"] == ["2024-02-26", "2024-02-28"]
    assert json.loads(json.dumps(replace(report, known=9).to_dict()))["known"] == 9
