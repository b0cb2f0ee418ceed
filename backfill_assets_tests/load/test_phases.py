"""The stopwatch of a load, on a clock that the test moves.

Lives here: sums, nesting, failures. Does not live here: who shows it (`cli`, `orchestration`).
"""

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
