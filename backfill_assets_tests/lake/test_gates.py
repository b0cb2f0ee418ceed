"""The gate: which profiles are refused, which are worth a warning, and whether the message says how many.

Tested here: `lake.gates`. Not tested here: computing profiles (`lake`) and what Dagster makes of a finding.
"""

import re
import tomllib
from dataclasses import replace

import pytest
from pydantic import ValidationError

from backfill_assets.core.contracts import Contract, Rule
from backfill_assets.core.profiles import MEDIAN_NEEDS_DAYS, DayProfile, Finding, Surroundings
from backfill_assets.lake.gates import (
    NOT_NULL,
    PROFILE,
    ROW_COUNT,
    RULES,
    UNIQUE_KEY,
    ColumnGate,
    Judged,
    TableGate,
    checks_of,
    in_lake_toml,
    judge,
)
from backfill_assets_tests.builders import CHECKS, STAGING, day

USUAL = (100,) * MEDIAN_NEEDS_DAYS
OPEN = TableGate()


def _judged(
    contract: Contract, profile: DayProfile, gate: TableGate = OPEN, around: Surroundings | None = None
) -> list[Finding]:
    return judge(Judged(contract, day(0), profile, gate, around or Surroundings()))


def _finding(
    check: str, rows: int = 100, gate: TableGate = OPEN, around: Surroundings | None = None, **facts: object
) -> Finding:
    profile = DayProfile(rows, **facts)  # type: ignore[arg-type]
    findings = {f.check: f for f in _judged(STAGING, profile, gate, around or Surroundings(USUAL))}
    return findings[check]


def _verdict(finding: Finding) -> str:
    return "refused" if finding.refuses else "passed" if finding.passed else "warned"


@pytest.mark.parametrize(
    ("gate", "most", "verdict"),
    [
        (TableGate(max_key_share=0.5), 50, "passed"),
        (TableGate(max_key_share=0.5), 51, "refused"),
        (TableGate(max_key_share=0.5, skew="warn"), 51, "warned"),
        (OPEN, 100, "passed"),
    ],
)
def test_a_key_that_holds_too_many_rows_of_the_day(gate: TableGate, most: int, verdict: str) -> None:
    finding = _finding(PROFILE, gate=gate, most={"entity": most})
    assert _verdict(finding) == verdict
    assert finding.facts["most entity"] == most
    few = _finding(PROFILE, rows=19, gate=gate, most={"entity": 19})
    assert "one key" not in few.message, "chance"
    if verdict != "passed":
        assert finding.message == "one key of (entity) holds 51% of the rows, more than max_key_share = 0.5"


# row_count: bounds

BOUNDS = {
    "at the least": (TableGate(min_rows=100), 100, "passed"),
    "below the least": (TableGate(min_rows=100), 99, "refused"),
    "at the most": (TableGate(max_rows=100), 100, "passed"),
    "above the most": (TableGate(max_rows=100), 101, "refused"),
    "none at all below the least": (TableGate(min_rows=1, empty="allow"), 0, "refused"),
    "as far from the median as allowed": (TableGate(max_absolute_change=30), 130, "passed"),
    "too far above the median": (TableGate(max_absolute_change=30), 131, "refused"),
    "too far below the median": (TableGate(max_absolute_change=30), 69, "refused"),
    "half of the median": (TableGate(max_relative_change=0.5), 50, "passed"),
    "half as much again": (TableGate(max_relative_change=0.5), 150, "passed"),
    "less than half": (TableGate(max_relative_change=0.5), 49, "refused"),
    "more than half as much again": (TableGate(max_relative_change=0.5), 151, "refused"),
    "no row where half may lack": (TableGate(max_relative_change=0.5, empty="allow"), 0, "refused"),
    "no row where all may lack": (TableGate(max_relative_change=1.0, empty="allow"), 0, "passed"),
}


@pytest.mark.parametrize(("gate", "rows", "verdict"), BOUNDS.values(), ids=BOUNDS.keys())
def test_a_bound_holds_up_to_and_including_itself(gate: TableGate, rows: int, verdict: str) -> None:
    assert _verdict(_finding(ROW_COUNT, rows, gate)) == verdict


def test_a_median_of_nothing_has_no_relative_change() -> None:
    around = Surroundings((0,) * MEDIAN_NEEDS_DAYS)
    assert _finding(ROW_COUNT, 7, TableGate(max_relative_change=0.1), around).passed
    assert _finding(ROW_COUNT, 7, TableGate(max_absolute_change=6), around).refuses


@pytest.mark.parametrize(("rows", "verdict"), [(1000, "passed"), (1001, "warned"), (10, "passed"), (9, "warned")])
def test_ten_times_more_or_fewer_rows_than_usual_are_worth_a_warning(rows: int, verdict: str) -> None:
    finding = _finding(ROW_COUNT, rows)
    assert _verdict(finding) == verdict
    assert str(rows) in finding.message
    assert finding.passed or "usually about 100" in finding.message


# row_count: emptiness


@pytest.mark.parametrize(("empty", "verdict"), [("warn", "warned"), ("allow", "passed"), ("refuse", "refused")])
def test_an_empty_day_is_what_the_gate_says(empty: str, verdict: str) -> None:
    finding = _finding(ROW_COUNT, 0, TableGate(empty=empty), Surroundings())  # type: ignore[arg-type]
    assert _verdict(finding) == verdict
    assert finding.facts["rows"] == 0


