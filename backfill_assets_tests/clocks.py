"""A wall clock that tests move: forward, back or not at all, while everything else goes on. Here:
the clock and the jumps that every simulation has to bear. Not here: what reads it
(`kernel.core.clock`)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from backfill_assets.kernel.core.clock import SECONDS

# How far it may be off, seconds to years; never so far back that it lies before what tests deliver
# in 2024.
FORWARD = (timedelta(seconds=3), timedelta(hours=5), timedelta(days=600))
JUMPS = (*FORWARD, *(-jump for jump in FORWARD))


@dataclass
class Clock:
    """What the product takes for the seconds since 1970: the true ones, or those at which it
    `stopped`, and `off`."""

    off: timedelta = timedelta()
    stopped: float | None = None

    def __call__(self) -> float:
        return (self.stopped or time.time()) + self.off.total_seconds()


@dataclass
class Jumping(Clock):
    """A clock that is set anew, by chance, each time that somebody looks at it."""

    jump: Callable[[], timedelta] = field(default_factory=lambda: jumps())

    def __call__(self) -> float:
        self.off = self.jump()
        return super().__call__()


def jumps(seed: int = 23) -> Callable[[], timedelta]:
    """How far a clock is off, by chance, each time that it is asked for."""
    chance = Random(seed)
    return lambda: chance.choice((timedelta(), *JUMPS))


@contextmanager
def set_to(clock: Clock) -> Iterator[Clock]:
    """Let the product read this clock meanwhile."""
    token = SECONDS.set(clock)
    try:
        yield clock
    finally:
        SECONDS.reset(token)
