"""Files that are written again and again, as others see them: over after their time, by the place's
clock, whatever the clock here says. Not here: taking a lease over (`buckets.test_leases`), markers
of runs (`kernel.log.test_run_markers`)."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.lease_watch import CLOCK, LeaseWatch, shown_lately
from backfill_assets_tests.clocks import Clock, set_to


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    """An empty place."""
    return Folder(str(tmp_path))


def left(place: Folder, name: str, age: float, **body: object) -> None:
    """A lease of a process that died so many seconds ago by the store's clock."""
    place.write(name, json.dumps({"seconds": 30.0, "owner": "another", **body}).encode())
    now = place.write("now", b"").changed_at
    os.utime(place.local(name), (now - age, now - age))


def test_a_waiter_takes_no_lease_that_is_renewed(place: Folder) -> None:
    left(place, "x.lock", 40)
    watch = LeaseWatch(place, "x.lock")
    watch.look()
    assert watch.is_over()
    left(place, "x.lock", 39)
    watch.look()
    assert not watch.is_over(), "it changed since the first look, whatever its time says"


@pytest.mark.parametrize("wrong_by", [timedelta(minutes=-10), timedelta(), timedelta(minutes=10)])
def test_only_what_was_written_within_its_time_counts_as_shown(
    place: Folder, wrong_by: timedelta
) -> None:
    with set_to(Clock(wrong_by)):
        left(place, "lately", 20)
        left(place, "long ago", 40)
        left(place, "given up", 1, seconds=0)
        names = ("lately", "long ago", "given up", "never")
        assert shown_lately(place, names) == {"lately"}


def test_the_places_time_is_asked_only_where_there_is_a_file(place: Folder) -> None:
    assert shown_lately(place, ["never"]) == frozenset()
    assert place.token(CLOCK) is None


@pytest.mark.parametrize("seconds", ["30", None, -1, 10**400, float("nan"), [30]])
def test_a_damaged_lease_is_neither_held_for_ever_nor_over_at_once(
    place: Folder, seconds: object
) -> None:
    left(place, "lately", 20, seconds=seconds)
    left(place, "long ago", LeaseWatch.SHOWN_SECONDS + 10, seconds=seconds)
    assert shown_lately(place, ["lately", "long ago"]) == {"lately"}
