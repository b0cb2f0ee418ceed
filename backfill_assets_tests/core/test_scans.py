"""Scan reports: when one asks for a person, and its JSON form.

Tested here: `core.scans`. Not tested here: scanning a folder (`load.scan`).
"""

import json
from dataclasses import replace

import pytest

from backfill_assets.core.scans import ScanReport, summed
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


def test_what_several_sources_count_is_added_up_by_key() -> None:
    assert list(summed([{day(2): 1}, {}, {day(1): 2, day(2): 3}]).items()) == [(day(1), 2), (day(2), 4)]


def test_new_files_copies_and_files_still_being_written_ask_for_nobody() -> None:
    report = ScanReport(new={"a.csv": (3, 1)}, copies={"b.csv": "a.csv"}, waiting={"c.csv": "still growing"}, known=4)
    report = replace(report, let_go=("d.csv",))
    assert report.is_clean


def test_a_report_is_json_with_days_in_order() -> None:
    report = ScanReport(new={"a.csv": (3, 1)}, altered=("b.csv",), blocked=frozenset({day(2), day(0)}), known=2)
    told = json.loads(json.dumps(report.to_dict()))
    assert told["new"] == {"a.csv": {"rows": 3, "bad_rows": 1}}
    assert told["altered"] == ["b.csv"]
    assert told["let_go"] == []
    assert told["blocked_days"] == ["2024-02-26", "2024-02-28"]
    assert json.loads(json.dumps(replace(report, known=9).to_dict()))["known"] == 9
