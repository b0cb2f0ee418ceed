"""Who lives: every way for a run to end or to be silent, whatever the clock of the machine that
looks says. Not here: what readers see meanwhile (`test_versions`), and Dagster's record of dead
runs (`dagster.adapter.test_run_liveness`)."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.buckets import leases
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.log.run_markers import (
    BEAT,
    UNKNOWN_PROCESS,
    Life,
    drop_marker,
    drop_old_markers,
    life_of,
    live_runs,
    mark_run,
    mark_step,
    process_of,
)
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.lease_watch import CLOCK, place_time, shown_lately
from backfill_assets.kernel.place.port import (
    LOCKS,
    SHOWN_SECONDS,
    LockedMarker,
    Place,
    Token,
)
from backfill_assets.kernel.place.processes import PlacedProcess, Process
from backfill_assets_tests.clocks import Clock, set_to

NAME = ".runs/dagster/run"
HERE = PlacedProcess.this()
IN_ANOTHER_CONTAINER = replace(HERE, numbering="pid:[1]", pid=7)
ON_ANOTHER_HOST = replace(HERE, host="elsewhere", boot="another", pid=7)
HOUR, DAY = 3600.0, 86_400.0
# Who works on the run; seconds since its last sign of life; what can be said of it.
CASES = {
    "at work on this machine": (HERE, 5.0, Life.LIVES),
    "of a laptop that just woke": (HERE, 8 * HOUR, Life.LIVES),
    "killed on this machine": (replace(HERE, pid=2**22 + 1), 5.0, Life.GONE),
    "killed, and its number is another's": (
        replace(HERE, started=HERE.started - 60),
        5.0,
        Life.GONE,
    ),
    "killed by a reboot of this host": (replace(HERE, boot="an earlier one"), 5.0, Life.GONE),
    "at work in another container": (IN_ANOTHER_CONTAINER, 60.0, Life.LIVES),
    "killed with its pod": (IN_ANOTHER_CONTAINER, 130.0, Life.LAPSED),
    "at work on another host": (ON_ANOTHER_HOST, 60.0, Life.LIVES),
    "killed with its host": (ON_ANOTHER_HOST, 130.0, Life.LAPSED),
    "whose steps are pods, at work": (UNKNOWN_PROCESS, 60.0, Life.LIVES),
    "whose steps are pods, killed": (UNKNOWN_PROCESS, 130.0, Life.LAPSED),
}
OF_EARLIER_RELEASES = {  # who works on it; seconds since it began; what can be said of it
    "at work on this machine": (HERE, 3 * DAY, Life.LIVES),
    "unseen since a while": (IN_ANOTHER_CONTAINER, 20 * HOUR, Life.LIVES),
    "unseen for days": (IN_ANOTHER_CONTAINER, 2 * DAY, Life.LAPSED),
}


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    """A folder without a lake."""
    return Folder(str(tmp_path))


@pytest.fixture(params=[-HOUR, 0.0, HOUR])
def _clock(request: pytest.FixtureRequest) -> Iterator[None]:
    """This machine's clock is off by so many seconds; that of the file system is not."""
    with set_to(Clock(timedelta(seconds=request.param))):
        yield


def age(place: Place, name: str, seconds: float) -> None:
    """The file was written last so long ago, by the clock of the file system."""
    now = place_time(place)
    os.utime(place.local(name), (now - seconds, now - seconds))


def left(place: Place, process: PlacedProcess, silent: float) -> None:
    """A marker of that process, which has shown no sign of life for so many seconds."""
    place.write(NAME + BEAT, b"of another kernel")
    place.write_json(NAME, asdict(process))
    age(place, NAME + BEAT, silent)


def showing(place: Place) -> list[threading.Thread]:
    """The threads that show the run."""
    return [thread for thread in threading.enumerate() if thread.name.endswith(place.uri(NAME))]


@pytest.mark.usefixtures("_clock")
@pytest.mark.parametrize("case", CASES)
def test_a_run_lives_as_long_as_it_shows_itself_whatever_this_machines_clock_says(
    place: Folder, case: str
) -> None:
    process, silent, expected = CASES[case]
    left(place, process, silent)
    assert life_of(place, NAME) is expected
    assert live_runs(place) == ({"run"} if expected is Life.LIVES else frozenset())
    assert live_runs(place, {"run"}) == frozenset()


@pytest.mark.usefixtures("_clock")
@pytest.mark.parametrize("case", OF_EARLIER_RELEASES)
def test_a_run_of_an_earlier_release_which_shows_nothing_is_waited_for_a_day(
    place: Folder, case: str
) -> None:
    process, old, expected = OF_EARLIER_RELEASES[case]
    place.write_json(NAME, asdict(process))
    age(place, NAME, old)
    assert life_of(place, NAME) is expected


def test_the_kernel_of_two_containers_knows_at_once_that_a_run_in_one_of_them_was_killed(
    place: Folder,
) -> None:
    hold = place.hold(NAME + BEAT)
    place.write_json(NAME, asdict(IN_ANOTHER_CONTAINER))
    assert life_of(place, NAME) is Life.LIVES
    hold()
    assert life_of(place, NAME) is Life.LAPSED


def test_a_lock_that_is_held_is_no_sign_of_life_of_a_run_that_was_stopped(place: Folder) -> None:
    place.hold(NAME + BEAT)
    place.write_json(NAME, asdict(IN_ANOTHER_CONTAINER))
    age(place, NAME + BEAT, SHOWN_SECONDS + 10)
    assert life_of(place, NAME) is Life.LAPSED


