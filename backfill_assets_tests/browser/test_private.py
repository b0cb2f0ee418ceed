"""Dagster's pages as `backfill-assets ui` serves them: below the secret, and live.
Not here: who gets in (`cli.test_server`), and what the pages show (`test_ui`)."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets_tests.browser.site import served
from backfill_assets_tests.readable_lake import readable_lake

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.slow
def test_pages_are_drawn_below_the_secret_and_hear_of_changes(
    chromium: "Browser", tmp_path: Path
) -> None:
    readable_lake(tmp_path / "lake")
    with served(tmp_path) as shown:
        page, heard = chromium.new_page(), []
        page.on(
            "websocket",
            lambda socket: socket.on("framereceived", lambda _: heard.append(socket.url)),
        )
        page.goto(f"{shown.url}/asset-groups")
        page.get_by_text("features_as_known").first.wait_for(timeout=120_000)
        assert page.url.startswith(shown.url)
        page.close()
    assert set(heard) == {f"{shown.url.replace('http:', 'ws:')}/graphql"}
