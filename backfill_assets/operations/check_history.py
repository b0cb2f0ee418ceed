"""The checks of every written day over time: judged again by its newest receipt, under the gates of today.

Not here: the gates (`lake.gates`), and what Dagster remembers of writes that were refused (`orchestration.history`).
Receipts hold no repeated keys: such a day was never written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from backfill_assets.core.json_values import json_of
from backfill_assets.core.states import States
from backfill_assets.lake.gates import PROFILE, Finding, gates_of
from backfill_assets.lake.home import Lake
from backfill_assets.load.judging import judged_by_receipts

OTHER_ROWS = "the same inputs, code and settings gave other rows before"


@dataclass(frozen=True)
class CheckHistory:
    """One check of one table: how many written days it judged, and the findings on those that do not pass."""

    table: str
    check: str
    days: int
    found: tuple[Finding, ...]

    @property
    def failed(self) -> int:
        """Return the days that the gates of today would refuse."""
        return sum(f.refuses for f in self.found)

    @property
    def warned(self) -> int:
        """Return the days that only warn."""
        return len(self.found) - self.failed

    def to_dict(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        counts = {"passed": self.days - len(self.found), "warned": self.warned, "failed": self.failed}
        found = [{"day": f.day, "failed": f.refuses, "what": f.message} for f in self.found]
        return {"table": self.table, "check": self.check, **counts, "found": json_of(found)}


def check_history(lake: Lake, states: States) -> tuple[CheckHistory, ...]:
    """Return the history of every check of every table. Reads receipts only."""
    return tuple(h for name in states.contracts for h in _of_table(lake, states, name))


def _of_table(lake: Lake, states: States, table: str) -> Iterator[CheckHistory]:
    contract, stamps = states.contracts[table], states.view.table(table).stamps
    judged = judged_by_receipts(lake.settings, states, contract, sorted(stamps))
    for gate in gates_of(contract):
        found = [f for findings in judged.values() for f in findings if f.check == gate.name]
        if gate.name == PROFILE:
            found = [replace(f, passed=False, message=OTHER_ROWS) if stamps[f.day].unlike else f for f in found]
        yield CheckHistory(table, gate.name, len(found), tuple(f for f in found if not f.passed))
