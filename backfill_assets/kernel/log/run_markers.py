"""Who lives: a marker for every run that writes to a lake, and a sign of life that the run gives
again and again.

`LAKE/.runs/INSTANCE/RUN` says which process works on the run, and `RUN.beat` beside it is given a
new time every `BEAT_SECONDS`: by the clock of whoever keeps the files, so that no machine's own
clock decides. A run without a sign of life for `SHOWN_SECONDS` is over, on whatever machine it was;
one that can be seen from here is over as soon as its process ended. Markers hold nobody up: they
only say whose commits readers do not see yet. What a run commits is decided by its fence alone,
also where the run was paused, taken for dead, and goes on: it then shows itself again.

Not here: what readers see (`versions`), and ending runs in Dagster's records
(`dagster.adapter.runs`).
"""

import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from enum import Enum
from math import inf

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.records import json_of, record_of
from backfill_assets.kernel.place.port import (
    RUNS,
    SHOWN_SECONDS,
    Gone,
    Place,
)
from backfill_assets.kernel.place.processes import PlacedProcess

BEAT = ".beat"
# Five may be missed: a store that does not answer, a call that holds Python's lock.
BEAT_SECONDS = SHOWN_SECONDS / 6
# A run without any sign of life that can be judged: of an earlier release, or where this process
# may not ask the place for its time.
UNSEEN_SECONDS = 86_400.0
# A process that nobody knows: the run lives by its signs of life alone.
UNKNOWN_PROCESS = PlacedProcess(host="", boot="", numbering="", pid=0, started=0.0)


class Life(Enum):
    """What can be said of a run."""

    LIVES = "it lives"
    LAPSED = "it has shown no sign of life"
    GONE = "its process certainly ended"


def mark_run(place: Place, name: str, every: float = BEAT_SECONDS) -> None:
    """Say in the marker of that name that this process works on a run, and show it `every` so many
    seconds until the marker is gone or the process ends; harmless where it does so already."""
    if process_of(place, name) == PlacedProcess.this():
        return
    place.delete(name + BEAT)  # of an earlier process that worked on the same run
    hold = place.hold(name + BEAT)
    place.write_json(name, json_of(PlacedProcess.this()))
    _beat_until_gone(place, name, every, hold.beat, hold)


def mark_step(place: Place, name: str, process: PlacedProcess = UNKNOWN_PROCESS) -> None:
    """Show a run while this process works on a step of it, until the run's marker is gone or the
    process ends; harmless where it does so already. A marker of that name is made for `process`
    where there is none; one that an earlier step made stays as it is. Nothing is locked, since the
    run goes on after this process."""

    def beat() -> None:
        """The sign of life."""
        place.write(name + BEAT, b"")

    known = process_of(place, name)
    if known == PlacedProcess.this():
        return
    beat()
    if known is None:
        place.write_json(name, json_of(process))
    _beat_until_gone(place, name, BEAT_SECONDS, beat)


def _beat_until_gone(
    place: Place,
    name: str,
    every: float,
    beat: Callable[[], None],
    end: Callable[[], None] = lambda: None,
) -> None:
    """Give a sign of life (`beat`) every so many seconds in a thread, until the marker of that name
    is gone; then call `end`, and delete what the signs left."""

    def show() -> None:
        is_over = False
        while not is_over:
            threading.Event().wait(every)
            with suppress(OSError):  # a place that does not answer now may do so at the next turn
                if place.exists(name):
                    beat()
                else:
                    end()
                    place.delete(name + BEAT)
                    is_over = True

    threading.Thread(target=show, name=f"sign of life of {place.uri(name)}", daemon=True).start()


def drop_marker(place: Place, name: str) -> None:
    """Drop the marker of a run that ended. Whoever shows it stops at its next turn."""
    place.delete(name)
    place.delete(name + BEAT)


def process_of(place: Place, name: str) -> PlacedProcess | None:
    """The process that a marker names; None if there is no such marker, or a power cut left it
    empty."""
    with suppress(TypeError):
        return record_of(PlacedProcess, place.read_json(name))
    return None


