"""Profiles: what a receipt keeps of a day; the stability index is nothing for the same shape and
large for another.

Tested here: `kernel.core.profiles`. Not tested here: the figures of rows (`kernel.write.audit`) and
judging them (`kernel.write.test_gates`).
"""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.profiles import (
    NULL_BUCKET,
    REST,
    DayProfile,
    chance_index,
    counted_broken,
    counted_histograms,
    counted_nulls,
    has_recurring_values,
    histogram_drift,
    largest_shift,
    receipt_counts,
    stability_index,
    usual_histograms,
)


def test_nulls_broken_rules_and_histograms_are_read_back_from_what_a_receipt_keeps() -> None:
    made = DayProfile(
        9, "F", {"a": 2}, broken={"few": 3}, histograms={"the value": {-3: 1, 0: 4}, "b": {7: 4}}
    )
    made = replace(
        made, histograms={**made.histograms, "a text": {"": 2, "3 x": 1, "é\n": 4, REST: 9}}
    )
    kept = receipt_counts(made, ["a", "b"])
    assert counted_nulls(kept) == {"a": 2, "b": 0}
    assert counted_broken(kept) == {"few": 3}
    assert counted_histograms(kept) == made.histograms


histograms = st.dictionaries(st.integers(-64, 64), st.integers(0, 10_000), max_size=8)


@given(histograms, histograms)
def test_the_index_is_never_negative_and_the_same_both_ways(
    one: dict[int, int], other: dict[int, int]
) -> None:
    assert stability_index(one, other) >= 0
    assert stability_index(one, other) == pytest.approx(stability_index(other, one))
    assert stability_index(one, one) == 0


def test_a_known_pair_has_the_index_of_the_textbook() -> None:
    assert stability_index({1: 50, 2: 50}, {1: 80, 2: 20}) == pytest.approx(0.4159, abs=1e-4)
    assert stability_index({}, {1: 5}) == 0.0


def test_samples_of_one_population_stay_below_what_is_chance() -> None:
    draw = random.Random(7)
    for rows in (20, 200, 2000):
        usual = Counter(draw.choices(range(6), [30, 25, 20, 15, 7, 3], k=28 * rows))
        days = [Counter(draw.choices(range(6), [30, 25, 20, 15, 7, 3], k=rows)) for _ in range(50)]
        beyond = [d for d in days if stability_index(d, usual) > 0.05 + chance_index(d, usual)]
        assert len(beyond) <= 1


def test_drift_exceeds_a_bound_only_beyond_what_is_chance() -> None:
    few, many = (
        histogram_drift({1: 5, 2: 5}, {1: 80, 2: 20}),
        histogram_drift({1: 5000, 2: 5000}, {1: 80000, 2: 20000}),
    )
    assert few.index == pytest.approx(many.index)
    assert (few.exceeds(0.25), many.exceeds(0.25)) == (False, True)


def test_what_moved_most_is_named_with_its_share_before_and_now() -> None:
    assert (
        largest_shift({"EUR": 40, "USD": 60}, {"EUR": 50, "USD": 950})
        == "'EUR' went from 5.0% to 40.0%"
    )
    assert largest_shift({7: 9, 0: 1}, {7: 1, 0: 9}) in (
        "64 to 127 went from 10.0% to 90.0%",
        "0 went from 90.0% to 10.0%",
    )
    assert largest_shift({-3: 9}, {1: 9}).startswith(
        ("-4 to -7 went from 0.0%", "1 went from 100.0%")
    )
    assert largest_shift({NULL_BUCKET: 9, "a": 1}, {"a": 10}).startswith("NULL went from 0.0%")
    assert largest_shift({REST: 9, "a": 1}, {"a": 10}).startswith("other values went from 0.0%")
    assert largest_shift({}, {"a": 1}) == ""


def test_texts_that_never_come_again_or_are_too_many_are_not_usual() -> None:
    currencies = [{"EUR": 90, "USD": 10}] * 6 + [{"EUR": 95, "CHF": 5}]
    batches = [{f"batch {n}": 100} for n in range(7)]
    names = [{REST: 80, "a": 20}] * 7
    assert usual_histograms(
        [
            {"currency": c, "batch": b, "name": n, "old": {}}
            for c, b, n in zip(currencies, batches, names, strict=True)
        ]
    ) == {"currency": {"EUR": 635, "USD": 60, "CHF": 5}, "old": {}}
    assert has_recurring_values([{"a": 9, "b": 9, REST: 2}] * 9), (
        "a tenth of the rows may have other values"
    )
    assert not has_recurring_values([{"a": 9, "b": 8, REST: 3}] * 9)
    assert not has_recurring_values([{f"v{n}": 9 for n in range(16)}] * 9), (
        "which of many are the most frequent is chance"
    )