@pytest.mark.usefixtures("processes")
def test_a_run_that_was_stopped_by_a_signal_lives_until_it_has_shown_no_sign_of_life_for_its_time(
    place: Folder,
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        seen = Process.of(child.pid)
        assert seen is not None
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        left(place, PlacedProcess.of(seen), 60)
        assert life_of(place, NAME) is Life.LIVES
        age(place, NAME + BEAT, 130)
        assert life_of(place, NAME) is Life.LAPSED
        child.send_signal(signal.SIGCONT)
        os.waitpid(child.pid, os.WCONTINUED)
        assert life_of(place, NAME) is Life.LIVES
        child.kill()
        child.wait()
        assert life_of(place, NAME) is Life.GONE


def test_whoever_may_not_ask_the_place_for_its_time_waits_for_a_run_that_he_cannot_see(
    place: Folder,
) -> None:
    left(place, ON_ANOTHER_HOST, HOUR)
    place.delete_below(LOCKS)
    place.write(LOCKS, b"")  # so that nothing can be written there
    assert life_of(place, NAME) is Life.LIVES
    place.delete(NAME + BEAT)
    age_by_hand = utc_now().timestamp() - 2 * DAY
    os.utime(place.local(NAME), (age_by_hand, age_by_hand))
    assert life_of(place, NAME) is Life.LAPSED


def test_a_run_shows_itself_again_and_again_until_its_marker_is_gone(tmp_path: Path) -> None:
    shown = threading.Event()

    @dataclass(frozen=True)
    class Marker(LockedMarker):
        def beat(self) -> None:
            super().beat()
            shown.set()

    class Telling(Folder):
        def hold(self, name: str) -> Marker:
            return Marker(super().hold(name).descriptor)

    place = Telling(str(tmp_path))
    mark_run(place, NAME, 0.005)
    (thread,) = showing(place)
    mark_run(place, NAME)
    assert showing(place) == [thread], "it is shown already"
    age(place, NAME + BEAT, HOUR)
    shown.clear()
    assert shown.wait(60)
    place.write_json(NAME, asdict(IN_ANOTHER_CONTAINER))
    assert life_of(place, NAME) is Life.LIVES
    drop_marker(place, NAME)
    thread.join(60)
    assert not thread.is_alive()
    assert place.names(".runs/dagster") == []


def test_a_step_in_a_process_of_its_own_shows_the_run_and_leaves_its_marker_as_it_is(
    place: Folder,
) -> None:
    mark_step(place, NAME, ON_ANOTHER_HOST)
    mark_step(place, NAME)
    assert process_of(place, NAME) == ON_ANOTHER_HOST
    assert life_of(place, NAME) is Life.LIVES
    age(place, NAME + BEAT, SHOWN_SECONDS + 10)
    assert life_of(place, NAME) is Life.LAPSED, "between two steps nobody locks it"
    drop_marker(place, NAME)
    assert not place.exists(NAME + BEAT)


def test_a_run_in_a_bucket_is_shown_by_a_lease(tmp_path: Path) -> None:
    class Bucket(Folder):
        def hold(self, name: str) -> leases.Lease:  # type: ignore[override]
            return leases.hold_marker(self, name)

        def held(self, names: Iterable[str]) -> frozenset[str]:
            return shown_lately(self, names)

    place = Bucket(str(tmp_path))
    mark_run(place, NAME)
    place.write_json(NAME, asdict(ON_ANOTHER_HOST))
    assert life_of(place, NAME) is Life.LIVES
    age(place, NAME + BEAT, SHOWN_SECONDS + 10)
    assert life_of(place, NAME) is Life.LAPSED
    drop_marker(place, NAME)


def test_a_thousand_old_markers_cost_one_reading_of_the_clock(tmp_path: Path) -> None:
    written = list[str]()

    class Counting(Folder):
        def write(self, name: str, content: bytes, **how: Any) -> Token:
            written.append(name)
            return super().write(name, content, **how)

    place, text = Counting(str(tmp_path)), json.dumps(asdict(ON_ANOTHER_HOST))
    folder = place.prepared(".runs/dagster")
    for n in range(1_000):
        (folder / f"run-{n}").write_text(text)
        (folder / f"run-{n}{BEAT}").write_text("of another kernel")
        os.utime(folder / f"run-{n}{BEAT}", (0, 0))
    assert live_runs(place) == frozenset()
    assert written == [CLOCK]
    drop_old_markers(place, DAY)
    assert place.names(".runs/dagster") == []


@pytest.mark.parametrize(
    ("process", "silent", "stays"),
    [(HERE, 2 * DAY, True), (ON_ANOTHER_HOST, 2 * DAY, False), (ON_ANOTHER_HOST, HOUR, True)],
    ids=["at work here", "killed elsewhere days ago", "killed elsewhere just now"],
)
def test_a_marker_goes_only_with_a_run_that_is_over_for_long(
    place: Folder, process: PlacedProcess, silent: float, stays: bool
) -> None:
    left(place, process, silent)
    drop_old_markers(place, DAY, {"another"})
    assert place.exists(NAME) is stays
    drop_old_markers(place, 0, {NAME})
    assert place.exists(NAME) is stays, "one that was named stays"


def test_a_sign_of_life_goes_whose_process_was_killed_before_it_wrote_the_marker(
    place: Folder,
) -> None:
    place.write(NAME + BEAT, b"of another kernel")
    age(place, NAME + BEAT, HOUR)
    drop_old_markers(place, DAY)
    assert place.exists(NAME + BEAT), "its process may be about to write the marker"
    age(place, NAME + BEAT, 2 * DAY)
    drop_old_markers(place, DAY)
    assert not place.exists(NAME + BEAT)
