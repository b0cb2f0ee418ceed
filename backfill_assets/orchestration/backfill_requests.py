"""From days that are ready to requests of runs: the state a tick decides by, attempts, run keys, Dagster's RunRequest.

Lives here: reading that state once per tick, counting the attempts at days, and giving up. Does not live here: which
days are ready (`core.needs`), how many runs a tick may request (`ticks`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import dagster as dg

from backfill_assets.core.clock import utc_today
from backfill_assets.core.digests import digest_of
from backfill_assets.core.needs import needs
from backfill_assets.core.requests import RunRequest, identities, run_requests
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_files import days_of_active_plans
from backfill_assets.operations.why import ranges
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.dagster_private import tag_values
from backfill_assets.orchestration.run_liveness import end_dead_runs

Days = Mapping[str, Iterable[date]]


@dataclass(frozen=True)
class RequestedRuns:
    """Requests of runs in order, and per table a text about the days that were given up."""

    requests: tuple[RunRequest, ...]
    given_up: Mapping[str, str]


@dataclass(frozen=True)
class RequestPlanner:
    """Plans requests for a lake from its states, the busy days, and the attempts in the tags of Dagster's runs."""

    instance: dg.DagsterInstance
    lake: Lake
    states: States
    busy: Mapping[str, Set[date]]

    def requests(self, sensor: str, ready: Days) -> RequestedRuns:
        """Requests for days that are ready, upstream first, first attempts before repeated ones.

        So a day that fails keeps no other from its turn.
        """
        known = {name: self._identities(name, days) for name, days in ready.items()}
        tried = {name: Counter(found) for name, found in runs.attempts(self.instance, known).items()}
        while True:
            found = self._split(known, tried)
            # Only those that this tick may request can be dropped by it.
            first = found.requests[: self.lake.settings.lateness.runs_per_tick]
            used = runs.used_keys(self.instance, sensor, [request.key for request in first])
            if not used:
                return found
            for request in found.requests:
                if request.key in used:
                    tried[request.table].update(date.fromisoformat(day) for day in request.asked)

    def given_up(self, ready: Days) -> dict[str, str]:
        """Per table a text about ready days that were tried as often as the settings allow, if any."""
        known = {name: self._identities(name, days) for name, days in ready.items()}
        return dict(self._split(known, runs.attempts(self.instance, known)).given_up)

    def gates_digest(self, table: str = "") -> str:
        """Digest of what else decides how a run ends: lake, gates and rules of `table` (empty: of all)."""
        gates = self.lake.settings.gates
        bounds = [str(b) for name, b in sorted(gates.tables.items()) if name == table or not table]
        named = [c for name, c in sorted(self.states.contracts.items()) if name == table or not table]
        contracts = [str((rule.expression, rule.per, rule.only_warns)) for c in named for rule in c.rules]
        return digest_of([str(self.lake.root), gates.incomplete, bounds, *([contracts] if contracts else [])])

    def _identities(self, name: str, days: Iterable[date]) -> dict[date, str]:
        wanted = list(days)
        return identities(self.states, name, wanted, self.gates_digest(name)) if wanted else {}

    def _split(self, known: Mapping[str, Mapping[date, str]], tried: Mapping[str, Mapping[date, int]]) -> RequestedRuns:
        most = self.lake.settings.lateness.attempts
        wanted: list[RunRequest] = []
        left: dict[str, str] = {}
        for name, days in known.items():
            found, given_up = run_requests(self.states, name, days, tried[name], most, self.busy.get(name, frozenset()))
            wanted += found
            left |= {name: _given_up_text(given_up, most)} if given_up else {}
        return RequestedRuns(tuple(sorted(wanted, key=lambda request: request.attempt > 0)), left)


def _given_up_text(days: list[date], most: int) -> str:
    return (
        f"{ranges(days)} failed {most} times from the same inputs, rules and code and will not be requested again "
        "as they are. Look at the failed runs; then change what they failed from, or materialize by hand"
    )


