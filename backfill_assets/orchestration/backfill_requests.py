"""Requests of runs for days that are ready: the state that a tick decides by, attempts, run keys, giving up.

Not here: which days are ready (`core.needs`) and how many runs a tick may request (`ticks`).
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg

from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import ranges
from backfill_assets.core.digests import digest_of
from backfill_assets.core.needs import identities, needs, run_requests
from backfill_assets.core.plans import Work
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.context import PLAIN, LakeContext, Naming
from backfill_assets.orchestration.dagster_private import tag_values
from backfill_assets.orchestration.runs import end_dead_runs
from backfill_assets.plans.files import days_of_active_plans

DaySets = Mapping[str, Set[date]]
GivenUp = Mapping[str, str]  # per table a text about days that no sensor requests any more


@dataclass(frozen=True)
class TickState:
    """The lake and Dagster's runs at one moment, read once per tick."""

    instance: dg.DagsterInstance
    lake: Lake
    states: States
    busy: DaySets  # per table the days of queued and running runs
    now: datetime
    planned: DaySets = field(default_factory=dict)  # days of active plans, for which no sensor requests a run
    naming: Naming = PLAIN

    @property
    def until(self) -> date:
        """Today by the clock (UTC), the first day that is no partition yet."""
        return self.now.astimezone(UTC).date()

    @property
    def taken_days(self) -> dict[str, set[date]]:
        """Per table the days that are busy or planned."""
        return {n: {*self.busy.get(n, ()), *self.planned.get(n, ())} for n in {*self.busy, *self.planned}}

    def free(self, name: str, days: Set[date]) -> Set[date]:
        """`days` of a table without days of active plans."""
        return days - self.planned.get(name, frozenset())

    def requests(self, ready: DaySets) -> tuple[list[Work], GivenUp]:
        """Requests for ready days, upstream first, first attempts before repeated ones, and the days given up.

        So a day that fails keeps no other from its turn. A day is given up once it was tried as often as the settings
        allow; runs that never began do not count.
        """
        limit, taken_days = self.lake.settings.lateness.attempts, self.taken_days
        wanted: list[Work] = []
        texts: dict[str, str] = {}
        for name, days in ready.items():
            known = identities(self.states, name, days, self.gates_digest(name)) if days else {}
            tried = runs.attempts(self.instance, name, known, self.naming)
            numbers = {day: found.number for day, found in tried.items()}
            given_up = [day for day, found in tried.items() if found.counted >= limit]
            left = {day: identity for day, identity in known.items() if day not in given_up}
            most = limit + runs.MOST_UNBEGUN
            wanted += run_requests(self.states, name, left, numbers, most, taken_days.get(name, frozenset()))[0]
            if given_up:
                texts[name] = (
                    f"{ranges(given_up)} failed {limit} times from the same inputs, rules and code and will not be "
                    "requested again as they are. Look at the failed runs; then change what they failed from, or "
                    "materialize by hand"
                )
        return sorted(wanted, key=lambda request: request.attempt > 0), texts

    def gates_digest(self, table: str) -> str:
        """Digest of what else decides how a run ends: lake, gates and rules of `table`."""
        gates, rules = self.lake.settings.gates, self.states.contracts[table].rules
        bounds = [str(gates.tables[table])] if table in gates.tables else []
        contracts = [str((rule.expression, rule.per, rule.only_warns)) for rule in rules]
        return digest_of([self.lake.address, gates.incomplete, bounds, *([contracts] if contracts else [])])


def read_tick_state(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> TickState:
    """Read all that a tick decides by. Fails runs whose process is gone, so that their days do not stay busy."""
    known = lake_context.known()
    lake, names = known.lake, [t.name for t in known.pipeline.tables]
    end_dead_runs(instance, lake)
    busy = runs.busy_days(instance, lake.address, names, lake_context.naming)
    return TickState(instance, lake, known.read(), busy, now, days_of_active_plans(lake), lake_context.naming)


def given_up_now(instance: dg.DagsterInstance, lake: Lake, states: States, naming: Naming = PLAIN) -> GivenUp:
    """The days that need a rebuild and that no sensor requests any more.

    Judging every day is slow, so it is done only if some run may have been a last attempt. Runs carry `ATTEMPT_TAG`
    from the second attempt on; without it a run counts as attempt 0.
    """
    tried = tag_values(instance, [runs.ATTEMPT_TAG]).get(runs.ATTEMPT_TAG, set()) | {"0"}
    if not any(int(n) + 1 >= lake.settings.lateness.attempts for n in tried if n.isdigit()):
        return {}
    busy = runs.busy_days(instance, lake.address, list(states.contracts), naming)
    state = TickState(instance, lake, states, busy, utc_now())
    return state.requests(needs(states, busy, state.until).ready)[1]


def as_request(work: Work, sensor: str, lake: Lake, naming: Naming = PLAIN) -> dg.RunRequest:
    """The work as Dagster's RunRequest: one partition, or a range."""
    single = len(work.days) == 1
    span = {} if single else runs.range_tags(work.days)
    again = {runs.ATTEMPT_TAG: str(work.attempt)} if work.attempt else {}
    return dg.RunRequest(
        run_key=work.key,
        job_name=naming.name(runs.REBUILD),
        asset_selection=[naming.key(name) for name in work.tables],
        partition_key=str(work.days.start) if single else None,
        run_config={"ops": {naming.step(work.table): {"config": {"asked": dict(work.needed)}}}},
        tags={**span, **again, **_sensor_tags(sensor, lake), **runs.needed_tags(work)},
    )


def whole_request(
    lake: Lake, sensor: str, job: str, base: str, tried: int, tags: Mapping[str, str] | None = None, **more: Any
) -> dg.RunRequest:
    """A request of a run without single days: a scan, a range of all tables, a plan; new with each `base`."""
    again = {runs.ATTEMPT_TAG: str(tried)} if tried else {}
    return dg.RunRequest(
        run_key=f"{base} attempt {tried}",
        job_name=job,
        tags={**(tags or {}), **again, **_sensor_tags(sensor, lake), runs.REQUEST_TAG: base},
        **more,
    )


def _sensor_tags(sensor: str, lake: Lake) -> dict[str, str]:
    """The tags of every run that a sensor requests."""
    return {runs.REASON_TAG: sensor, runs.SENSOR_TAG: sensor, runs.LAKE_TAG: lake.address}
