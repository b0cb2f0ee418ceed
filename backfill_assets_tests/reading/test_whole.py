"""Folders that count as a whole: seen whole or not at all, wherever the command that makes or
deletes one is killed. Not here: what snapshots and candidates keep (`candidates.candidates`)."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from backfill_assets.buckets.bucket import Bucket
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import AlreadyThere, Changed, Held, Place
from backfill_assets.kernel.tables.table_places import SNAPSHOT_FILE
from backfill_assets.reading.whole import snapshots_of

pytestmark = pytest.mark.usefixtures("processes")  # a server of buckets
CONTENT = b'{"name": "spring"}'
VERBS = ("write", "copy", "sync", "delete", "delete_below")


class Killed(BaseException):
    """A process that dies: nothing that it would do afterwards happens."""


class Mortal:
    """A place whose process dies before a step, and does nothing afterwards."""

    def _step(self) -> None:
        LEFT[0] -= 1
        if LEFT[0] < 0:
            raise Killed

    def __getattribute__(self, name: str) -> object:
        if name in VERBS:
            object.__getattribute__(self, "_step")()
        return super().__getattribute__(name)


class MortalFolder(Mortal, Folder):
    """A folder of it."""


class MortalBucket(Mortal, Bucket):
    """A bucket of it."""


LEFT = [0]  # steps


def mortal_of(place: Place) -> Place:
    if isinstance(place, Bucket):
        return MortalBucket(place.address, place.machine, place.folder)
    return MortalFolder(place.uri())


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "folder":
        return Folder(str(tmp_path))
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    return place_at(local_root(request.getfixturevalue("bucket_address")))


def make(lake: Place, name: str = "spring") -> None:
    snapshots = snapshots_of(lake)
    with snapshots.making(name) as finish:
        for n in range(3):
            snapshots.place.write(f"{name}/raw/{n}", b"rows")
        finish(CONTENT)


def whole_or_nothing(lake: Place) -> bool:
    """Whether the folder counts; if so it has all its files."""
    snapshots = snapshots_of(lake)
    if "spring" not in snapshots.names():
        return False
    assert snapshots.place.below("spring") == [
        *(f"spring/raw/{n}" for n in range(3)),
        f"spring/{SNAPSHOT_FILE}",
    ]
    assert snapshots.place.read(f"spring/{SNAPSHOT_FILE}") == CONTENT
    return True


@pytest.mark.parametrize("does", ["make", "delete"])
def test_wherever_a_command_is_killed_the_folder_is_whole_or_cleared_by_the_next_one(
    lake: Place, does: str
) -> None:
    outcomes, top = list[bool](), lake
    for step in range(30):
        lake = top.at(f"{does}{step}")
        mortal = mortal_of(lake)
        if does == "delete":
            make(lake)
        LEFT[0] = step
        try:
            make(mortal) if does == "make" else snapshots_of(mortal).delete("spring")
        except Killed:
            killed = True
        else:
            killed = False
        outcomes.append(whole_or_nothing(lake))
        with snapshots_of(lake).alone():
            left = snapshots_of(lake).place.below()
            assert bool(left) == outcomes[-1], "what did not count is gone"
        if not outcomes[-1]:
            make(lake)
        assert whole_or_nothing(lake)
        if not killed:
            break
    assert not killed, "the last one was not killed"
    assert sorted(outcomes, reverse=does == "delete") == outcomes, (
        "before one step it is old, from then on new"
    )
    assert {*outcomes} == {True, False}


def test_of_two_that_make_a_folder_of_one_name_one_does(lake: Place) -> None:
    snapshots = snapshots_of(lake)
    with snapshots.making("spring") as finish:
        with pytest.raises(AlreadyThere), snapshots.making("spring"):
            raise AssertionError
        finish(CONTENT)
    with pytest.raises(AlreadyThere), snapshots.making("spring"):
        raise AssertionError
    assert snapshots.names() == ["spring"]


@pytest.mark.parametrize("others", ["began", "are done"])
def test_a_command_taken_for_a_stopped_one_finishes_nothing_and_leaves_what_others_made(
    lake: Place, others: str
) -> None:
    snapshots, other = snapshots_of(lake), ExitStack()
    with pytest.raises(Changed), snapshots.making("spring") as finish:  # noqa: PT012
        snapshots.sweep()
        finish_other = other.enter_context(snapshots.making("spring"))
        if others == "are done":
            finish_other(CONTENT)
        finish(b"{}")
    if others == "began":
        finish_other(CONTENT)
    other.close()
    assert snapshots.place.read(f"spring/{SNAPSHOT_FILE}") == CONTENT


def test_one_command_at_a_time_makes_or_deletes_such_folders(lake: Place) -> None:
    with (
        snapshots_of(lake).alone(),
        pytest.raises(Held, match="the snapshots"),
        snapshots_of(lake).alone(seconds=0),
    ):
        raise AssertionError


def test_what_earlier_versions_left_goes_and_a_folder_without_its_file_stays(lake: Place) -> None:
    snapshots = snapshots_of(lake)
    lake.write(".snapshots/.spring/raw/0", b"")
    lake.write(".snapshots/theirs/notes.txt", b"")
    assert (snapshots.names(), snapshots.leftovers(), snapshots.unfinished()) == (
        [],
        [".spring", "theirs"],
        [".spring"],
    )
    snapshots.sweep()
    assert snapshots.leftovers() == ["theirs"]
    with pytest.raises(AlreadyThere):
        make(lake, "theirs")
