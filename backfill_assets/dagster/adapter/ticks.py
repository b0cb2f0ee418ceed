"""Decisions of the sensors at a tick: the runs to request, and notes about what they found and held
back.

Here: one function per sensor, from the state of the lake and of Dagster's runs. Not here: the
sensors as Dagster sees them (`sensors`), which days need a rebuild (`kernel.core.needs`) and
rebuilding them (`kernel.write`). No Spark, and no cursor: a tick that was killed, repeated or
forgotten changes nothing about the next one.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime

import dagster as dg

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.backfill_requests import (
    GivenUp,
    TickState,
    read_tick_state,
    whole_request,
)
from backfill_assets.dagster.adapter.checks import changed_stale_checks
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.reconcile import record_missed_commits, report_green_days
from backfill_assets.dagster.run_requests import requests_with_downstream
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.files import is_complete
from backfill_assets.intake.landed_changes import Comparison, compare_each_source
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.claims import planned_day_lines
from backfill_assets.reading.fitness import irreproducible_days

SCAN = runs.SCAN
LATE_DATA, LANDING = "late_data", "landing"
PLANS, CONTROLS = "plans", "controls"  # sensors that rooms add
SHOWN_FILES = 5
UnseenVersion = Callable[[Lake, Contract], str]


@dataclass
class Tick:
    """The outcome of a tick."""

    requests: list[dg.RunRequest] = field(default_factory=list)  # runs to request
    notes: list[str] = field(default_factory=list)
    # Changed results of `no_stale_days`.
    verdicts: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    # by name; each needs a person, and is sent once and again when its text changes
    alarms: dict[str, str] = field(default_factory=dict)
    # The lake keeps the alarms already, for `status`, so that the sensor does not.
    is_kept: bool = False

    def alarm(self, name: str, text: str) -> None:
        """Add something that no tick will mend."""
        self.notes.append(text)
        self.alarms[name] = text

    def alarm_given_up(self, given_up: GivenUp) -> None:
        """Add an alarm per table with days that no sensor requests any more."""
        for name, text in given_up.items():
            self.alarm(f"given up {name}", f"{name}: {text}")

    def request(self, state: TickState, sensor: str, wanted: Sequence[dg.RunRequest]) -> None:
        """Add as many requests as the caps allow, and a note about the rest."""
        caps = state.lake.settings.lateness
        today = runs.runs_of_last_day(state.instance, sensor, state.lake.address, state.now)
        allowed = max(0, min(caps.runs_per_tick, caps.runs_per_day - today))
        verb = "would request" if caps.dry_run else "requested"
        for request in wanted[:allowed]:
            self.notes.append(f"{verb} {request.run_key or request.job_name}")
            if not caps.dry_run:
                self.requests.append(request)
        if len(wanted) > allowed:
            self.notes.append(
                f"{len(wanted) - allowed} more run(s) held back by the caps: {caps.runs_per_tick} "
                "a tick, "
                f"{caps.runs_per_day} in 24 hours ({today} so far)"
            )


def late_data_tick(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> Tick:
    """Request the days of the built tables that need a rebuild and whose inputs are in place,
    upstream first."""
    state = read_tick_state(instance, lake_context, now)
    recorded = record_missed_commits(instance, state.lake, state.states, state.naming)
    tick = decide_late_data(state)
    tick.notes += [*recorded, *report_green_days(instance, state.lake, state.states).values()]
    return tick


def decide_late_data(state: TickState) -> Tick:
    """The runs for the stale days of the tables that this package makes, what needs a person
    (alarms for given up days, days with other rows from the same inputs, and days of other
    programs), and the changed results of `no_stale_days`. Records nothing."""
    tick = Tick()
    given_up = _request_stale(tick, state)
    for name, text in irreproducible_days(state.states.view):
        tick.alarm(f"other rows {name}", text)
    for name, table in state.states.view.tables.items():
        # A day without a receipt is missing here: there is nothing of ours to doubt.
        if days := table.foreign & table.latest.keys():
            culprit = (
                f"{name} {ranges_text(days)}: another program wrote here, and these rows are not "
                "trusted"
            )
            tick.alarm(
                f"foreign {name}",
                f"{culprit}; `backfill-assets verify --tables {name}` says what to do",
            )
    # Only tables that this package computes have the check.
    tables = [name for name, contract in state.states.contracts.items() if not contract.is_given]
    tick.verdicts += changed_stale_checks(
        state.instance, state.lake, state.states, tables, given_up, state.naming
    )
    return tick


def _request_stale(tick: Tick, state: TickState) -> dict[str, str]:
    """Request exactly the days of built tables that need a rebuild (`landing_tick` requests landed
    ones). Returns per table a text about days that were given up."""
    needed = rebuild_needs(state.states, state.busy, state.until)
    landed, built = dict[str, Set[date]](), dict[str, Set[date]]()
    for name, contract in state.states.contracts.items():
        free = state.free(name, needed.ready[name])
        if contract.is_given:
            _note_given_days(tick, contract, free)
        elif contract.is_landed:
            landed[name] = free
        else:
            built[name] = free
    requests, given_up = state.requests(built)
    tick.alarm_given_up(given_up)
    for name in built:
        if waiting := needed.waiting[name]:
            day = min(waiting)
            table, input_day = waiting[day]
            tick.notes.append(
                f"{name}: {ranges_text(waiting)} wait for their inputs, {day} for {table} "
                f"{input_day}"
            )
    _note_untouched_days(tick, state, [*built])
    tick.notes += planned_day_lines(state.planned, [*built])
    wanted = requests_with_downstream(state.states, requests, needed, state.taken_days)
    asked = [state.as_request(request, LATE_DATA) for request in wanted]
    tick.request(state, LATE_DATA, asked)
    _, given_up_loads = state.requests(landed)
    return {**given_up_loads, **given_up}


def _note_given_days(tick: Tick, contract: Contract, days: Set[date]) -> None:
    """Note the days that an asset of the project is to make."""
    if days:
        tick.notes.append(
            f"{contract.name}: {ranges_text(days)} left to the asset {contract.made_by} "
            "(`is_stale` is "
            "a condition for it)"
        )


def _note_untouched_days(tick: Tick, state: TickState, names: list[str]) -> None:
    for name in names:
        state_of = {d: state.states.of(name, d) for d in state.states.view.table(name).latest}
        for kind in (State.CLOSED, State.HELD, State.OUTDATED):
            days = [d for d, s in state_of.items() if s is kind]
            if days:
                tick.notes.append(f"{name}: {ranges_text(days)} left alone: {kind.value}")


def landing_tick(instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime) -> Tick:
    """Request a scan of new complete files, and the arrival days that landed and are not loaded."""
    state = read_tick_state(instance, lake_context, now)
    comparisons, failed = compare_each_source(LakeSession(state.lake))
    return decide_landing(state, comparisons, failed)


def decide_landing(
    state: TickState, comparisons: Mapping[str, Comparison], failed: Sequence[BackfillError] = ()
) -> Tick:
    """The scan of new complete files and the loads of arrival days that landed; neither while a
    scan or a load is queued or running, though its alarms are told then, too. `comparisons`: of
    each listed source by its name; `failed`: why others could not be listed, an alarm each.

    Where a load is tried for the first time, no scan is requested: the load scans first.
    """
    tick, ready = Tick(), dict[str, Set[date]]()
    for error in failed:
        tick.alarm(error.object, str(error))
    wanted = rebuild_needs(state.states, state.busy, state.until).ready
    for raw, contract in state.states.contracts.items():
        if contract.is_landed and contract.source in comparisons:
            blocked = _note_landed_files(tick, comparisons[contract.source], contract.source)
            ready[raw] = state.free(raw, wanted[raw] - blocked)
    tick.notes += planned_day_lines(state.planned, list(ready))
    requests, given_up = state.requests(ready)
    tick.alarm_given_up(given_up)
    scans = _scan_requests(tick, state, comparisons, _unseen_tables(tick, state))
    is_scanning = runs.is_active(state.instance, state.naming.name(SCAN), state.lake.address)
    if is_scanning or any(state.busy.get(raw) for raw in ready):
        tick.notes.append("a scan or a load is queued or running; the next tick looks again")
        return tick
    # A load that failed before may not get as far as its scan.
    has_first_attempt = any(not request.attempt for request in requests)
    loads = [state.as_request(request, LANDING) for request in requests]
    tick.request(state, LANDING, loads if has_first_attempt else [*scans, *loads])
    return tick


def unscanned_lines(lake: Lake) -> list[str]:
    """A line per source with new landed files, which nobody has scanned, and one per source that
    cannot be listed: which days they touch is not known yet."""
    comparisons, failed = compare_each_source(LakeSession(lake))
    lines = [str(error) for error in failed]
    for source, comparison in comparisons.items():
        if comparison.fresh:
            suffix = f" of {source}" if source else ""
            lines.append(
                f"{len(comparison.fresh)} new landed file(s){suffix}, not scanned yet: a scan "
                "comes first, and says which days they touch"
            )
    return lines


def _files_to_scan(tick: Tick, state: TickState, comparison: Comparison) -> list[list[object]]:
    """The files that a scan of a source would read or count, as plain values."""
    complete = [f for f in comparison.fresh if is_complete(f, state.now.timestamp())]
    if len(complete) < len(comparison.fresh):
        tick.notes.append(f"{len(comparison.fresh) - len(complete)} file(s) still being written")
    parts: list[list[object]] = [[f.name, f.size, f.mtime_ns] for f in complete]
    parts += [[r.path, r.sha256] for r in comparison.lapsed]
    return parts + [[r.path, r.sha256, rules] for r, rules in comparison.uncounted]


def _unseen_tables(tick: Tick, state: TickState) -> list[object]:
    """The tables of others that hold what the lake has not seen, with what is there, as plain
    values."""
    found = list[object]()
    unseen_version: UnseenVersion | None = offered_function("unseen_version")
    if unseen_version is None:
        return found
    for contract in state.states.contracts.values():
        try:
            if news := unseen_version(state.lake, contract):
                found.append([contract.name, news])
        except BackfillError as error:
            tick.alarm(f"external {contract.name}", str(error))
    return found


def _scan_requests(
    tick: Tick, state: TickState, comparisons: Mapping[str, Comparison], news: Sequence[object]
) -> list[dg.RunRequest]:
    """The request of a scan, where there is anything to scan: one for all sources and for the
    tables of others in `news`. An alarm in its place, once it failed too often as it is."""
    settings = state.lake.settings
    parts, found = [*news], len(news)
    for source, comparison in comparisons.items():
        if pending := _files_to_scan(tick, state, comparison):
            found += len(pending)
            parts += [str(settings.of_source(source).source), sorted(map(str, pending))]
    if not parts:
        return []
    base = f"scan {digest_of([state.lake.address, *parts])}"
    tried = runs.attempts_at(state.instance, base)
    if tried.counted < settings.lateness.attempts:
        return [whole_request(state.lake, LANDING, state.naming.name(SCAN), base, tried.number)]
    in_vain = (
        f"were tried {tried.counted} times in vain and are not tried again as they are: look at "
        "the failed runs"
    )
    tick.alarm(
        "scan", f"{found} file(s) or tables of others {in_vain}, or run `backfill-assets scan`"
    )
    return []


def _note_landed_files(tick: Tick, comparison: Comparison, source: str) -> set[date]:
    """Note new, altered and missing files. Returns the days whose files are altered or missing."""
    blocked = {d for r in comparison.disputed for d in r.days}
    suffix = f" of {source}" if source else ""
    if comparison.fresh:
        tick.notes.append(f"{len(comparison.fresh)} new file(s){suffix}")
    words = (
        ("altered", comparison.altered),
        ("missing", comparison.missing),
        ("contradicted", comparison.contradicted),
    )
    for word, records in words:
        if not records:
            continue
        shown = ", ".join(printable_text(record.path) for record in records[:SHOWN_FILES])
        if len(records) > SHOWN_FILES:
            shown += f" and {len(records) - SHOWN_FILES} more"
        tick.alarm(
            f"{word} files{suffix}",
            f"{len(records)} landed file(s){suffix} {word}: {shown}. No run is requested for days "
            f"made from them: {ranges_text(blocked)}. Put the files (or manifests) back, or "
            '`backfill-assets landing accept --note "why"`',
        )
    return blocked
