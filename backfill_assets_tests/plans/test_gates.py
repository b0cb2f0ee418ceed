"""The gate after a chunk: what it lets through, and what it names where it does not.

Tested here: `plans.gate`. Not tested here: gathering the figures (`plans/test_run.py` does
it).
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.contracts import Rule
from backfill_assets.kernel.core.profiles import (
    MEDIAN_NEEDS_DAYS,
    NULL_COUNT,
    DayProfile,
    receipt_counts,
)
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.tables.gate_bounds import TableGate
from backfill_assets.plans.gates import GateFinding, TableEvidence, judge_chunk
from backfill_assets.plans.policy import Tolerances
from backfill_assets_tests.builders import STAGING, day

STRICT = Tolerances(rows=0.0, nulls=0.0, means=0.0)
USUAL = DayProfile(1000, "F", sums={"value": 5000}, histograms={"value": {3: 1000}})


def entry(rows: int, nulls: int = 0, fingerprint: str = "F") -> DayEntry:
    """A day of a receipt."""
    return DayEntry(rows, fingerprint, "digest", counts={NULL_COUNT + "value": nulls})


def judged(evidence: TableEvidence, bounds: Tolerances) -> list[GateFinding]:
    """All findings."""
    return list(judge_chunk(evidence, bounds))


def evidence(
    before: DayEntry | None, after: DayEntry, read: DayProfile, was: DayProfile | None = None
) -> TableEvidence:
    """One day, with ten earlier ones of 100 rows, of which 5 have no value."""
    there = {day(n): entry(100, 5) for n in range(10)} | ({day(20): before} if before else {})
    return TableEvidence(
        STAGING, there, {day(20): after}, {day(20): read}, {day(20): was} if was else {}
    )


@given(st.integers(0, 1000), st.integers(0, 5), st.integers(-(10**9), 10**9))
def test_a_day_that_is_as_it_was_passes_the_strictest_gate(
    rows: int, nulls: int, total: int
) -> None:
    read = DayProfile(rows, "F", {"value": min(nulls, rows)}, 0, {"value": total})
    same = entry(rows, min(nulls, rows))
    assert judged(evidence(same, same, read, read), STRICT) == []


@pytest.mark.parametrize(
    ("before", "after", "read", "rule", "told"),
    [
        (entry(100), entry(100), DayProfile(99, "F"), "read-back", "the files 99"),
        (
            entry(100),
            entry(100),
            DayProfile(100, "F", {}, 7),
            "unique_key",
            "7 row(s) repeat a key",
        ),
        (
            entry(100),
            entry(100),
            DayProfile(100, "F", {"entity": 2}),
            "not_null",
            "2 NULL(s) in entity",
        ),
        (
            entry(100),
            entry(40),
            DayProfile(40, "F"),
            "rows",
            "100 rows before, 40 now (60%, allowed 50%)",
        ),
        (
            None,
            entry(100),
            DayProfile(100, "F", {"value": 60}),
            "profile",
            "60% of value is NULL, usually 5% (max_null_jump = 0.2)",
        ),
    ],
)
def test_a_gate_names_figures(
    before: DayEntry | None, after: DayEntry, read: DayProfile, rule: str, told: str
) -> None:
    (found,) = judged(evidence(before, after, read), Tolerances())
    assert (found.day, found.rule) == (day(20), rule)
    assert told in found.message
    lifts = {"rows": ("staging.max_row_change",), "profile": ("staging.value.max_null_jump",)}
    assert found.bounds == lifts.get(rule, ()), "what a person may lift for a whole plan"
    left = judged(replace(evidence(before, after, read), accepted=found.bounds), Tolerances())
    assert left == ([] if found.bounds else [found])


def test_rules_of_the_contract_judge_the_files_of_a_chunk_too() -> None:
    ruled = replace(STAGING, rules=(Rule("positive", "value > 0", "values are positive"),))
    found = evidence(None, entry(100), DayProfile(100, "F", broken={"positive": 3}))
    (broken,) = judged(replace(found, contract=ruled), Tolerances())
    assert (broken.rule, broken.message) == ("positive", "3 row(s) break positive (value > 0)")


def test_the_share_of_the_greatest_key_is_judged_as_the_lake_bounds_it() -> None:
    profile = DayProfile(100, "F", most={"entity": 90})
    found = evidence(None, entry(100), profile)
    assert judged(found, Tolerances()) == []
    (broken,) = judged(replace(found, own_bounds=TableGate(max_key_share=0.5)), Tolerances())
    assert (broken.rule, broken.message.split(",")[0]) == (
        "profile",
        "one key of (entity) holds 90% of the rows",
    )
    assert (
        judged(replace(found, own_bounds=TableGate(max_key_share=0.5, skew="warn")), Tolerances())
        == []
    )


def test_few_rows_and_rows_of_a_day_that_waits_are_no_reason_to_stop() -> None:
    assert judged(evidence(entry(4), entry(19), DayProfile(19, "F")), Tolerances()) == []
    pending = replace(entry(100), built=Built.PENDING)
    assert judged(evidence(pending, entry(40), DayProfile(40, "F")), Tolerances()) == []


@pytest.mark.parametrize(
    ("now", "bound", "finds"),
    [
        ({0: 500, 4: 500}, 0.25, True),
        ({0: 500, 4: 500}, None, False),
        ({3: 1000}, 0.25, False),
        ({3: 999, 4: 1}, 0.25, False),
        ({3: 980, 4: 20}, 0.25, False),
        ({3: 980, 4: 20}, 0.0, True),
    ],
)
def test_values_that_moved_under_an_equal_sum_are_named(
    now: dict[int, int], bound: float | None, finds: bool
) -> None:
    known = DayEntry(1000, "F", "digest", counts=receipt_counts(USUAL, STAGING.nullable_columns))
    last = day(MEDIAN_NEEDS_DAYS)
    before = {day(n): known for n in range(MEDIAN_NEEDS_DAYS + 1)}
    read = DayProfile(1000, "F", sums={"value": 5000}, histograms={"value": now})
    evidence = TableEvidence(STAGING, before, {last: known}, {last: read}, {last: USUAL})
    found = judged(evidence, Tolerances(means=0.01, drift=bound))
    assert [(f.day, f.rule) for f in found] == ([(last, "profile")] if finds else [])
    assert (
        not found or "the values of value drifted: population stability index" in found[0].message
    )


def test_values_that_moved_are_found_against_the_day_itself_where_the_history_is_short() -> None:
    known = DayEntry(1000, "F", "digest", counts=receipt_counts(USUAL, STAGING.nullable_columns))
    read = DayProfile(1000, "F", sums={"value": 5000}, histograms={"value": {0: 500, 4: 500}})
    evidence = TableEvidence(STAGING, {day(0): known}, {day(0): known}, {day(0): read})
    (found,) = judged(evidence, Tolerances(drift=0.25))
    assert found.rule == "profile"
    assert "the values of value drifted" in found.message
