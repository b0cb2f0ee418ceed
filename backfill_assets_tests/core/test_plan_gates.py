"""The gate after a chunk: drift that leaves rows, sums and means alone is found, and what is chance is not.

Tested here: `core.plan_gates`, the drift of columns. Not tested here: its other rules, which plans meet
(`operations.test_plan_run`).
"""

import pytest

from backfill_assets.core.gates import MEDIAN_NEEDS_DAYS
from backfill_assets.core.plan_gates import TableEvidence, judge_chunk
from backfill_assets.core.plans import Tolerances
from backfill_assets.core.profiles import DayProfile, kept_counts
from backfill_assets.core.receipts import DayEntry
from backfill_assets_tests.builders import STAGING, day

USUAL = DayProfile(1000, "F", sums={"value": 5000}, histograms={"value": {3: 1000}})


@pytest.mark.parametrize(
    ("now", "bound", "finds"),
    [
        ({0: 500, 4: 500}, 0.25, True),
        ({0: 500, 4: 500}, None, False),
        ({3: 1000}, 0.25, False),
        ({3: 999, 4: 1}, 0.25, False),
    ],
)
def test_values_that_moved_while_their_sum_did_not_are_named_with_column_and_index(
    now: dict[int, int], bound: float | None, finds: bool
) -> None:
    known = DayEntry(1000, "F", "digest", counts=kept_counts(USUAL, STAGING.nullable_columns))
    judged = day(MEDIAN_NEEDS_DAYS)
    earlier = {day(n): known for n in range(MEDIAN_NEEDS_DAYS)}
    read = DayProfile(1000, "F", sums={"value": 5000}, histograms={"value": now})
    evidence = TableEvidence(STAGING, {judged: known}, {judged: known}, earlier, {judged: read}, {judged: USUAL})
    found = judge_chunk(evidence, Tolerances(means=0.01, drift=bound))
    assert [(f.day, f.rule, f.column) for f in found] == ([(judged, "distribution", "value")] if finds else [])
    assert not found or "population stability index" in found[0].told
