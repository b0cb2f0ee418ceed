"""Drawn plots as parts of a page: ids of their own, colours of the page.

Tested here: `cli.plots`. Not tested here: the pages (`test_lateness_page`, `test_report_page`).
"""

from backfill_assets.cli.plots import inline


def test_an_svg_becomes_an_element_with_ids_of_its_own() -> None:
    svg = """<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://x" viewBox="0 0 1 2" width="3"><metadata>
    http://y</metadata><g id="a" fill="url(#b)" style="stroke: #000004"/><use xlink:href="#a"/></svg>"""
    assert inline("n", svg) == (
        '<svg viewBox="0 0 1 2" role="img" aria-labelledby="n-caption"><g id="n-a" fill="url(#n-b)" '
        'style="stroke: var(--accent)"/><use xlink:href="#n-a"/></svg>'
    )
