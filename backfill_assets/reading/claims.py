"""Days that plans have for themselves, and plans that wait for a person, as all who leave such days
alone see them.

Not here: plans (the room `plans`, which offers what is asked here). Without that room no day is
claimed.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Protocol, TypedDict

from backfill_assets.kernel.core.answers import DaySpan
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges, ranges_text
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.tables.home import Lake


class ActivePlan(Protocol):
    """A plan that was started and neither finished nor cancelled."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def created(self) -> datetime:
        """When it was made (aware)."""

    @property
    def days(self) -> DayRange:
        """Its days."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Its tables, upstream first."""

    def keys_of(self, table: str) -> Iterable[date]:
        """Its partitions of a table: its days, or the months that cover them."""


@dataclass(frozen=True)
class HoldingPlan:
    """Days that nothing makes until a person lets their plan go on."""

    plan: ActivePlan
    state: str  # of the plan, such as `paused`, `waiting`, `stopped`
    line: str  # why, which days, and which command frees them


def new_plan_id(now: datetime) -> str:
    """Return an id for a plan, or for a publication, made at that instant: it sorts by time, and
    differs from other ids of the same second."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}"


def finished_plans(lake: Lake, ids: Collection[str]) -> set[str]:
    """Return those of these ids that are of a finished plan."""
    find: Callable[[Lake, Collection[str]], set[str]] | None = offered_function("finished_plans")
    return find(lake, ids) if find is not None else set()


def active_plans(lake: Lake) -> Sequence[ActivePlan]:
    """Return the active plans, oldest first. Their days are left to them."""
    find: Callable[[Lake], Sequence[ActivePlan]] | None = offered_function("active_plans")
    return find(lake) if find is not None else ()


def days_of_active_plans(lake: Lake) -> dict[str, set[date]]:
    """Return, per table, the days of active plans, which sensors and schedules leave alone."""
    days_of: dict[str, set[date]] = {}
    for plan in active_plans(lake):
        for table in plan.tables:
            days_of.setdefault(table, set()).update(plan.keys_of(table))
    return days_of


def planned_day_lines(planned: Mapping[str, Set[date]], tables: Iterable[str]) -> list[str]:
    """Return a line per table of `tables` that has days in `planned`."""
    why = "left alone: of an active plan (`backfill-assets plan list`)"
    return [f"{name}: {ranges_text(planned[name])} {why}" for name in tables if planned.get(name)]


def holding_plans(lake: Lake, also_idle: bool = False) -> Sequence[HoldingPlan]:
    """Return what active plans that wait for a person hold back; `also_idle`: also plans whose
    runner was killed."""
    find: Callable[[Lake, bool], Sequence[HoldingPlan]] | None = offered_function("held_back")
    return find(lake, also_idle) if find is not None else ()


class HoldForm(TypedDict):
    """A hold as JSON values."""

    plan: str | None
    chunk: str | None
    days: Mapping[str, Sequence[DaySpan]]  # per table
    release: str  # the command


@dataclass(frozen=True)
class Hold:
    """Days that one rollback put back."""

    days: Mapping[str, tuple[date, ...]]  # per table
    plan: str = ""  # "": of a table alone
    chunk: str = ""  # of the plan

    @property
    def release(self) -> str:
        """Return the command that releases them: by plan (and chunk), else the first of the tables
        and its days."""
        if self.plan:
            return (
                "backfill-assets release --plan "
                f"{self.plan}{f' --chunk {self.chunk}' if self.chunk else ''} --yes"
            )
        table, dates = next(iter(self.days.items()))
        return f"backfill-assets release {table} --from {min(dates)} --to {max(dates)} --yes"

    @property
    def rollback(self) -> str:
        """Name the rollback in words."""
        chunk = f", chunk {self.chunk}" if self.chunk else ""
        return f"the rollback of plan {self.plan}{chunk}" if self.plan else "a rollback"

    def to_dict(self) -> HoldForm:
        """Return the hold as JSON values; days as ranges, both ends included."""
        days = json_of({table: contiguous_ranges(days) for table, days in self.days.items()})
        return {
            "plan": self.plan or None,
            "chunk": self.chunk or None,
            "days": days,
            "release": self.release,
        }
