"""What a look at a source that is a Delta table of others asks of their bucket, as moto counts it.

Lives here: budgets of a first look, one without news and one after a commit, at two lengths of the
log. Does not live here: what such a look finds (`test_table_sources`, `test_table_history`).
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import pytest

from backfill_assets.intake.source_log import TableListing, list_source
from backfill_assets.intake.source_position import Position
from backfill_assets.kernel.log.log import LOG, commit_name
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets_tests.stores import StoreServer
from backfill_assets_tests.tables import long_table, settings_text

pytestmark = pytest.mark.long

PAGE = 1_000  # names by one request of a listing


class Far:
    """A table of others in a bucket, whose last commit is still to come, and looks at it."""

    def __init__(self, folder: Path, address: str, commits: int, server: StoreServer) -> None:
        self.server, self.commits, self.there = server, commits, place_of_others(address)
        long_table(folder / "orders", commits)
        self.here = Folder(str(folder / "orders"))
        names = [name for name in self.here.below() if name != commit_name(commits)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self.there.copy, names, repeat(self.here), names))
        self.lake = folder
        (folder / "lake.toml").write_text(settings_text(address))
        self.known: Position | None = None  # of the look before

    def commit(self) -> None:
        """The last commit."""
        self.there.copy(commit_name(self.commits), self.here, commit_name(self.commits))

    def look(self) -> tuple[range, Counter[str]]:
        """The versions that a look reads, and its requests about the log by their kind."""
        self.server.seen()
        listing = list_source(load_settings(self.lake).source, self.lake, self.known)
        assert isinstance(listing, TableListing)
        self.known = listing.position
        asked = [request for request in self.server.seen() if LOG in request]
        return listing.read, Counter(request.partition(" ")[0] for request in asked)


@pytest.mark.slow
@pytest.mark.parametrize("commits", [100, 1_000])
def test_a_look_without_news_is_one_request_and_each_new_commit_is_fetched_once(
    moto_server: StoreServer, bucket_address: str, tmp_path: Path, commits: int
) -> None:
    far = Far(tmp_path, f"{bucket_address}/orders", commits, moto_server)
    assert far.look() == (range(commits), {"LIST": 1, "GET": commits})
    assert far.look() == (range(commits, commits), {"LIST": 1}), "nothing is new"
    far.commit()
    pages = 1 + commits // PAGE
    assert far.look() == (range(commits, commits + 1), {"LIST": 1 + pages, "GET": 1}), (
        "what is new counts only behind a log that is the one that was read"
    )
    assert far.look() == (range(commits + 1, commits + 1), {"LIST": 1})


@pytest.mark.parametrize("edited", [1, 3])
def test_another_log_in_the_place_of_the_one_that_was_read_is_listed_and_read_whole(
    moto_server: StoreServer, bucket_address: str, tmp_path: Path, edited: int
) -> None:
    far = Far(tmp_path, f"{bucket_address}/orders", 4, moto_server)
    far.look()
    far.commit()
    name = commit_name(edited)
    far.there.write(name, far.there.read(name) + b"\n")
    assert far.look() == (range(5), {"LIST": 2, "GET": 5})
    far.there.delete(commit_name(3))
    far.there.delete(commit_name(4))
    assert far.look() == (range(3), {"LIST": 2, "GET": 3})
