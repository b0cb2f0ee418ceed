"""From days that are ready to requests of runs: what was tried already, what was given up, and in which order.

Lives here: the identities and attempts of days, run keys that Dagster would drop, and a request as Dagster takes it.
Does not live here: which days are ready (`core.needs`), how many runs a tick may request (`ticks`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import date

import dagster as dg

from backfill_assets.core.clock import utc_today
from backfill_assets.core.digests import digest_of
from backfill_assets.core.needs import needs
from backfill_assets.core.requests import RunRequest, identities, run_requests
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.operations.why import ranges
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.dagster_private import tag_values

Days = Mapping[str, Iterable[date]]


@dataclass(frozen=True)
class RunRequests:
    """The runs to request, in order, and per table the days that were given up, in words."""

    requests: tuple[RunRequest, ...]
    given_up: Mapping[str, str]


@dataclass(frozen=True)
class RequestPlanner:
    """Where attempts are looked up, for which lake, and the states and busy days of the look."""

    instance: dg.DagsterInstance
    lake: Lake
    states: States
    busy: Mapping[str, Set[date]]

    def asked(self, sensor: str, ready: Days) -> RunRequests:
        """The requests for days that are ready, upstream first: first attempts before repeated ones, so that nothing
        that fails keeps another from its turn."""
        known = {name: self._identities(name, days) for name, days in ready.items()}
        tried = {name: Counter(found) for name, found in runs.attempts(self.instance, known).items()}
        while True:
            found = self._asks(known, tried)
            # Only those that this tick may request can be dropped by it.
            first = found.requests[: self.lake.settings.lateness.runs_per_tick]
            used = runs.used_keys(self.instance, sensor, [request.key for request in first])
            if not used:
                return found
            for request in found.requests:
                if request.key in used:
                    tried[request.table].update(date.fromisoformat(day) for day in request.asked)

    def given_up(self, ready: Days) -> dict[str, str]:
        """Per table, in words, the days that are ready and were tried as often as the settings allow, if any."""
        known = {name: self._identities(name, days) for name, days in ready.items()}
        return dict(self._asks(known, runs.attempts(self.instance, known)).given_up)

    def what_refuses(self, table: str = "") -> str:
        """What else decides how a run ends, as a digest: lake, and gates and rules of the table (none: of all)."""
        gates = self.lake.settings.gates
        bounds = [str(b) for name, b in sorted(gates.tables.items()) if name == table or not table]
        named = [c for name, c in sorted(self.states.contracts.items()) if name == table or not table]
        contracts = [str((rule.expression, rule.per, rule.only_warns)) for c in named for rule in c.rules]
        return digest_of([str(self.lake.root), gates.incomplete, bounds, *([contracts] if contracts else [])])

    def _identities(self, name: str, days: Iterable[date]) -> dict[date, str]:
        wanted = list(days)
        return identities(self.states, name, wanted, self.what_refuses(name)) if wanted else {}

    def _asks(self, known: Mapping[str, Mapping[date, str]], tried: Mapping[str, Mapping[date, int]]) -> RunRequests:
        most = self.lake.settings.lateness.attempts
        wanted: list[RunRequest] = []
        left: dict[str, str] = {}
        for name, days in known.items():
            found, given_up = run_requests(self.states, name, days, tried[name], most, self.busy.get(name, frozenset()))
            wanted += found
            left |= {name: _given_up_text(given_up, most)} if given_up else {}
        return RunRequests(tuple(sorted(wanted, key=lambda request: request.attempt > 0)), left)


def _given_up_text(days: list[date], most: int) -> str:
    return (
        f"{ranges(days)} failed {most} times from the same inputs, rules and code and will not be requested again "
        "as they are. Look at the failed runs; then change what they failed from, or materialize by hand"
    )


def given_up_now(instance: dg.DagsterInstance, lake: Lake, states: States) -> dict[str, str]:
    """Per table, in words, the days that no sensor requests any more although they need making, if any.

    Which days need making is looked at only where something was tried often enough: it costs a look at every day.
    """
    if not _was_given_up(instance, lake.settings.lateness.attempts):
        return {}
    busy = runs.busy_days(instance, str(lake.root), list(states.contracts))
    today = utc_today()
    return RequestPlanner(instance, lake, states, busy).given_up(needs(states, busy, today).ready)


def _was_given_up(instance: dg.DagsterInstance, most: int) -> bool:
    """Whether any run may have been the last attempt at something: from the second on they say which they are."""
    tried = tag_values(instance, [runs.ATTEMPT_TAG]).get(runs.ATTEMPT_TAG, set()) | {"0"}
    return any(int(number) + 1 >= most for number in tried if number.isdigit())


def as_request(request: RunRequest, sensor: str, lake: Lake) -> dg.RunRequest:
    """The request as Dagster takes it: one partition, or a range."""
    single = len(request.span) == 1
    span = {} if single else runs.range_tags(request.span)
    again = {runs.ATTEMPT_TAG: str(request.attempt)} if request.attempt else {}
    return dg.RunRequest(
        run_key=request.key,
        job_name=runs.REBUILD,
        asset_selection=[dg.AssetKey(name) for name in (request.table, *request.riders)],
        partition_key=str(request.span.start) if single else None,
        run_config={"ops": {runs.op_name(request.table): {"config": {"asked": dict(request.asked)}}}},
        tags={**span, **again, **said(sensor, lake), **runs.asked_tags(request)},
    )


def said(sensor: str, lake: Lake) -> dict[str, str]:
    """The tags of every run that a sensor requests."""
    return {runs.REASON_TAG: sensor, runs.SENSOR_TAG: sensor, runs.LAKE_TAG: str(lake.root)}


def next_attempt(instance: dg.DagsterInstance, sensor: str, base: str, most: int) -> int:
    """How often a request that names no single days was tried, up to `most`: by its runs, and by the run keys that
    Dagster knows."""
    keys = {f"{base} attempt {n}": n for n in range(most)}
    used = [keys[key] + 1 for key in runs.used_keys(instance, sensor, keys)]
    return max(*used, 0, instance.get_runs_count(dg.RunsFilter(tags={runs.REQUEST_TAG: base})))
