"""Dagster's pages as a person uses them: where to click, and what to wait for. Facts of Dagster
1.13's web UI. Here: the selectors, in one place, and the screenshots. Not here: what must be seen
(`test_ui`). Names of buttons begin with the icon's name, so that text is matched, not accessible
names."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets_tests.processes import CHECKOUT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

SHOTS = CHECKOUT / ".artifacts" / "browser"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Set to `required` by .ci/run: a missing browser fails there, and skips elsewhere.
REQUIRED = "BACKFILL_ASSETS_BROWSER"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
LOCATION = "backfill_assets.definitions"
PATIENCE_MS = 240_000
DAYS_SHOWN = """query ($path: [String!]!) { assetNodeOrError(assetKey: {path: $path}) {
  ... on AssetNode { partitionStats { numMaterialized numFailed numPartitions } } } }"""
BACKFILL = """query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { id status runs(limit: 100) { id } } } }"""
BROKEN_RUNS = """{ runsOrError(filter: {statuses: [FAILURE, CANCELED]}) { ... on Runs { results { runId } } } }"""
SETTLED_MS = 600  # after the network is quiet the graphs still fade in
LOOK_MS = 250
MOST_LOOKS = 24


@contextmanager
def browser() -> "Iterator[Browser]":
    """Chromium without a screen; skips the test where none is installed, unless one is required."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        told = f"none of {', '.join(BROWSERS)} is installed"
        if os.environ.get(REQUIRED) == "required":
            pytest.fail(f"{told}, and {REQUIRED}=required")
        pytest.skip(f"{told}: on Debian, apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=FLAGS)
        try:
            yield opened
        finally:
            opened.close()


class Ui:
    """One tab of the browser on one site. Every picture taken is kept under `SHOTS`."""

    def __init__(self, page: "Page", url: str) -> None:
        self.page, self.url = page, url
        page.set_default_timeout(PATIENCE_MS)
        SHOTS.mkdir(parents=True, exist_ok=True)

    def go(self, path: str) -> None:
        """Open a page and wait until it has drawn itself."""
        self.page.goto(self.url + path)
        self.settle()

    def settle(self) -> None:
        """Wait until the network is quiet and the page says the same twice and loads nothing: on a
        busy machine it is quiet before the page has begun to draw itself. A page with a running
        clock never does: it is left at that."""
        self.page.wait_for_load_state("networkidle")
        last = self.text()
        for _ in range(MOST_LOOKS):
            self.page.wait_for_timeout(SETTLED_MS)
            now = self.text()
            if now == last and "Loading" not in now:
                return
            last = now

    def shot(self, name: str) -> Path:
        """A picture of what is to be seen now."""
        file = SHOTS / f"{name}.png"
        self.page.screenshot(path=file)
        return file

    def took(self, what: str, seconds: float) -> None:
        """Keep a duration beside the pictures: told, never judged."""
        with (SHOTS / "times.txt").open("a", encoding="utf-8") as times:
            times.write(f"{seconds:6.1f} s  {what}\n")

    def text(self) -> str:
        """All text of the page."""
        return self.page.locator("body").inner_text()

    def says(self, *texts: str) -> str:
        """All text of the page once it holds all of these, line breaks as blanks. Fails after
        `PATIENCE_MS`."""
        for _ in range(PATIENCE_MS // LOOK_MS):
            found = " ".join(self.text().split())
            if all(text in found for text in texts):
                return found
            self.page.wait_for_timeout(LOOK_MS)
        pytest.fail(f"the page never says {[t for t in texts if t not in found]}, but: {found}")

    def ask_for(self, days: str) -> "Locator":
        """Open the page's Materialize dialog and choose days: one, or `[first...last]`. Of many it
        shows the newest 90 first."""
        self.page.locator("button", has_text="Materialize").first.click()
        dialog = self.page.locator("[role=dialog]").first
        self.settle()
        if "Show all partitions" in dialog.inner_text():
            dialog.get_by_text("Show all partitions").click()
            self.settle()
        field = dialog.locator("input[type=text]").first
        field.fill(days)
        field.press("Enter")
        self.page.wait_for_timeout(500)
        return dialog

    def launch_run(self, days: str) -> float:
        """Launch one run from the page, follow it, and give the seconds from the click to its end
        on the page."""
        dialog = self.ask_for(days)
        began = time.monotonic()
        dialog.locator("button", has_text=re.compile("^.*Launch 1 run")).click()
        self.page.locator("[data-sonner-toast]").get_by_text("View").click()
        self.ended()
        return time.monotonic() - began

    def start_backfill(self, days: str) -> str:
        """Launch a backfill from the page; its id."""
        dialog = self.ask_for(days)
        dialog.locator("button", has_text="Launch backfill").click()
        self.page.locator("[data-sonner-toast]").get_by_text("View").click()
        self.page.wait_for_url("**/runs/b/**")
        return self.page.url.rsplit("/", 1)[-1].split("?")[0]

    def launch_backfill(self, days: str) -> tuple[str, int, float]:
        """Launch a backfill from the page; how it ended, its number of runs, and the seconds from
        opening the dialog to then.

        Asked of the same GraphQL that the page asks: on the page the words of a state are also
        column headers.
        """
        began = time.monotonic()
        found = self._backfill(self.start_backfill(days))
        while found["status"] == "REQUESTED":
            assert time.monotonic() < began + PATIENCE_MS / 1000, found
            self.page.wait_for_timeout(500)
            found = self._backfill(found["id"])
        seconds = time.monotonic() - began
        self.page.reload()
        self.settle()
        return found["status"], len(found["runs"]), seconds

    def _backfill(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._query(BACKFILL, id=name)["partitionBackfillOrError"]
        return found

    def days_shown(self, table: str) -> tuple[int, int]:
        """How many days of a table Dagster shows as materialized and as failed."""
        found = self._query(DAYS_SHOWN, path=[table])["assetNodeOrError"]["partitionStats"]
        return found["numMaterialized"], found["numFailed"]

    def broken_runs(self) -> set[str]:
        """The runs that Dagster shows as failed or canceled."""
        return {r["runId"] for r in self._query(BROKEN_RUNS)["runsOrError"]["results"]}

    def _query(self, query: str, **variables: Any) -> dict[str, Any]:
        """The answer of the GraphQL address that the pages use."""
        asked = {"query": query, "variables": variables}
        answer: dict[str, Any] = self.page.request.post(f"{self.url}/graphql", data=asked).json()
        found: dict[str, Any] = answer["data"]
        return found

    def re_execute(self) -> float:
        """Run the run on this page again, all of it, and give the seconds from the click to the new
        one's end."""
        before, began = self.page.url, time.monotonic()
        self.page.locator("button", has_text="Re-execute all").first.click()
        self.page.wait_for_url(
            lambda url: "/runs/" in url and url.split("?")[0] != before.split("?")[0]
        )
        self.ended()
        return time.monotonic() - began

    def ended(self) -> None:
        """Wait until the run on this page has ended."""
        self.page.get_by_text(re.compile("^(Success|Failure|Canceled)$")).first.wait_for()
        self.settle()
