"""Leases whose bytes are others: who waits is told in one line, nobody holds for ever, and what a
writer had begun is not taken for dead sooner than its time.

Tested here: locks and markers of a store, damaged by seeds. Not tested here: files of a lake in a
folder (`test_fuzz`), leases that are as they were written (`buckets.test_leases`).
"""

import os
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.buckets import leases
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.lease_watch import shown_lately
from backfill_assets.kernel.place.port import LOCK_SECONDS, LOCKS, Held, Swept
from backfill_assets_tests.fuzz.damage import damage_of
from backfill_assets_tests.fuzz.judge import MOST_CHARS

pytestmark = pytest.mark.slow
LOCK, WHAT = f"{LOCKS}/staging.lock", "the table staging"
MARKERS = "markers"
MARKER = f"{MARKERS}/1"
LONG_AGO = LOCK_SECONDS + 10  # more than any lease may name
SEEDS = int(os.environ.get("BACKFILL_ASSETS_DAMAGED_LEASES", "150"))  # a few seconds
damaged = settings(max_examples=SEEDS)
seeds = st.integers(0, 10**9)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A place whose files can be made old, as no store lets one do."""
    return Folder(str(tmp_path_factory.mktemp("place")))


def damage_lease(place: Folder, name: str, seed: int, age: float) -> None:
    """Give a lease that lies there other bytes, written so many seconds ago."""
    chance = Random(f"lease {seed}")
    other = b'{"state": "dead", "seconds": 0, "owner": "another", "nonce": "n"}'
    found = damage_of(chance, {name: place.read(name), f"{name}.another": other}, name)
    place.write(name, b"" if found.content is None else found.content)
    now = place.write("now", b"").changed_at
    os.utime(place.local(name), (now - age, now - age))


def take(place: Folder, name: str, seconds: float) -> leases.Lease:
    """A lease of this process that nothing renews."""
    place.delete(name)
    return leases.take_lease(place, name, seconds)


def hold(place: Folder) -> None:
    """Take the lock, or give up at once."""
    with leases.held_lease(place, LOCK, WHAT, 0):
        pass


@damaged
@given(seeds)
def test_who_waits_for_a_damaged_lock_gets_it_or_is_told_in_one_line_and_later_gets_it(
    place: Folder, seed: int
) -> None:
    take(place, LOCK, leases.LOCK_LEASE_SECONDS)
    damage_lease(place, LOCK, seed, age=0)
    shown_lately(place, [LOCK])
    leases.clear_dead_locks(place)
    try:
        hold(place)
    except Held as error:
        told = str(error)
        assert told.startswith(f"{WHAT}: ")
        assert told.isprintable()
        assert len(told) < MOST_CHARS
    take(place, LOCK, leases.LOCK_LEASE_SECONDS)
    damage_lease(place, LOCK, seed, age=LONG_AGO)
    hold(place)
    assert place.token(LOCK) is None


@damaged
@given(seeds)
def test_a_damaged_marker_ends_no_sweep_and_its_writer_commits_nothing(
    place: Folder, seed: int
) -> None:
    """A sweeper asks for commits by names only that a log can have; a write that may be committing
    is dead only where the log says so, or where the marker says that it is none."""
    asked = list[int]()

    def is_past(_write: str, version: int) -> bool:
        asked.append(version)
        return False

    held = take(place, MARKER, leases.WRITE_LEASE_SECONDS)
    held.renew(state=leases.COMMITTING, version=7)
    damage_lease(place, MARKER, seed, age=LONG_AGO)
    says = place.read_json(MARKER).get("state")
    swept = [*leases.abandoned_markers(place, MARKERS, is_past)]
    assert swept == (["1"] if says in (leases.STAGED, leases.DEAD) else [])
    assert all(len(commit_name(version)) == len(commit_name(0)) for version in asked)
    with pytest.raises(Swept):
        held.committing(8)
