"""What the sensors decide at a tick: which runs to ask for, and in plain words what was found and held back.

Lives here: one function per sensor, from the lake and Dagster's runs as they are now. Does not live here: the sensors
as Dagster sees them (`sensors`), what a day needs (`core.needs`), and making days (`work`).
No Spark, and no cursor: a tick that was killed, repeated or forgotten changes nothing about the next one.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import dagster as dg

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.digests import digest_of
from backfill_assets.core.needs import Needs, needs
from backfill_assets.core.printable import printable
from backfill_assets.core.requests import Ask, Attempts, asks
from backfill_assets.core.states import State, States
from backfill_assets.lake.compare import Comparison, compare, look
from backfill_assets.lake.counting import is_counted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.landing import is_complete
from backfill_assets.lake.landing_hashes import Hashes
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.spark import Workshop
from backfill_assets.lake.view import read_view
from backfill_assets.operations.why import ranges
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.reconcile import end_dead_runs
from backfill_assets.orchestration.standing import changed_verdicts
from backfill_assets.orchestration.work import Shop

SCAN = "scan_landing"
LATE_DATA, LANDING = "late_data", "landing"
SHOWN_FILES = 5


@dataclass
class Tick:
    """The outcome of a tick: runs to ask for, a line per finding, and standing verdicts that are no longer the same."""

    requests: list[dg.RunRequest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verdicts: list[dg.AssetCheckEvaluation] = field(default_factory=list)


@dataclass(frozen=True)
class Look:
    """The lake and Dagster's runs at one moment. `until` is the first day (exclusive end) that is no partition yet."""

    instance: dg.DagsterInstance
    lake: Lake
    pipeline: Pipeline
    states: States
    busy: Mapping[str, Set[date]]
    now: datetime

    @property
    def until(self) -> date:
        """Today by the clock: its partition begins to exist when it is over."""
        return self.now.astimezone(UTC).date()


def look_around(instance: dg.DagsterInstance, shop: Shop, now: datetime) -> Look:
    """Everything a tick decides by. Ends runs whose process is gone, so that their days do not look busy for ever."""
    lake, pipeline = shop.open()
    end_dead_runs(instance, lake)
    names = [t.name for t in pipeline.tables]
    busy = runs.busy_days(instance, runs.REBUILD, names)
    return Look(instance, lake, pipeline, pipeline.states(read_view(lake, pipeline.contracts)), busy, now)


def late_data_tick(instance: dg.DagsterInstance, shop: Shop, now: datetime) -> Tick:
    """Ask for the days of the built tables that need making and whose inputs are in place, upstream first."""
    seen = look_around(instance, shop, now)
    tick = _rolling_tick(seen) if seen.lake.settings.lateness.policy == "rolling" else _exact_tick(seen)
    tick.verdicts += changed_verdicts(instance, seen.states, [t.name for t in seen.pipeline.tables])
    return tick


def _exact_tick(seen: Look) -> Tick:
    tick, found = Tick(), needs(seen.states, seen.busy, seen.until)
    built = [t.name for t in seen.pipeline.tables if not t.is_landed]
    tried = runs.attempts(seen.instance, LATE_DATA)
    wanted: list[Ask] = []
    for name in built:
        wanted += _asks(seen, tick, name, found.ready[name], tried)
        _tell_waiting(tick, name, found)
    _tell_left_alone(tick, seen.states, built)
    _request(tick, seen, LATE_DATA, [_as_request(ask, LATE_DATA) for ask in wanted])
    return tick


def _asks(seen: Look, tick: Tick, name: str, ready: Iterable[date], tried: Attempts) -> list[Ask]:
    most = seen.lake.settings.lateness.attempts
    found, given_up = asks(seen.states, name, ready, tried, most, seen.busy.get(name, frozenset()))
    if given_up:
        tick.notes.append(
            f"{name}: {ranges(given_up)} failed {most} times from the same inputs and will not be asked for again. "
            f"Look at the failed runs; then materialize by hand, or change the inputs"
        )
    return found


def _as_request(ask: Ask, sensor: str) -> dg.RunRequest:
    single = len(ask.days) == 1
    span = {} if single else {runs.RANGE_START: str(ask.days.start), runs.RANGE_END: str(ask.days.last)}
    return dg.RunRequest(
        run_key=ask.key,
        job_name=runs.REBUILD,
        asset_selection=[dg.AssetKey(ask.table)],
        partition_key=str(ask.days.start) if single else None,
        run_config={"ops": {f"make_{ask.table}": {"config": {"asked": dict(ask.asked)}}}},
        tags={**span, runs.REASON_TAG: sensor, runs.SENSOR_TAG: sensor},
    )


def _tell_waiting(tick: Tick, name: str, found: Needs) -> None:
    held_up = found.waiting[name]
    if held_up:
        day = min(held_up)
        table, other = held_up[day]
        tick.notes.append(f"{name}: {ranges(held_up)} wait for their inputs, {day} for {table} {other}")


def _tell_left_alone(tick: Tick, states: States, names: list[str]) -> None:
    for name in names:
        found = {d: states.of(name, d) for d in states.view.table(name).stamps}
        for state in (State.HELD, State.OUTDATED):
            days = [d for d, s in found.items() if s is state]
            if days:
                tick.notes.append(f"{name}: {ranges(days)} left alone: {state.value}")


