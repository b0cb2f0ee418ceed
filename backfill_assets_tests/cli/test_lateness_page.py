"""The page of lateness: nothing fetched, nothing run, plots with captions and numbers, whatever the lake is called.

Tested here: `cli.lateness.page`. Not tested here: the command (`test_lateness`) and the page in a browser (`browser`).
"""

import re
from dataclasses import replace

import pytest

from backfill_assets.cli.drawing import html_of
from backfill_assets.cli.lateness import page as sections_of
from backfill_assets.core.days import DayRange
from backfill_assets.operations.lateness import LatenessReport, LatenessScope, lateness
from backfill_assets_tests.operations.late_lake import FRONTIER, SINCE, late_lake


def page(report: LatenessReport) -> str:
    return html_of(sections_of(report))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> LatenessReport:
    return lateness(*late_lake(tmp_path_factory.mktemp("report")), LatenessScope(), FRONTIER)


@pytest.fixture(scope="module")
def html(report: LatenessReport) -> str:
    return page(report)


@pytest.fixture(scope="module")
def bare(report: LatenessReport) -> LatenessReport:
    """The same without what plots are drawn from, because drawing takes most of a page's time."""
    return replace(report, ages=(), by_arrival=(), completeness=())


def test_the_page_has_a_plot_with_a_caption_and_its_numbers(html: str) -> None:
    assert html.count("<figure>") == html.count("</svg>") == html.count("<figcaption") == 1
    assert html.count("<details>") == 2, "every arrival day, every event day"
    assert not re.search(r"#00000[1-5]", html), "colours are the page's own, so that they follow light and dark"
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#|aria-labelledby=")([^")]+)', html)) <= set(ids)


def test_a_range_of_arrivals_is_named_on_the_page(bare: LatenessReport) -> None:
    days = DayRange(SINCE, FRONTIER.date())
    assert f"arrived on {days}" in page(replace(bare, scope=LatenessScope(days)))


def test_of_several_sources_the_page_names_the_one_that_it_is_about(bare: LatenessReport) -> None:
    of_orders = replace(bare, scope=LatenessScope(source="orders"))
    assert "25 upserts of the source orders alone (--source NAME: of another); 1 deletes apart" in page(of_orders)
    assert "of the source" not in page(bare)
