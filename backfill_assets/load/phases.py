"""A stopwatch of one table's load, phase by phase.

Here: seconds of wall clock. Not here: their display (`orchestration.metadata`, `cli.backfill`). Spark is lazy: the
phase `transform` makes plans, `write` reads, computes and writes.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass
class Phases:
    """Seconds of wall clock per phase. A phase within a phase counts for itself only. For one thread."""

    clock: Callable[[], float] = time.monotonic
    _spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _open: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block for this phase; one that occurs several times is summed."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def _charge(self) -> None:
        now = self.clock()
        if self._open:
            self._spent[self._open[-1]] += now - self._since
        self._since = now

    def seconds(self) -> Mapping[str, float]:
        """Seconds counted so far, to the millisecond, in the order in which the phases first ended."""
        return {name: round(spent, 3) for name, spent in self._spent.items()}
