"""Everything a tick decides by, at one moment: the lake's states, Dagster's runs, and the days that are spoken for.

Lives here: looking once, so that no two parts of a tick see different lakes. Does not live here: what is decided
(`ticks`) and which days are ready (`core.needs`).
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import dagster as dg

from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_files import days_of_active_plans
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.markers import end_dead_runs
from backfill_assets.orchestration.requesting import RequestPlanner


@dataclass(frozen=True)
class LakeSnapshot:
    """The lake and Dagster's runs at one moment. `until` is the first day (exclusive end) that is no partition yet;
    `planned` are the days of active plans: no run is requested for them here."""

    instance: dg.DagsterInstance
    lake: Lake
    pipeline: Pipeline
    states: States
    busy: Mapping[str, Set[date]]
    now: datetime
    planned: Mapping[str, Set[date]] = field(default_factory=dict)

    @property
    def until(self) -> date:
        """Today by the clock: its partition begins to exist when it is over."""
        return self.now.astimezone(UTC).date()

    @property
    def asker(self) -> RequestPlanner:
        """Who knows what was tried."""
        taken = {n: {*self.busy.get(n, ()), *self.planned.get(n, ())} for n in {*self.busy, *self.planned}}
        return RequestPlanner(self.instance, self.lake, self.states, taken)

    def free(self, name: str, days: Set[date]) -> Set[date]:
        """The days of a table that are no active plan's."""
        return days - self.planned.get(name, frozenset())


def look_around(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> LakeSnapshot:
    """Everything a tick decides by. Ends runs whose process is gone, so that their days do not look busy for ever."""
    lake, pipeline = lake_context.open()
    end_dead_runs(instance, lake)
    names = [t.name for t in pipeline.tables]
    busy = runs.busy_days(instance, str(lake.root), names)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    return LakeSnapshot(instance, lake, pipeline, states, busy, now, days_of_active_plans(lake))