def given_up_now(instance: dg.DagsterInstance, lake: Lake, states: States) -> dict[str, str]:
    """Per table a text about the days that need making and that no sensor requests any more, if any.

    Judges every day, and so only where some run was tried often enough.
    """
    if not _was_given_up(instance, lake.settings.lateness.attempts):
        return {}
    busy = runs.busy_days(instance, str(lake.root), list(states.contracts))
    today = utc_today()
    return RequestPlanner(instance, lake, states, busy).given_up(needs(states, busy, today).ready)


def _was_given_up(instance: dg.DagsterInstance, most: int) -> bool:
    """Whether any run may have been a last attempt: from the second on, a tag holds the number."""
    tried = tag_values(instance, [runs.ATTEMPT_TAG]).get(runs.ATTEMPT_TAG, set()) | {"0"}
    return any(int(number) + 1 >= most for number in tried if number.isdigit())


def as_request(request: RunRequest, sensor: str, lake: Lake) -> dg.RunRequest:
    """The request as Dagster's RunRequest: one partition, or a range."""
    single = len(request.span) == 1
    span = {} if single else runs.range_tags(request.span)
    again = {runs.ATTEMPT_TAG: str(request.attempt)} if request.attempt else {}
    return dg.RunRequest(
        run_key=request.key,
        job_name=runs.REBUILD,
        asset_selection=[dg.AssetKey(name) for name in (request.table, *request.riders)],
        partition_key=str(request.span.start) if single else None,
        run_config={"ops": {runs.op_name(request.table): {"config": {"asked": dict(request.asked)}}}},
        tags={**span, **again, **sensor_tags(sensor, lake), **runs.asked_tags(request)},
    )


def sensor_tags(sensor: str, lake: Lake) -> dict[str, str]:
    """The tags of every run that a sensor requests."""
    return {runs.REASON_TAG: sensor, runs.SENSOR_TAG: sensor, runs.LAKE_TAG: str(lake.root)}


def next_attempt(instance: dg.DagsterInstance, sensor: str, base: str, most: int) -> int:
    """How often a request without single days was tried, up to `most`, by its runs and by Dagster's run keys."""
    keys = {f"{base} attempt {n}": n for n in range(most)}
    used = [keys[key] + 1 for key in runs.used_keys(instance, sensor, keys)]
    return max(*used, 0, instance.get_runs_count(dg.RunsFilter(tags={runs.REQUEST_TAG: base})))


@dataclass(frozen=True)
class TickState:
    """The lake and Dagster's runs at one moment, read once per tick.

    `busy`: per table the days of queued and running runs; `planned`: days of active plans, for which no sensor requests
    a run.
    """

    instance: dg.DagsterInstance
    lake: Lake
    pipeline: Pipeline
    states: States
    busy: Mapping[str, Set[date]]
    now: datetime
    planned: Mapping[str, Set[date]] = field(default_factory=dict)

    @property
    def until(self) -> date:
        """Today by the clock (UTC), the first day that is no partition yet."""
        return self.now.astimezone(UTC).date()

    @property
    def planner(self) -> RequestPlanner:
        """The planner for this state; days of active plans count as busy."""
        taken = {n: {*self.busy.get(n, ()), *self.planned.get(n, ())} for n in {*self.busy, *self.planned}}
        return RequestPlanner(self.instance, self.lake, self.states, taken)

    def free(self, name: str, days: Set[date]) -> Set[date]:
        """`days` of a table without those of active plans."""
        return days - self.planned.get(name, frozenset())


def read_tick_state(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> TickState:
    """Read everything that a tick decides by. Fails runs whose process is gone, so that their days do not stay busy."""
    lake, pipeline = lake_context.open()
    end_dead_runs(instance, lake)
    names = [t.name for t in pipeline.tables]
    busy = runs.busy_days(instance, str(lake.root), names)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    return TickState(instance, lake, pipeline, states, busy, now, days_of_active_plans(lake))
