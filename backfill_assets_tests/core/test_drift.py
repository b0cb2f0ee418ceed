"""The population stability index: nothing for the same shape, large for another, and what is chance with few rows.

Tested here: `core.profiles`. Not tested here: counting histograms (`lake.test_audit`) and judging (`lake.test_gates`).
"""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.profiles import chance, drift, pooled, stability_index

histograms = st.dictionaries(st.integers(-64, 64), st.integers(0, 10_000), max_size=8)


@given(histograms, histograms)
def test_the_index_is_never_negative_and_the_same_both_ways(one: dict[int, int], other: dict[int, int]) -> None:
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
        beyond = [d for d in days if stability_index(d, usual) > 0.05 + chance(d, usual)]
        assert len(beyond) <= 1


def test_days_are_pooled_row_by_row() -> None:
    assert pooled([{1: 2, 3: 1}, {1: 5}]) == {1: 7, 3: 1}


def test_drift_exceeds_a_bound_only_beyond_what_is_chance() -> None:
    few, many = drift({1: 5, 2: 5}, {1: 80, 2: 20}), drift({1: 5000, 2: 5000}, {1: 80000, 2: 20000})
    assert few.index == pytest.approx(many.index)
    assert (few.exceeds(0.25), many.exceeds(0.25)) == (False, True)
