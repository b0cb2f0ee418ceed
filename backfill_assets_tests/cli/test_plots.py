"""Drawn plots as parts of a page: ids of their own, colours of the page.

Tested here: `cli.plots`. Not tested here: the pages (`test_lateness`, `test_report_page`).
"""

import sys

import pytest

from backfill_assets.cli.plots import inline, svg
from backfill_assets.core.errors import BackfillError


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
