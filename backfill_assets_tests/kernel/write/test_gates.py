"""The gate: which profiles are refused, which are worth a warning, and whether the message says how
many. Not here: computing profiles (`kernel.write.audit`) and what Dagster makes of a finding."""

from dataclasses import replace
from typing import Any

import pytest

from backfill_assets.kernel.core.contracts import Contract, Rule
from backfill_assets.kernel.core.profiles import (
    MEDIAN_NEEDS_DAYS,
    DayProfile,
    Finding,
    Surroundings,
)
from backfill_assets.kernel.tables.gate_bounds import ColumnGate, TableGate
from backfill_assets.kernel.write.gates import (
    NOT_NULL,
    PROFILE,
    ROW_COUNT,
    UNIQUE_KEY,
    DayToJudge,
    checks_of,
    gates_of,
    judge_day,
)
from backfill_assets_tests.builders import CHECKS, STAGING, day

USUAL = (100,) * MEDIAN_NEEDS_DAYS
OPEN = TableGate()


def _judged(
    contract: Contract,
    profile: DayProfile,
    gate: TableGate = OPEN,
    around: Surroundings | None = None,
) -> list[Finding]:
    return judge_day(DayToJudge(contract, day(0), profile, gate, around or Surroundings()))


def _finding(
    check: str,
    rows: int = 100,
    gate: TableGate = OPEN,
    around: Surroundings | None = None,
    **facts: object,
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
def test_a_key_that_holds_too_many_rows_of_the_day(
    gate: TableGate, most: int, verdict: str
) -> None:
    finding = _finding(PROFILE, gate=gate, most={"entity": most})
    assert _verdict(finding) == verdict
    assert finding.facts["most entity"] == most
    few = _finding(PROFILE, rows=19, gate=gate, most={"entity": 19})
    assert "one key" not in few.message, "chance"
    if verdict != "passed":
        assert (
            finding.message
            == "one key of (entity) holds 51% of the rows, more than max_key_share = 0.5"
        )


NOBODY, NONE = Surroundings(), Surroundings((0,) * MEDIAN_NEEDS_DAYS)
STRICT = TableGate(min_rows=5, max_relative_change=0.1, max_absolute_change=1, empty="refuse")
BOUNDS: dict[str, tuple[TableGate, int, str, Surroundings | None]] = {
    "at the least": (TableGate(min_rows=100), 100, "passed", None),
    "below the least": (TableGate(min_rows=100), 99, "refused", None),
    "at the most": (TableGate(max_rows=100), 100, "passed", None),
    "above the most": (TableGate(max_rows=100), 101, "refused", None),
    "none at all below the least": (TableGate(min_rows=1, empty="allow"), 0, "refused", None),
    "as far from the median as allowed": (TableGate(max_absolute_change=30), 130, "passed", None),
    "too far above the median": (TableGate(max_absolute_change=30), 131, "refused", None),
    "too far below the median": (TableGate(max_absolute_change=30), 69, "refused", None),
    "half of the median": (TableGate(max_relative_change=0.5), 50, "passed", None),
    "half as much again": (TableGate(max_relative_change=0.5), 150, "passed", None),
    "less than half": (TableGate(max_relative_change=0.5), 49, "refused", None),
    "more than half as much again": (TableGate(max_relative_change=0.5), 151, "refused", None),
    "no row where half may lack": (
        TableGate(max_relative_change=0.5, empty="allow"),
        0,
        "refused",
        None,
    ),
    "no row where all may lack": (
        TableGate(max_relative_change=1.0, empty="allow"),
        0,
        "passed",
        None,
    ),
    "no relative change of nothing": (TableGate(max_relative_change=0.1), 7, "passed", NONE),
    "an absolute change of nothing": (TableGate(max_absolute_change=6), 7, "refused", NONE),
    "ten times as many": (OPEN, 1000, "passed", None),
    "more than ten times": (OPEN, 1001, "warned", None),
    "a tenth": (OPEN, 10, "passed", None),
    "less than a tenth": (OPEN, 9, "warned", None),
    "empty, to be warned of": (TableGate(empty="warn"), 0, "warned", NOBODY),
    "empty, which may be": (TableGate(empty="allow"), 0, "passed", NOBODY),
    "empty, which may not be": (TableGate(empty="refuse"), 0, "refused", NOBODY),
    "empty, as it must be": (STRICT, 0, "passed", Surroundings(USUAL, may_be_empty=True)),
}


@pytest.mark.parametrize(("gate", "rows", "verdict", "around"), BOUNDS.values(), ids=BOUNDS.keys())
def test_a_bound_holds_up_to_itself(
    gate: TableGate, rows: int, verdict: str, around: Surroundings | None
) -> None:
    finding = _finding(ROW_COUNT, rows, gate, around)
    assert (_verdict(finding), finding.facts["rows"]) == (verdict, rows)
    if gate is OPEN:
        assert str(rows) in finding.message
        assert finding.passed or "usually about 100" in finding.message
    if gate is STRICT:
        assert finding.message == "empty, as expected"


ABSENT = (("staging", day(-2)), ("staging", day(-1)))
LACKING = "incomplete: 2 input day(s) missing or lacking columns: staging 2024-02-24"
SHARE = Surroundings(usual_null_shares={"value": 0.0}, incomplete="refuse")
JUDGED: dict[str, tuple[str, Surroundings | None, dict[str, Any], str, str]] = {
    "missing days, to be warned of": (
        PROFILE,
        Surroundings(absent=ABSENT, incomplete="warn"),
        {},
        "warned",
        LACKING,
    ),
    "missing days, to be refused": (
        PROFILE,
        Surroundings(absent=ABSENT, incomplete="refuse"),
        {},
        "refused",
        LACKING,
    ),
    "usual NULLs": (PROFILE, SHARE, {"nulls": {"value": 20}}, "passed", ""),
    "no NULLs": (PROFILE, SHARE, {"nulls": {"value": 0}}, "passed", ""),
    "far more NULLs, of a complete day": (
        PROFILE,
        SHARE,
        {"nulls": {"value": 21}},
        "warned",
        "21% of value is NULL, usually 0% (max_null_jump = 0.2)",
    ),
    "NULLs in required columns": (
        NOT_NULL,
        None,
        {"nulls": {"entity": 3, "value": 50, "event_date": 1}},
        "refused",
        "3 NULL(s) in entity; 1 NULL(s) in event_date",
    ),
    "a repeated key": (
        UNIQUE_KEY,
        None,
        {"duplicates": 4},
        "refused",
        "4 row(s) repeat a key (entity)",
    ),
    "no repeated key": (UNIQUE_KEY, None, {}, "passed", ""),
}


@pytest.mark.parametrize(
    ("check", "around", "facts", "verdict", "message"), JUDGED.values(), ids=JUDGED.keys()
)
def test_a_day_is_judged_by_its_profile_and_the_message_says_how_many(
    check: str, around: Surroundings | None, facts: dict[str, Any], verdict: str, message: str
) -> None:
    finding = _finding(check, around=around, **facts)
    assert _verdict(finding) == verdict
    assert finding.passed or finding.message == message
    if check == NOT_NULL:
        assert finding.facts == {"nulls entity": 3, "nulls event_date": 1}


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
    around = Surroundings(
        usual_null_shares={"value": 0.05}, usual_histograms={"value": {3: 50_000, 4: 50_000}}
    )
    found = DayProfile(10_000, nulls={"value": 1000}, histograms={"value": {3: 5200, 4: 3800}})
    findings = _judged(STAGING, found, TableGate(columns={"value": bounds}), around)
    (finding,) = (f for f in findings if f.check == PROFILE)
    assert _verdict(finding) == verdict
    assert finding.passed or "value" in finding.message


def test_rows_that_break_a_rule_of_the_contract_refuse_the_day_and_are_counted_per_rule() -> None:
    rules = (Rule("is_small", "value < 10", ""), Rule("is_even", "value % 2 = 0", ""))
    contract = replace(STAGING, rules=rules)
    assert dict(checks_of(contract)) == {**CHECKS, "is_small": True, "is_even": True}
    assert checks_of(STAGING) == CHECKS
    bad, other = _judged(contract, DayProfile(rows=5, broken={"is_small": 2}))[-2:]
    assert (bad.check, bad.passed, bad.refuses) == ("is_small", False, True)
    assert bad.message == "2 row(s) break is_small (value < 10)"
    assert (bad.facts, other.facts) == ({"breaks is_small": 2}, {"breaks is_even": 0})
    good = _judged(contract, DayProfile(rows=5))[-1]
    assert (good.passed, good.refuses, good.message) == (True, False, "is_even holds")


def test_every_day_gets_one_finding_per_check_in_their_order() -> None:
    findings = _judged(STAGING, DayProfile())
    assert [f.check for f in findings] == list(CHECKS)
    assert {ROW_COUNT, NOT_NULL, UNIQUE_KEY, PROFILE} <= {*CHECKS}
    assert {f.day for f in findings} == {day(0)}


def test_each_rule_is_a_check_under_its_own_name_and_meets_no_gate() -> None:
    rules = (
        Rule("is_small", "value < 5", "small"),
        Rule("is paid", "value > 0", "paid", only_warns=True),
        Rule("row_count", "value <> 3", "three is no value"),
    )
    contract = replace(STAGING, rules=rules)
    names = [gate.name for gate in gates_of(contract)]
    assert names[-3:] == ["is_small", "is_paid", "rule_row_count"]
    assert len({*names}) == len(names)
    found = {
        f.check: f
        for f in _judged(contract, DayProfile(rows=5, broken={"is_small": 2, "is paid": 1}))
    }
    assert (found["is_small"].passed, found["is_small"].refuses) == (False, True)
    assert found["is_small"].message == "2 row(s) break is_small (value < 5)"
    assert (found["is_paid"].passed, found["is_paid"].refuses) == (False, False)
    assert found["rule_row_count"].passed
