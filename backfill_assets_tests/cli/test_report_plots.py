"""The axis of the plot of writes: every dot has a number on both sides, and numbers do not touch.

Tested here: `cli.report_plots`. Not tested here: the page around it (`test_report_page`).
"""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.cli.report_plots import LEAST_SECONDS, steps


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=9))
def test_every_write_of_the_plot_has_a_number_on_both_sides_and_numbers_do_not_touch(seconds: list[float]) -> None:
    ticks = steps(seconds)
    assert ticks[0] <= max(min(seconds), LEAST_SECONDS)
    assert ticks[-1] >= max(seconds)
    assert 2 <= len(ticks) <= 9
    assert all(b / a >= 1.99 for a, b in pairwise(ticks))
