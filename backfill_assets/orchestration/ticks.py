"""What the sensors decide at a tick: which runs to request, and in plain words what they found and held back.

Here: one function per sensor, from the lake and Dagster's runs as they are now. Not here: the sensors as Dagster sees
them (`sensors`), which days need a rebuild (`core.needs`) and rebuilding them (`load`).
No Spark, and no cursor: a tick that was killed, repeated or forgotten changes nothing about the next one.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime

import dagster as dg

from backfill_assets.core.days import ranges
from backfill_assets.core.digests import digest_of
from backfill_assets.core.downstream import with_downstream
from backfill_assets.core.needs import needs
from backfill_assets.core.states import State
from backfill_assets.core.texts import plain
from backfill_assets.lake.session import LakeSession
from backfill_assets.landing.files import is_complete
from backfill_assets.load.landed_changes import Comparison, compared
from backfill_assets.operations.plan_files import left_to_plans
from backfill_assets.operations.status import unlike_days
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.backfill_requests import (
    GivenUp,
    TickState,
    as_request,
    next_attempt,
    read_tick_state,
    whole_request,
)
from backfill_assets.orchestration.checks import changed_standing_checks
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.reconcile import follow_receipts

SCAN = "scan_landing"
LATE_DATA, LANDING = "late_data", "landing"
SHOWN_FILES = 5


@dataclass
class Tick:
    """The outcome of a tick: runs to request, notes, changed results of `no_stale_days`, and alarms by name.

    An alarm needs a person: it is sent once, and again when its text changes. `is_kept`: the lake keeps it already, for
    `status`, so that the sensor does not.
    """

    requests: list[dg.RunRequest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verdicts: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    alarms: dict[str, str] = field(default_factory=dict)
    is_kept: bool = False

    def alarm(self, name: str, text: str) -> None:
        """Add something that no tick will mend."""
        self.notes.append(text)
        self.alarms[name] = text

    def alarm_given_up(self, given_up: GivenUp) -> None:
        """Add an alarm per table with days that no sensor requests any more."""
        for name, text in given_up.items():
            self.alarm(f"given up {name}", f"{name}: {text}")

    def request(self, seen: TickState, sensor: str, wanted: Sequence[dg.RunRequest]) -> None:
        """Add as many requests as the caps allow, and a note about the rest."""
        caps = seen.lake.settings.lateness
        today = runs.runs_of_last_day(seen.instance, sensor, str(seen.lake.root), seen.now)
        allowed = max(0, min(caps.runs_per_tick, caps.runs_per_day - today))
        verb = "would request" if caps.dry_run else "requested"
        self.notes += [f"{verb} {request.run_key or request.job_name}" for request in wanted[:allowed]]
        self.requests += [] if caps.dry_run else wanted[:allowed]
        if len(wanted) > allowed:
            self.notes.append(
                f"{len(wanted) - allowed} more run(s) held back by the caps: {caps.runs_per_tick} a tick, "
                f"{caps.runs_per_day} in 24 hours ({today} so far)"
            )


def late_data_tick(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> Tick:
    """Request the days of the built tables that need a rebuild and whose inputs are in place, upstream first."""
    seen = read_tick_state(instance, lake_context, now)
    recorded = follow_receipts(instance, seen.lake, seen.states)
    tick = late_data(seen)
    tick.notes += recorded
    return tick


def late_data(seen: TickState) -> Tick:
    """`late_data_tick` for a state that was read."""
    tick = Tick()
    given_up = _request_stale(tick, seen)
    for name, text in unlike_days(seen.states.view):
        tick.alarm(f"other rows {name}", text)
    for name, table in seen.states.view.tables.items():
        if days := table.foreign & table.stamps.keys():
            told = f"{name} {ranges(days)}: another program wrote here, and these rows are not trusted"
            tick.alarm(f"foreign {name}", f"{told}; `backfill-assets verify --tables {name}` says what to do")
    tick.verdicts += changed_standing_checks(seen.instance, seen.states, list(seen.states.contracts), given_up)
    return tick


def _request_stale(tick: Tick, seen: TickState) -> dict[str, str]:
    """Request exactly the days that need a rebuild. Returns per table a text about days that were given up."""
    found = needs(seen.states, seen.busy, seen.until)
    free = {name: seen.free(name, days) for name, days in found.ready.items()}
    built = [name for name, contract in seen.states.contracts.items() if not contract.is_landed]
    requests, given_up = seen.requests({name: free.pop(name) for name in built})
    tick.alarm_given_up(given_up)
    for name in built:
        if held_up := found.waiting[name]:
            day = min(held_up)
            table, other = held_up[day]
            tick.notes.append(f"{name}: {ranges(held_up)} wait for their inputs, {day} for {table} {other}")
    _note_left_alone(tick, seen, built)
    tick.notes += left_to_plans(seen.planned, built)
    wanted = with_downstream(seen.states, requests, found, seen.taken)
    tick.request(seen, LATE_DATA, [as_request(request, LATE_DATA, seen.lake) for request in wanted])
    return {**seen.requests(free)[1], **given_up}


def _note_left_alone(tick: Tick, seen: TickState, names: list[str]) -> None:
    for name in names:
        found = {d: seen.states.of(name, d) for d in seen.states.view.table(name).stamps}
        for state in (State.HELD, State.OUTDATED):
            days = [d for d, s in found.items() if s is state]
            if days:
                tick.notes.append(f"{name}: {ranges(days)} left alone: {state.value}")


def landing_tick(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> Tick:
    """Request a scan of new complete files, and the arrival days that landed and are not loaded."""
    seen = read_tick_state(instance, lake_context, now)
    return landing(seen, {lake.source: compared(LakeSession(lake))[0] for lake in seen.lake.by_source()})


def landing(seen: TickState, looked: Mapping[str, Comparison]) -> Tick:
    """`landing_tick` for a state that was read; `looked` by the names of the sources."""
    tick, ready = Tick(), dict[str, Set[date]]()
    wanted = needs(seen.states, seen.busy, seen.until).ready
    for raw, contract in seen.states.contracts.items():
        if contract.is_landed:
            blocked = _note_landing(tick, looked[contract.source], contract.source)
            ready[raw] = seen.free(raw, wanted[raw] - blocked)
    tick.notes += left_to_plans(seen.planned, list(ready))
    requests, given_up = seen.requests(ready)
    tick.alarm_given_up(given_up)
    scans = _scan_requests(tick, seen, looked)
    if runs.is_active(seen.instance, SCAN, str(seen.lake.root)) or any(seen.busy.get(raw) for raw in ready):
        tick.notes.append("a scan or a load is queued or running; the next tick looks again")
        return tick
    # A load scans first; one that failed before may not get so far.
    loads = [as_request(request, LANDING, seen.lake) for request in requests]
    tick.request(seen, LANDING, loads if requests and not requests[0].attempt else [*scans, *loads])
    return tick


def _to_scan(tick: Tick, seen: TickState, found: Comparison) -> list[list[object]]:
    """What a scan of a source would read or count, as plain values; empty where there is nothing."""
    complete = [f for f in found.fresh if is_complete(f, seen.now.timestamp())]
    if len(complete) < len(found.fresh):
        tick.notes.append(f"{len(found.fresh) - len(complete)} file(s) still being written")
    parts: list[list[object]] = [[f.name, f.size, f.mtime_ns] for f in complete]
    parts += [[r.path, r.sha256] for r in found.lapsed]
    return parts + [[r.path, r.sha256, by] for r, by in found.uncounted]


def _scan_requests(tick: Tick, seen: TickState, looked: Mapping[str, Comparison]) -> list[dg.RunRequest]:
    """The request of a scan, where there is anything to scan: one for all sources."""
    settings, files, parts = seen.lake.settings, 0, list[object]()
    for source, each in looked.items():
        if found := _to_scan(tick, seen, each):
            files += len(found)
            parts += [str(settings.of_source(source).source), sorted(map(str, found))]
    if not parts:
        return []
    base = f"scan {digest_of([str(seen.lake.root), *parts])}"
    tried = next_attempt(seen.instance, base)
    if tried < settings.lateness.attempts:
        return [whole_request(seen.lake, LANDING, SCAN, base, tried)]
    tick.alarm("scan", f"{files} file(s) {_tried_text(tried)}, or run `backfill-assets scan`")
    return []


def _tried_text(tried: int) -> str:
    return f"were tried {tried} times in vain and are not tried again as they are: look at the failed runs"


def _note_landing(tick: Tick, found: Comparison, source: str) -> set[date]:
    """Note new, altered and missing files. Returns the days whose files are altered or missing."""
    blocked = {d for r in found.disputed for d in r.days}
    of = f" of {source}" if source else ""
    if found.fresh:
        tick.notes.append(f"{len(found.fresh)} new file(s){of}")
    words = ("altered", found.altered), ("missing", found.missing), ("contradicted", found.contradicted)
    for word, records in words:
        if records:
            shown = ", ".join(plain(r.path) for r in records[:SHOWN_FILES])
            more = f" and {len(records) - SHOWN_FILES} more" if len(records) > SHOWN_FILES else ""
            tick.alarm(
                f"{word} files{of}",
                f"{len(records)} landed file(s){of} {word}: {shown}{more}. No run is requested for days made from "
                f"them: {ranges(blocked)}. Put the files (or manifests) back, or "
                '`backfill-assets landing accept --note "why"`',
            )
    return blocked
