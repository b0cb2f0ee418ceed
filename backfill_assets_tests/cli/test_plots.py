"""Drawn plots as parts of a page: ids of their own, colours of the page, and numbers around every dot.

Tested here: `cli.plots`. Not tested here: the pages (`test_lateness_page`, `test_report_page`).
"""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.cli.plots import LEAST_SECONDS, decades, inline


def test_an_svg_becomes_an_element_with_ids_of_its_own() -> None:
    svg = """<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://x" viewBox="0 0 1 2" width="3"><metadata>
    http://y</metadata><g id="a" fill="url(#b)" style="stroke: #000004"/><use xlink:href="#a"/></svg>"""
    assert inline("n", svg) == (
        '<svg viewBox="0 0 1 2" role="img" aria-labelledby="n-caption"><g id="n-a" fill="url(#n-b)" '
        'style="stroke: var(--accent)"/><use xlink:href="#n-a"/></svg>'
    )


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=9))
def test_every_write_of_the_plot_has_a_number_on_both_sides_and_numbers_do_not_touch(seconds: list[float]) -> None:
    ticks = decades(seconds)
    assert ticks[0] <= max(min(seconds), LEAST_SECONDS)
    assert ticks[-1] >= max(seconds)
    assert 2 <= len(ticks) <= 9
    assert all(b / a >= 9.9 for a, b in pairwise(ticks))
