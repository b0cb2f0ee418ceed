"""The stopwatch of a load, on a clock that the test moves.

Lives here: sums, nesting, failures. Does not live here: who shows it (`cli`, `orchestration`).
"""

import pytest

from backfill_assets.load.candidate import Phases


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_phase_within_a_phase_counts_for_itself_and_repeated_ones_are_summed() -> None:
    clock = Clock()
    phases = Phases(clock)
    with phases.phase("publish"):
        clock.now += 1
        with phases.phase("ledger"):
            clock.now += 5
        clock.now += 2
    clock.now += 50
    with phases.phase("publish"):
        clock.now += 0.5
    assert phases.seconds() == {"publish": 3.5, "ledger": 5.0}


def test_what_fails_is_counted_up_to_there_and_leaves_the_stopwatch_usable() -> None:
    clock = Clock()
    phases = Phases(clock)

    def fail() -> None:
        with phases.phase("scan"):
            clock.now += 2
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        fail()
    with phases.phase("write"):
        clock.now += 3
    assert phases.seconds() == {"scan": 2.0, "write": 3.0}
