"""Our own pages in a browser: accessible by an automatic look (axe), whole without a network, quick
with three years. Not here: what they say (`reports/test_report_command.py`, …)."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.cli.drawing import html_of
from backfill_assets.dagster.adapter.history import PastRun
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.reading.account import Account
from backfill_assets.reading.writes import table_writes
from backfill_assets.reports.lateness import LatenessScope, lateness_report
from backfill_assets.reports.lateness_command import page_of_lateness as lateness_page
from backfill_assets.reports.report import Delivered, LakeReport, report_of_lake, table_durations
from backfill_assets.reports.report_page import lake_page as report_page
from backfill_assets.reports.status import lake_status
from backfill_assets_tests.browser.ui import SHOTS
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.late_lake import FRONTIER, late_lake
from backfill_assets_tests.readable_lake import readable_lake
from backfill_assets_tests.synthetic import START, synthetic_lake

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SEEN = [
    PastRun(
        "0123456789",
        "rebuild",
        "failure",
        DayRange(START, START + ONE_DAY * 31),
        "manual",
        NOW,
        12.5,
        "it broke",
    )
]
YEARS_3 = 1096


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages as files, by name."""
    folder = tmp_path_factory.mktemp("pages")
    lake, pipeline = late_lake(folder / "lake")
    found = report_of_lake(lake, pipeline, NOW)
    measured = tuple(replace(w, seconds=1.0 + n) for n, w in enumerate(found.writes))
    told = replace(
        found, writes=measured, durations=table_durations(measured, list(found.status.tables))
    )
    big, big_pipeline = synthetic_lake(folder / "big", YEARS_3)
    long = LakeReport(
        NOW,
        lake_status(big, big_pipeline),
        Delivered(Account(), {}),
        None,
        (),
        table_writes(big, big_pipeline),
    )
    texts = {
        "report": html_of(report_page(told, SEEN)),
        "report of three years": html_of(report_page(long, SEEN)),
        "lateness": html_of(
            lateness_page(lateness_report(lake, pipeline, LatenessScope(), FRONTIER))
        ),
    }
    written = {}
    for name, text in texts.items():
        written[name] = folder / f"{name}.html"
        written[name].write_text(text, encoding="utf-8")
    readable_lake(folder / "readable")
    written["reconcile"] = folder / "reconcile.html"
    sides = (
        "staging",
        "--with",
        "duckdb:SELECT * FROM staging WHERE value < 9",
        "--sample",
        "2",
        "--sha256",
    )
    run("reconcile", *sides, "--html", written["reconcile"], "--lake", folder / "readable")
    return written


def opened(chromium: "Browser", file: Path, **options: Any) -> "Page":
    """The page in a browser without a network."""
    page = chromium.new_context(offline=True, **options).new_page()
    page.goto(file.as_uri())
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "report of three years", "lateness", "reconcile"])
def test_a_page_has_no_violation_that_an_automatic_look_finds(
    chromium: "Browser", pages: dict[str, Path], name: str, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(
        chromium,
        pages[name],
        color_scheme=scheme,
        bypass_csp=True,
        viewport={"width": 1200, "height": 900},
    )
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]})
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"page_{name.replace(' ', '_')}_{scheme}.png", full_page=True)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("name", ["report", "report of three years", "lateness", "reconcile"])
def test_a_page_says_nothing_on_the_console_and_does_not_scroll_sideways(
    chromium: "Browser", pages: dict[str, Path], name: str
) -> None:
    page = chromium.new_context(offline=True, viewport={"width": 420, "height": 800}).new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(pages[name].as_uri())
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.screenshot(path=SHOTS / f"page_{name.replace(' ', '_')}_narrow.png")


def test_everything_that_opens_or_scrolls_is_reached_by_the_keyboard(
    chromium: "Browser", pages: dict[str, Path]
) -> None:
    page = opened(chromium, pages["report"])
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName"))
    assert {"A", "SUMMARY", "DIV"} <= reached
