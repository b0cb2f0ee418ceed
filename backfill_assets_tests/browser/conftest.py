"""Fixtures that the tests in a browser share.
Here: Chromium and a running site, one for the room, and a tab on it. Not here: what they do (`ui`,
`site`). A module that leaves days other than it found them has a site of its own."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from backfill_assets_tests.browser.site import Site, site
from backfill_assets_tests.browser.ui import Ui, browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def chromium() -> "Iterator[Browser]":
    """The browser."""
    with browser() as opened:
        yield opened


@pytest.fixture(scope="package")
def dagster_dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`dagster dev` as it is shipped, over a sample lake, which has a Spark server of its own."""
    with site(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="package")
def spark_server(chromium: "Browser", request: pytest.FixtureRequest) -> Site:
    """The running site. Not started where there is no browser."""
    assert chromium.is_connected()
    running: Site = request.getfixturevalue("dagster_dev")
    return running


@pytest.fixture
def ui(chromium: "Browser", spark_server: Site) -> Iterator[Ui]:
    """A tab on the site."""
    page = chromium.new_page(viewport={"width": 1400, "height": 900})
    yield Ui(page, spark_server.url)
    page.close()