def test_an_empty_day_that_must_be_empty_passes_every_bound() -> None:
    strict = TableGate(min_rows=5, max_relative_change=0.1, max_absolute_change=1, empty="refuse")
    finding = _finding(ROW_COUNT, 0, strict, Surroundings(USUAL, may_be_empty=True))
    assert (_verdict(finding), finding.message) == ("passed", "empty, as expected")


# not_null and unique_key


def test_a_null_in_a_required_column_refuses_the_day_and_is_counted() -> None:
    finding = _finding(NOT_NULL, nulls={"entity": 3, "value": 50, "event_date": 1})
    assert finding.refuses
    assert finding.message == "3 NULL(s) in entity; 1 NULL(s) in event_date"
    assert finding.facts == {"nulls entity": 3, "nulls event_date": 1}


def test_a_repeated_key_refuses_the_day_and_names_the_key() -> None:
    finding = _finding(UNIQUE_KEY, duplicates=4)
    assert finding.refuses
    assert finding.message == "4 row(s) repeat a key (entity)"
    assert _finding(UNIQUE_KEY).passed


# profile

ABSENT = (("staging", day(-2)), ("staging", day(-1)))


@pytest.mark.parametrize(("incomplete", "verdict"), [("warn", "warned"), ("refuse", "refused")])
def test_missing_required_days_are_what_the_gate_says(incomplete: str, verdict: str) -> None:
    finding = _finding(PROFILE, around=Surroundings(absent=ABSENT, incomplete=incomplete))  # type: ignore[arg-type]
    assert _verdict(finding) == verdict
    assert finding.message == "incomplete: 2 input day(s) missing or lacking columns: staging 2024-02-24"


def test_a_complete_day_is_never_refused_for_its_profile() -> None:
    finding = _finding(
        PROFILE,
        around=Surroundings(usual_null_shares={"value": 0.0}, incomplete="refuse"),
        nulls={"value": 90},
    )
    assert _verdict(finding) == "warned"


@pytest.mark.parametrize(("nulls", "verdict"), [(20, "passed"), (21, "warned"), (0, "passed")])
def test_a_share_of_nulls_far_above_the_usual_is_worth_a_warning(nulls: int, verdict: str) -> None:
    finding = _finding(PROFILE, around=Surroundings(usual_null_shares={"value": 0.0}), nulls={"value": nulls})
    assert _verdict(finding) == verdict
    assert finding.passed or finding.message == "21% of value is NULL, usually 0% (max_null_jump = 0.2)"


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        (ColumnGate(max_null_share=0.05), "refused"),
        (ColumnGate(max_null_share=0.1), "passed"),
        (ColumnGate(max_null_jump=0.04), "refused"),
        (ColumnGate(max_null_jump=0.04, broken="warn"), "warned"),
        (ColumnGate(max_drift=0.01), "refused"),
        (ColumnGate(max_drift=0.01, broken="warn"), "warned"),
        (ColumnGate(), "passed"),
    ],
)
def test_bounds_of_a_column_refuse_or_warn_as_they_say(bounds: ColumnGate, verdict: str) -> None:
    around = Surroundings(usual_null_shares={"value": 0.05}, usual_histograms={"value": {3: 50_000, 4: 50_000}})
    found = DayProfile(10_000, nulls={"value": 1000}, histograms={"value": {3: 5200, 4: 3800}})
    finding = _judged(STAGING, found, TableGate(columns={"value": bounds}), around)[-1]
    assert _verdict(finding) == verdict
    assert finding.passed or "value" in finding.message


def test_rows_that_break_a_rule_of_the_contract_refuse_the_day_and_are_counted_per_rule() -> None:
    rules = (Rule("is_small", "value < 10", ""), Rule("is_even", "value % 2 = 0", ""))
    contract = replace(STAGING, rules=rules)
    assert dict(checks_of(contract)) == {**CHECKS, RULES: True}
    assert checks_of(STAGING) == CHECKS
    bad = _judged(contract, DayProfile(rows=5, broken={"is_small": 2}))[-1]
    assert (bad.check, bad.passed, bad.refuses) == (RULES, False, True)
    assert bad.message == "2 row(s) break is_small (value < 10)"
    assert bad.facts == {"breaks is_small": 2, "breaks is_even": 0}
    good = _judged(contract, DayProfile(rows=5))[-1]
    assert (good.passed, good.refuses, good.message) == (True, False, "2 rule(s) hold")


def test_every_day_gets_one_finding_per_check_in_their_order() -> None:
    findings = _judged(STAGING, DayProfile())
    assert [f.check for f in findings] == list(CHECKS)
    assert {ROW_COUNT, NOT_NULL, UNIQUE_KEY, PROFILE} <= {*CHECKS}
    assert {f.day for f in findings} == {day(0)}


def test_the_fewest_rows_may_not_exceed_the_most() -> None:
    assert TableGate(min_rows=9, max_rows=9).max_rows == 9
    with pytest.raises(ValidationError, match="min_rows may not exceed max_rows"):
        TableGate(min_rows=10, max_rows=9)


@pytest.mark.parametrize("bound", ["max_null_share", "max_null_jump"])
def test_a_share_of_nulls_lies_between_none_and_all(bound: str) -> None:
    assert ColumnGate.model_validate({bound: 1.0}).broken == "refuse"
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        ColumnGate.model_validate({bound: 1.5})


def test_a_new_lake_shows_each_bound_with_an_example_that_is_one() -> None:
    for bounds in (TableGate, ColumnGate):
        shown = tomllib.loads(re.sub(r"(?m)^# ", "", in_lake_toml(bounds)))
        assert shown.keys() == bounds.model_fields.keys() - {"columns"}
        bounds.model_validate(shown)
