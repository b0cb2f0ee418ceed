"""Leases: taken over once their time is over, never from one who renews, and a write that is dead
commits nothing. Not here: many histories of writers and sweepers (`test_write_states`)."""

from dataclasses import replace
from datetime import timedelta
from math import inf
from pathlib import Path

import pytest

from backfill_assets.buckets import leases
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.lease_watch import LeaseWatch
from backfill_assets.kernel.place.port import LOCKS, Held, Swept
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets_tests.builders import STAGING, day, receipt
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.faults import doing_before
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.kernel.place.test_lease_watch import left


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    """An empty place."""
    return Folder(str(tmp_path))


@pytest.mark.parametrize("wrong_by", [timedelta(minutes=-10), timedelta(), timedelta(minutes=10)])
def test_the_lock_of_a_dead_process_is_anothers_after_its_time_whatever_the_clock_here_says(
    place: Folder, wrong_by: timedelta
) -> None:
    with set_to(Clock(wrong_by)):
        left(place, "x.lock", 20)
        with (
            pytest.raises(Held, match="the table x: another has held its lock"),
            leases.held_lease(place, "x.lock", "the table x", 0),
        ):
            raise AssertionError
        left(place, "x.lock", 40)
        with leases.held_lease(place, "x.lock", "the table x", 0):
            held = place.read_json("x.lock")
            assert (held["owner"] != "another", held["seconds"]) == (
                True,
                leases.LOCK_LEASE_SECONDS,
            )
        assert place.token("x.lock") is None, "it is released"


def test_who_waits_for_ever_gets_the_lock_once_its_holder_is_over(place: Folder) -> None:
    left(place, "x.lock", leases.LOCK_LEASE_SECONDS + LeaseWatch.SLACK_SECONDS - 0.2)
    with leases.held_lease(place, "x.lock", "the table x", inf):
        assert place.read_json("x.lock")["owner"] != "another"


def test_a_lock_that_was_taken_over_is_left_to_its_new_holder(place: Folder) -> None:
    with leases.held_lease(place, "x.lock", "the table x", 0):
        left(place, "x.lock", 0)
        held = leases.Lease(place, "x.lock", 30, place.write("y", b""), {})
        assert not held.renew()
        held.release()
        assert place.read_json("x.lock")["owner"] == "another"


def test_locks_of_dead_processes_are_cleared_and_those_that_are_held_or_renewed_meanwhile_stay(
    place: Folder,
) -> None:
    renewed = f"{LOCKS}/renewed.lock"
    for name, age in {"dead": 40, "held": 20, "renewed": 40}.items():
        left(place, f"{LOCKS}/{name}.lock", age)
    with doing_before(leases.take_lease, lambda: left(place, renewed, 0), name=renewed):
        leases.clear_dead_locks(place)
    assert {*place.names(LOCKS)} == {".clock", "held.lock", "renewed.lock"}
    assert place.read_json(renewed)["owner"] == "another"


def test_a_marker_is_swept_when_its_writer_is_silent_and_the_writer_then_commits_nothing(
    place: Folder,
) -> None:
    held = leases.hold_marker(place, "m/1")
    assert [*leases.abandoned_markers(place, "m", lambda *_: True)] == []
    left(place, "m/1", 1000, **{**held.body, "seconds": 120.0})
    assert [*leases.abandoned_markers(place, "m", lambda *_: True)] == ["1"]
    with pytest.raises(Swept, match="the write 1: it had not shown itself"):
        held.committing(7)
    assert [*leases.abandoned_markers(place, "m", lambda *_: True)] == ["1"], (
        "until its files are gone"
    )


@pytest.mark.parametrize("is_listed", [False, True], ids=["looked at", "listed by a store"])
def test_a_write_whose_files_another_process_of_this_machine_swept_says_that_and_no_file_name(
    place: Folder, is_listed: bool
) -> None:
    lake = bare_lake(Path(place.path))
    held, staged = write_without_files(place, lake, is_listed)
    left(place, "m/1", 1000, **{**held.body, "seconds": 120.0})
    assert [*leases.abandoned_markers(place, "m", lambda *_: True)] == ["1"]
    with pytest.raises(Swept, match="another process took it for dead and removed its files"):
        lake.store.replace_days(STAGING, staged, [day(0)], receipt())
    assert lake.store.rows("staging") == []


def test_a_write_whose_files_are_gone_though_nobody_swept_it_names_one_and_its_marker_is_swept(
    place: Folder,
) -> None:
    lake = bare_lake(Path(place.path))
    _, staged = write_without_files(place, lake, is_listed=True)
    with pytest.raises(BackfillError, match=r"part-0.parquet cannot be read"):
        lake.store.replace_days(STAGING, staged, [day(0)], receipt())
    staged.drop()

    def is_past(_write: str, version: int) -> bool:
        return staged.table.exists(commit_name(version))

    assert [*leases.abandoned_markers(place, "m", is_past)] == ["1"]


def write_without_files(place: Folder, lake: Lake, is_listed: bool) -> tuple[leases.Lease, Staged]:
    """A write that a lease marks, and whose files are gone; `is_listed`: it knows their bytes."""
    staged = stage_by_hand(lake, STAGING, [{"entity": "A", "value": 1, "event_date": day(0)}])
    if is_listed:
        staged.files = tuple(replace(f, listed=f.size) for f in staged.files)
    staged.table.delete_below(staged.name)
    held = leases.hold_marker(place, "m/1")
    return held, replace(staged, _give_up=held)


def test_a_write_that_may_be_committing_is_swept_only_when_the_log_is_past_it(
    place: Folder,
) -> None:
    held = leases.hold_marker(place, "m/1")
    held.committing(7)
    held()
    assert [*leases.abandoned_markers(place, "m", lambda *_: False)] == []
    assert [*leases.abandoned_markers(place, "m", lambda *at: at == ("1", 7))] == ["1"]
    place.delete("m/1")
    held()
    assert place.names("m") == [], "a write that is done leaves no marker"