def markers_by_run(place: Place) -> dict[str, str]:
    """The names of all markers of a lake, by the ids of their runs."""
    found = {}
    for instance in place.names(RUNS):
        for run in place.names(f"{RUNS}/{instance}"):
            if "." not in run:
                found[run] = f"{RUNS}/{instance}/{run}"
    return found


def live_runs(place: Place, but: Collection[str] = ()) -> frozenset[str]:
    """The ids of the runs that have begun to work on the lake and have not ended, as far as can be
    said; without those of `but`."""
    found = {run: name for run, name in markers_by_run(place).items() if run not in but}
    lives = lives_of(place, found.values())
    return frozenset(run for run, name in found.items() if lives[name] is Life.LIVES)


def life_of(place: Place, name: str) -> Life:
    """What can be said of the run of one marker, as `lives_of` says it."""
    return lives_of(place, [name])[name]


def lives_of(place: Place, names: Iterable[str]) -> dict[str, Life]:
    """What can be said of the runs of markers, by the markers' names and one reading of the place's
    clock. Readers and other runs go on without a run that is not known to live; only `GONE` is
    certain. A process that is seen from here needs no sign of life, unless it was stopped by a
    signal."""
    known = {name: _life_by_process(place, name) for name in names}
    shown = _recent_markers(place, [name for name, life in known.items() if life is None])
    by_sign = {name: Life.LIVES if name in shown else Life.LAPSED for name in known}
    return {name: life or by_sign[name] for name, life in known.items()}


def is_shown_whole(place: Place, name: str) -> bool:
    """Whether one process on another machine, or in another container, shows the run of a marker
    until the run ends (`mark_run`): its silence is then no pause between two steps (`mark_step`,
    whose signs of life are empty files)."""
    process = process_of(place, name)
    if process is None or process.is_seen_from(PlacedProcess.this()):
        return False
    with suppress(Gone):
        return bool(place.read(name + BEAT))
    return False


def _life_by_process(place: Place, name: str) -> Life | None:
    """What the process of a marker says; None where only its signs of life can say it."""
    process, here = process_of(place, name), PlacedProcess.this()
    if process is None or process.is_gone(here):
        return Life.GONE  # also where a power cut left the marker empty
    if process.is_seen_from(here) and not process.is_stopped():
        return Life.LIVES
    return None


def _recent_markers(place: Place, names: Collection[str]) -> frozenset[str]:
    """Those of the markers that were shown for the last `SHOWN_SECONDS` by the place's clock. Of a
    marker without a sign of life, and where this process may not ask for the place's time, those
    that were shown or made for the last `UNSEEN_SECONDS` by this machine's clock."""
    beating = frozenset(name for name in names if place.exists(name + BEAT))
    # Of an earlier release, or of a run that another process is taking up (`mark_run`).
    without_beat = set(names) - beating
    try:
        held = place.held(name + BEAT for name in beating)
    except OSError:  # this process may not ask the place for its time
        return _not_silent(place, names)
    shown = frozenset(name for name in beating if name + BEAT in held)
    return shown | _not_silent(place, without_beat)


def _not_silent(place: Place, names: Iterable[str]) -> frozenset[str]:
    """Those of the markers that were shown or made for the last `UNSEEN_SECONDS` by this machine's
    clock: their runs may live."""
    return frozenset(name for name in names if silent_seconds(place, name) <= UNSEEN_SECONDS)


def silent_seconds(place: Place, name: str) -> float:
    """How long ago a marker was shown or made, by this machine's clock; endless for one that is
    gone."""
    token = place.token(name + BEAT) or place.token(name)
    if token is None:
        return inf
    return utc_now().timestamp() - token.changed_at


def drop_old_markers(place: Place, seconds: float, but: Collection[str] = ()) -> None:
    """Drop the markers, without those named `but`, of runs that do not live and showed nothing for
    so many seconds: whoever would have dropped them was killed, too. Signs of life without a
    marker, whose process was killed before it wrote that, go as well."""
    shown = {name.removesuffix(BEAT) for name in place.below(RUNS)}.difference(but)
    names = [name for name in shown if "." not in name.rpartition("/")[2]]
    old = [name for name in names if silent_seconds(place, name) > seconds]
    for name, life in lives_of(place, old).items():
        if life is not Life.LIVES:
            drop_marker(place, name)