def _request(tick: Tick, seen: Look, sensor: str, wanted: list[dg.RunRequest]) -> None:
    """Put at most as many requests into the tick as the caps allow, and say what they held back."""
    caps = seen.lake.settings.lateness
    today = runs.runs_of_last_day(seen.instance, sensor, seen.now)
    allowed = max(0, min(caps.runs_per_tick, caps.runs_per_day - today))
    for request in wanted[:allowed]:
        verb = "would request" if caps.dry_run else "requested"
        tick.notes.append(f"{verb} {request.run_key or request.job_name}")
        if not caps.dry_run:
            tick.requests.append(request)
    held_back = len(wanted) - allowed
    if held_back > 0:
        tick.notes.append(
            f"{held_back} more run(s) held back by the caps: {caps.runs_per_tick} a tick, "
            f"{caps.runs_per_day} in 24 hours ({today} so far)"
        )


def _rolling_tick(seen: Look) -> Tick:
    """The last N days before the frontier again, whatever happened, whenever the ledger has moved."""
    tick, settings, frontier = Tick(), seen.lake.settings, seen.states.frontier
    ledger = seen.states.view.table("arrivals").version
    if frontier is None or ledger < 0:
        tick.notes.append("nothing is loaded yet")
        return tick
    end = min(frontier.date(), seen.until)
    days = DayRange(max(settings.start_date, end - ONE_DAY * settings.lateness.rolling_days), end)
    if any(seen.busy.values()):
        tick.notes.append("runs are queued or running; the next tick looks again")
        return tick
    built = [t.name for t in seen.pipeline.tables if not t.is_landed]
    base = f"rolling {days} ledger {ledger}"
    ended = runs.ended_runs(seen.instance, base)
    if ended and not _failed_so_far(seen.instance, base, ended):
        tick.notes.append(f"{days} were made from version {ledger} of the ledger; nothing was loaded since")
    elif ended >= settings.lateness.attempts:
        tick.notes.append(f"{days} failed {ended} times and need a person")
    else:
        _request(tick, seen, LATE_DATA, [_range_request(base, ended, built, days, LATE_DATA)])
    return tick


def _failed_so_far(instance: dg.DagsterInstance, base: str, ended: int) -> bool:
    good = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], tags={runs.REQUEST_TAG: base})
    return ended > 0 and not instance.get_runs(good, limit=1)


def _range_request(base: str, attempt: int, tables: list[str], days: DayRange, reason: str) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=f"{base} attempt {attempt}",
        job_name=runs.REBUILD,
        asset_selection=[dg.AssetKey(name) for name in tables],
        tags={
            runs.RANGE_START: str(days.start), runs.RANGE_END: str(days.last),
            runs.REASON_TAG: reason, runs.SENSOR_TAG: reason, runs.REQUEST_TAG: base,
        },
    )  # fmt: skip


def landing_tick(instance: dg.DagsterInstance, shop: Shop, now: datetime) -> Tick:
    """Ask for a scan of new complete files, and for the arrival days that landed and are not loaded."""
    seen = look_around(instance, shop, now)
    workshop, tick = Workshop(seen.lake), Tick()
    listing, records = look(workshop)
    hashes = Hashes(seen.lake.stock)
    found = compare(listing, records, hashes)
    hashes.keep()
    blocked = {d for r in (*found.altered, *found.missing) for d in r.days}
    _tell_landing(tick, found, blocked)
    raw = next(t.name for t in seen.pipeline.tables if t.is_landed)
    if runs.is_active(instance, SCAN) or seen.busy.get(raw):
        tick.notes.append("a scan or a load is queued or running; the next tick looks again")
        return tick
    ready = needs(seen.states, seen.busy, seen.until).ready[raw] - blocked
    wanted = _asks(seen, tick, raw, ready, runs.attempts(instance, LANDING))
    requests = [_as_request(ask, LANDING) for ask in wanted]
    complete = [f for f in found.fresh if is_complete(f, now.timestamp())]
    if len(complete) < len(found.fresh):
        tick.notes.append(f"{len(found.fresh) - len(complete)} file(s) still being written")
    uncounted = [r for r in records if not r.withdrawn and not is_counted(r, seen.lake.settings)]
    if (complete or found.lapsed or uncounted) and not requests:  # a load scans first, by itself
        parts = [[f.name, f.size, f.mtime_ns] for f in complete]
        parts += [[r.path, r.sha256] for r in (*found.lapsed, *uncounted)]
        requests += _scan_request(tick, seen, f"scan {digest_of(sorted(map(str, parts)))}", len(parts))
    _request(tick, seen, LANDING, requests)
    return tick


def _scan_request(tick: Tick, seen: Look, base: str, files: int) -> list[dg.RunRequest]:
    ended = runs.ended_runs(seen.instance, base)
    if ended >= seen.lake.settings.lateness.attempts:
        tick.notes.append(f"{files} file(s) were scanned {ended} times in vain: run `backfill-assets scan` and look")
        return []
    tags = {runs.REASON_TAG: LANDING, runs.SENSOR_TAG: LANDING, runs.REQUEST_TAG: base}
    return [dg.RunRequest(run_key=f"{base} attempt {ended}", job_name=SCAN, tags=tags)]


def _tell_landing(tick: Tick, found: Comparison, blocked: Set[date]) -> None:
    if found.fresh:
        tick.notes.append(f"{len(found.fresh)} new file(s)")
    for word, records in (("altered", found.altered), ("missing", found.missing)):
        for record in records[:SHOWN_FILES]:
            tick.notes.append(f"{printable(record.path)} is {word}: the days made from it are not asked for")
    if blocked:
        tick.notes.append(
            f'raw: {ranges(blocked)} blocked. Put the files back, or `backfill-assets landing accept --note "why"`'
        )
