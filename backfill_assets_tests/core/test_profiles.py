"""Profiles: what an empty day looks like, and what a receipt keeps of one.

Tested here: `core.profiles`. Not tested here: the figures of rows (`lake.audit`).
"""

from dataclasses import replace

from backfill_assets.core.profiles import (
    REST,
    DayProfile,
    counted_broken,
    counted_histograms,
    counted_nulls,
    kept_counts,
)


def test_nulls_broken_rules_and_histograms_are_read_back_from_what_a_receipt_keeps() -> None:
    made = DayProfile(9, "F", {"a": 2}, broken={"few": 3}, histograms={"the value": {-3: 1, 0: 4}, "b": {7: 4}})
    made = replace(made, histograms={**made.histograms, "a text": {"": 2, "3 x": 1, "é\n": 4, REST: 9}})
    kept = kept_counts(made, ["a", "b"])
    assert counted_nulls(kept) == {"a": 2, "b": 0}
    assert counted_broken(kept) == {"few": 3}
    assert counted_histograms(kept) == made.histograms
