"""What the sensors decide at a tick: which runs to request, and in plain words what was found and held back.

Lives here: one function per sensor, from the lake and Dagster's runs as they are now. Does not live here: the sensors
as Dagster sees them (`sensors`), what a day needs (`core.needs`), and making days (`load`).
No Spark, and no cursor: a tick that was killed, repeated or forgotten changes nothing about the next one.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime

import dagster as dg

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.digests import digest_of
from backfill_assets.core.downstream import unheld, with_downstream
from backfill_assets.core.needs import Needs, needs
from backfill_assets.core.states import State, States
from backfill_assets.core.texts import plain
from backfill_assets.lake.ledger import FileRecord
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.landing.files import is_complete
from backfill_assets.load.landed_changes import Comparison, compared, is_counted
from backfill_assets.operations.attention import unlike_days
from backfill_assets.operations.plan_files import left_to_plans
from backfill_assets.operations.why import ranges
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.backfill_requests import (
    RequestedRuns,
    TickState,
    as_request,
    next_attempt,
    read_tick_state,
    sensor_tags,
)
from backfill_assets.orchestration.checks import changed_standing_checks
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.reconcile import follow_receipts

SCAN = "scan_landing"
LATE_DATA, LANDING = "late_data", "landing"
SHOWN_FILES = 5
Looked = tuple[Comparison, Sequence[FileRecord]]  # a source's landing folder against its ledger, and the ledger


@dataclass
class Tick:
    """The outcome of a tick: runs to request, notes, changed results of `no_stale_days`, and alarms by name.

    An alarm needs a person: it is sent once, and again when its text changes.
    """

    requests: list[dg.RunRequest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verdicts: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    alarms: dict[str, str] = field(default_factory=dict)

    def alarm(self, name: str, text: str) -> None:
        """Add something that no tick will mend."""
        self.notes.append(text)
        self.alarms[name] = text


def late_data_tick(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> Tick:
    """Request the days of the built tables that need making and whose inputs are in place, upstream first."""
    seen = read_tick_state(instance, lake_context, now)
    recorded = follow_receipts(instance, seen.lake, seen.states)
    tick = late_data(seen)
    tick.notes += recorded
    return tick


def late_data(seen: TickState) -> Tick:
    """`late_data_tick` for a state that was read."""
    given_up: Mapping[str, str] = {}
    if seen.lake.settings.lateness.policy == "rolling":
        tick = _rolling_tick(seen)
    else:
        tick, given_up = _exact_tick(seen)
    for name, told in unlike_days(seen.states.view):
        tick.alarm(f"other rows {name}", told)
    tables = [t.name for t in seen.pipeline.tables]
    tick.verdicts += changed_standing_checks(seen.instance, seen.states, tables, given_up)
    return tick


def _exact_tick(seen: TickState) -> tuple[Tick, Mapping[str, str]]:
    """The tick, and per table a text about days that were given up."""
    tick, found = Tick(), needs(seen.states, seen.busy, seen.until)
    built = [t.name for t in seen.pipeline.tables if not t.is_landed]
    asked = seen.planner.requests(LATE_DATA, {name: seen.free(name, found.ready[name]) for name in built})
    for name in built:
        _note_given_up(tick, name, asked)
        _note_waiting(tick, name, found)
    _note_left_alone(tick, seen.states, built)
    tick.notes += left_to_plans(seen.planned, built)
    wanted = with_downstream(seen.states, asked.requests, found, seen.planner.busy)
    _request(tick, seen, LATE_DATA, [as_request(request, LATE_DATA, seen.lake) for request in wanted])
    landed = {name: seen.free(name, days) for name, days in found.ready.items() if name not in built}
    return tick, {**seen.planner.given_up(landed), **asked.given_up}


def _note_given_up(tick: Tick, name: str, asked: RequestedRuns) -> None:
    if name in asked.given_up:
        tick.alarm(f"given up {name}", f"{name}: {asked.given_up[name]}")


def _note_waiting(tick: Tick, name: str, found: Needs) -> None:
    held_up = found.waiting[name]
    if held_up:
        day = min(held_up)
        table, other = held_up[day]
        tick.notes.append(f"{name}: {ranges(held_up)} wait for their inputs, {day} for {table} {other}")


def _note_left_alone(tick: Tick, states: States, names: list[str]) -> None:
    for name in names:
        found = {d: states.of(name, d) for d in states.view.table(name).stamps}
        for state in (State.HELD, State.OUTDATED):
            days = [d for d, s in found.items() if s is state]
            if days:
                tick.notes.append(f"{name}: {ranges(days)} left alone: {state.value}")


def _request(tick: Tick, seen: TickState, sensor: str, wanted: Sequence[dg.RunRequest]) -> None:
    """Add as many requests to the tick as the caps allow, and a note about the rest."""
    caps = seen.lake.settings.lateness
    today = runs.runs_of_last_day(seen.instance, sensor, str(seen.lake.root), seen.now)
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


def _rolling_tick(seen: TickState) -> Tick:
    """Request the last N days before the frontier whenever the ledger or a rule has changed."""
    tick, settings, frontier = Tick(), seen.lake.settings, seen.states.frontiers.greatest
    if frontier is None or not _built(seen):
        tick.notes.append("nothing is loaded yet")
        return tick
    end = min(frontier.date(), seen.until)
    days = DayRange(max(settings.start_date, end - ONE_DAY * settings.lateness.rolling_days), end)
    if any(set(days) & planned for planned in seen.planned.values()):
        tick.notes += left_to_plans(seen.planned, seen.planned)
        return tick
    if any(seen.busy.values()):
        tick.notes.append("runs are queued or running; the next tick looks again")
        return tick
    built = _built(seen)
    _note_left_alone(tick, seen.states, built)
    for free in unheld(seen.states, days):
        _roll(tick, seen, free, built)
    return tick


def _built(seen: TickState) -> list[str]:
    """Built tables whose sources are all loaded."""
    loaded = {s.table for s in seen.states.view.sources.values() if s.ledger.version >= 0}
    names = (t.name for t in seen.pipeline.tables if not t.is_landed)
    return [name for name in names if seen.states.frontiers.sources_of(name) <= loaded]


def _roll(tick: Tick, seen: TickState, days: DayRange, built: Sequence[str]) -> None:
    """Request a range once per version of the ledger and per rule, as often as may be tried."""
    settings, sources = seen.lake.settings, seen.states.view.sources.values()
    ledger = ", ".join(" ".join(filter(None, (s.name, str(s.ledger.version)))) for s in sources)
    rules = digest_of([seen.planner.gates_digest(), *(str(seen.states.codes.get(name)) for name in built)])
    base = f"rolling {days} ledger {ledger} rules {rules}"
    tried = next_attempt(seen.instance, LATE_DATA, base, settings.lateness.attempts)
    if tried and _has_succeeded(seen.instance, base):
        tick.notes.append(f"{days} were made from version {ledger} of the ledger; nothing was loaded since")
    elif tried >= settings.lateness.attempts:
        tick.alarm("given up rolling", f"{days} {_tried_text(tried)}")
    else:
        _request(tick, seen, LATE_DATA, [_whole(seen, base, tried, LATE_DATA, runs.range_tags(days), built)])


def _has_succeeded(instance: dg.DagsterInstance, base: str) -> bool:
    good = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], tags={runs.REQUEST_TAG: base})
    return bool(instance.get_runs(good, limit=1))


def _whole(
    seen: TickState, base: str, tried: int, sensor: str, span: Mapping[str, str], tables: Sequence[str]
) -> dg.RunRequest:
    """A request that names no single days: a scan, or a range of all tables."""
    again = {runs.ATTEMPT_TAG: str(tried)} if tried else {}
    return dg.RunRequest(
        run_key=f"{base} attempt {tried}",
        job_name=runs.REBUILD if tables else SCAN,
        asset_selection=[dg.AssetKey(name) for name in tables] or None,
        tags={**span, **again, **sensor_tags(sensor, seen.lake), runs.REQUEST_TAG: base},
    )


def landing_tick(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> Tick:
    """Request a scan of new complete files, and the arrival days that landed and are not loaded."""
    seen, looked = read_tick_state(instance, lake_context, now), dict[str, Looked]()
    for lake in seen.lake.by_source():
        found, _, records = compared(LakeSession(lake))
        looked[lake.source] = found, records
    return landing(seen, looked)


def landing(seen: TickState, looked: Mapping[str, Looked]) -> Tick:
    """`landing_tick` for a state that was read; `looked` by the names of the sources."""
    tick, root, ready = Tick(), str(seen.lake.root), dict[str, Set[date]]()
    raws = {t.name: t.contract.source for t in seen.pipeline.tables if t.is_landed}
    wanted = needs(seen.states, seen.busy, seen.until).ready
    for raw, source in raws.items():
        found = looked[source][0]
        blocked = {d for r in (*found.altered, *found.missing) for d in r.days}
        _note_landing(tick, found, blocked, source)
        ready[raw] = seen.free(raw, wanted[raw] - blocked)
    tick.notes += left_to_plans(seen.planned, list(raws))
    asked = seen.planner.requests(LANDING, ready)
    for raw in raws:
        _note_given_up(tick, raw, asked)
    scans = _scan_requests(tick, seen, looked)
    if runs.is_active(seen.instance, SCAN, root) or any(seen.busy.get(raw) for raw in raws):
        tick.notes.append("a scan or a load is queued or running; the next tick looks again")
        return tick
    # A load scans first; one that failed before may not get so far.
    loads = [as_request(request, LANDING, seen.lake) for request in asked.requests]
    _request(tick, seen, LANDING, loads if asked.requests and not asked.requests[0].attempt else [*scans, *loads])
    return tick


def _to_scan(tick: Tick, seen: TickState, settings: LakeSettings, looked: Looked) -> list[list[object]]:
    """What a scan of a source would read or count, as plain values; empty where there is nothing."""
    found, records = looked
    complete = [f for f in found.fresh if is_complete(f, seen.now.timestamp())]
    if len(complete) < len(found.fresh):
        tick.notes.append(f"{len(found.fresh) - len(complete)} file(s) still being written")
    blocked = {r.path for r in (*found.altered, *found.missing)}  # a scan leaves these as they are
    live = (r for r in records if not r.withdrawn and r.path not in blocked)
    uncounted = [r for r in live if not is_counted(r, settings, seen.now)]
    parts: list[list[object]] = [[f.name, f.size, f.mtime_ns] for f in complete]
    return parts + [[r.path, r.sha256] for r in (*found.lapsed, *uncounted)]


def _scan_requests(tick: Tick, seen: TickState, looked: Mapping[str, Looked]) -> list[dg.RunRequest]:
    """The request of a scan, where there is anything to scan: one for all sources."""
    settings, parts, told = seen.lake.settings, list[list[object]](), list[object]()
    for source, each in looked.items():
        own = settings.of_source(source)
        found = _to_scan(tick, seen, own, each)
        parts += found
        told += [str(own.source), sorted(map(str, found))] if found else []
    if not parts:
        return []
    base = f"scan {digest_of([str(seen.lake.root), *told])}"
    tried = next_attempt(seen.instance, LANDING, base, settings.lateness.attempts)
    if tried < settings.lateness.attempts:
        return [_whole(seen, base, tried, LANDING, {}, ())]
    tick.alarm("scan", f"{len(parts)} file(s) {_tried_text(tried)}, or run `backfill-assets scan`")
    return []


def _tried_text(tried: int) -> str:
    return f"were tried {tried} times in vain and are not tried again as they are: look at the failed runs"


def _note_landing(tick: Tick, found: Comparison, blocked: Set[date], source: str) -> None:
    of = f" of {source}" if source else ""
    if found.fresh:
        tick.notes.append(f"{len(found.fresh)} new file(s){of}")
    for word, records in (("altered", found.altered), ("missing", found.missing)):
        if records:
            shown = ", ".join(plain(r.path) for r in records[:SHOWN_FILES])
            more = f" and {len(records) - SHOWN_FILES} more" if len(records) > SHOWN_FILES else ""
            tick.alarm(
                f"{word} files{of}",
                f"{len(records)} landed file(s){of} {word}: {shown}{more}. No run is requested for days made from "
                f'them: {ranges(blocked)}. Put the files back, or `backfill-assets landing accept --note "why"`',
            )
