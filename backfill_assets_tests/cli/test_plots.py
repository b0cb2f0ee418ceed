"""Drawn plots as parts of a page: ids of their own, colours of the page.

Tested here: `cli.plots`. Not tested here: the pages (`test_lateness_page`, `test_report_page`).
"""

import sys

import pytest

from backfill_assets.cli.plots import MOST_COLUMNS, check_figure, drift_figures, inline, svg
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.gates import Finding
from backfill_assets.operations.check_history import CheckHistory, ColumnDrift, DriftReport
from backfill_assets_tests.builders import day


def test_an_svg_becomes_an_element_with_ids_of_its_own() -> None:
    svg = """<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://x" viewBox="0 0 1 2" width="3"><metadata>
    http://y</metadata><g id="a" fill="url(#b)" style="stroke: #000004"/><use xlink:href="#a"/></svg>"""
    assert inline("n", svg) == (
        '<svg viewBox="0 0 1 2" role="img" aria-labelledby="n-caption"><g id="n-a" fill="url(#n-b)" '
        'style="stroke: var(--accent)"/><use xlink:href="#n-a"/></svg>'
    )


def test_without_matplotlib_the_error_names_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    with pytest.raises(BackfillError, match=r"No page was written.*'backfill-assets\[pictures\]'"):
        svg("name", lambda axes: None)


def test_the_columns_that_are_off_most_are_drawn_and_a_column_that_is_not_is_left_out() -> None:
    off = [ColumnDrift("t", f"c{n}", day(9), 9, None, None, 2.0, 9.0 - n) for n in range(MOST_COLUMNS + 1)]
    fine = [ColumnDrift("t", c, day(n), 9, 0.1, 0.1, None, 0.0) for c in ("c0", "fine") for n in range(9)]
    drawn = drift_figures(DriftReport((*off, *fine)))
    assert [f.title for f in drawn] == [f"Drift of c{n} in t" for n in range(MOST_COLUMNS)]
    assert len({f.name for f in drawn}) == MOST_COLUMNS
    assert "dotted: the bound of 0.25" in drawn[0].caption


def test_checks_of_three_years_stay_a_small_figure() -> None:
    tables = ("raw", "staging", "features", "features_as_known", "labels", "training")
    found = tuple(Finding("c", day(n), False, n % 2 == 0, "") for n in range(1096))
    drawn = check_figure([CheckHistory(t, c, 1096, found) for t in tables for c in ("row_count", "profile")])
    assert drawn is not None
    assert "a week with such a day" in drawn.caption
    assert len(drawn.svg) < 600_000
    assert check_figure([CheckHistory("t", "c", 9, ())]) is None
