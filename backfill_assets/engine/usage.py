"""The cost of a piece of work: processor seconds of this process and of the engine on this machine, and the wait for
the engine to be opened.

Not here: reports of it (`core.receipts`, `operations.plan`). Works that share a server at the same time each count what
it spent on all of them; a process that ended in between is not counted.
"""

from pathlib import Path

from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.processes import Process
from backfill_assets.engine.server_state import ServerFolder
from backfill_assets.engine.session import opening_seconds


class CpuMeter:
    """Counts from its creation on."""

    def __init__(self, lake: Path, engine: EngineSettings) -> None:
        self.lake, self.engine = lake, engine
        self._before, self._opening = self._now(), opening_seconds(lake)

    def waited(self) -> float:
        """Seconds in which this process waited for an engine to be opened, to the millisecond: some 10 if it had to be
        started, 1 or 2 if it was up, none if this process had it open."""
        return round(opening_seconds(self.lake) - self._opening, 3)

    def spent(self) -> float | None:
        """Processor seconds, to the millisecond; None where the engine computes on other machines."""
        if self._before is None or (now := self._now()) is None:
            return None
        return round(sum(used - self._before.get(process, 0.0) for process, used in now.items()), 3)

    def _now(self) -> dict[Process, float] | None:
        if not self.engine.computes_here:
            return None
        record = ServerFolder.of(self.lake).record()
        found = [Process.this(), *([record.process] if record else [])]
        return {p: used for p in found if (used := p.cpu_seconds()) is not None}
