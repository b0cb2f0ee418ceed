"""The doctor's look at a store: a good one is praised, and a broken promise is named.
Not here: the command (`upkeep.test_doctor_command`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.buckets.bucket import Bucket
from backfill_assets.buckets.doctor_store import examine_store, request_estimate
from backfill_assets.cli.findings import Level
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import AlreadyThere, Changed, Place, Token
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.upkeep.doctor import examine_everything
from backfill_assets_tests.files import SMALLEST

CREATES, REPLACES = (
    "of many that create an object at once",
    "of many that replace what they read at once",
)
LEAVES, STALE = "a creation leaves the object", "of what was replaced meanwhile is refused"
GONE, LISTED = "of what was deleted meanwhile is refused", "a listing shows what was written"


class NoConditions(Folder):
    """A store that ignores what a condition asks."""

    def write(self, name: str, content: bytes, **_: Any) -> Token:
        return super().write(name, content)


class Unheard(Folder):
    """A store that does what a condition forbids, and says that it did not."""

    def write(
        self,
        name: str,
        content: bytes,
        *,
        if_absent: bool = False,
        if_unchanged: Token | None = None,
        **_: Any,
    ) -> Token:
        seen = self.token(name)
        done = super().write(name, content)
        if (if_absent and seen is not None) or (if_unchanged is not None and seen != if_unchanged):
            raise (AlreadyThere if if_absent else Changed)(name)
        return done


class OldListing(Folder):
    """A store whose listings come late."""

    def below(self, folder: str = "") -> list[str]:
        return []


def told(place: Place) -> list[str]:
    """What is said of a store that breaks promises; nothing is left there."""
    found = list(examine_store(place))
    assert place.names(".locks") in ([], [".lock"])
    return [f.what for f in found if f.level is Level.ERROR]


@pytest.mark.parametrize(
    ("broken_store", "promises"),
    [
        (Folder, ()),
        (NoConditions, (CREATES, REPLACES, LEAVES, STALE, GONE)),
        (Unheard, (LEAVES, STALE, GONE)),
        (OldListing, (LISTED,)),
    ],
)
def test_a_promise_that_a_store_breaks_is_named(
    tmp_path: Path, broken_store: Callable[[str], Place], promises: tuple[str, ...]
) -> None:
    found = told(broken_store(str(tmp_path)))
    assert all(any(promise in what for what in found) for promise in promises), found
    assert bool(found) == bool(promises)


def test_a_store_that_keeps_its_promises_is_praised(bucket_address: str, tmp_path: Path) -> None:
    place = Bucket(bucket_address, str(tmp_path))
    assert told(place) == []
    assert [f.level for f in examine_store(place)] == [Level.OK]


def test_the_doctor_looks_at_the_store_of_a_lake_in_a_bucket(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    root = local_root(bucket_address)
    place_at(root).write(FILE_NAME, SMALLEST.replace('"landing', '"/landing').encode())
    found = {
        f.object: (f.level, f.what)
        for f in examine_everything(root, lambda _: ())
        if bucket_address in f.object
    }
    assert found[f"the store {bucket_address}"][0] is Level.OK
    assert "for a day of 0 table(s), 0.0000 $" in found[f"requests to {bucket_address}"][1]


def test_the_price_of_requests_follows_the_tables(tmp_path: Path) -> None:
    six, twelve = (request_estimate(Folder(str(tmp_path)), tables).what for tables in (6, 12))
    assert (
        "about 900 for a day of 6 table(s), 0.0022 $; 3 sensors each 30 s: 224,640 a day, 21.77 $ "
        "a month" in six
    )
    assert (
        "about 1,800 for a day of 12 table(s), 0.0043 $; 3 sensors each 30 s: 449,280 a day"
        in twelve
    )
