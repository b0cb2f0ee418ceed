"""Fixtures that the tests in a browser share.

Lives here: Chromium, a running site and a tab on it, each module's own. Does not live here: what they do (`ui`,
`site`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from backfill_assets_tests.browser.site import Site, site
from backfill_assets_tests.browser.ui import Ui, browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """The browser."""
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def spark_server(chromium: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The running site; its lake has a Spark server of its own. Not started where there is no browser."""
    assert chromium.is_connected()
    with site(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture
def ui(chromium: "Browser", spark_server: Site) -> Iterator[Ui]:
    """A tab on the site."""
    page = chromium.new_page(viewport={"width": 1400, "height": 900})
    yield Ui(page, spark_server.url)
    page.close()
