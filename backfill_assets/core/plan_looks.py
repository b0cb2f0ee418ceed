"""What a look ahead of a plan found: days that gain or lose rows under today's settings.

Lives here: the frozen values. Does not live here: looking (`load.moves`, `operations.plan_impact`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.core.days import DayRange


@dataclass(frozen=True)
class DayMove:
    """A day of a table under today's settings against what stands there: keys that it gains and loses, and keys whose
    content changes."""

    table: str
    day: date
    gains: int
    loses: int
    changes: int


@dataclass(frozen=True)
class PlanLook:
    """What a look at what landed found: days with moves, also outside the range, and per table downstream of these the
    days that follow through its windows."""

    moves: tuple[DayMove, ...] = ()
    follows: Mapping[str, tuple[DayRange, ...]] = field(default_factory=dict)

    def beyond(self, days: DayRange) -> list[date]:
        """The days outside of `days` that gain or lose rows, ascending, whichever the table."""
        return sorted({m.day for m in self.moves if (m.gains or m.loses) and m.day not in days})
