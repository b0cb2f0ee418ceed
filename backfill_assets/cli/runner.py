"""Running a backfill through Dagster, in this process: one run of the job `rebuild`, and its events per table.

Not here: the load path (`load`), and which Dagster instance is meant (`dagster_home`).
"""

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import dagster as dg

from backfill_assets.cli.dagster_home import instance_of, silenced
from backfill_assets.cli.progress import BackfillRequest, Lines, RunOutcome, TableOutcome
from backfill_assets.core.days import DayRange, SomeDays, ranges
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.ownership import whoami
from backfill_assets.core.plans import ON_BAD_DAYS_TAG
from backfill_assets.core.receipts import Built
from backfill_assets.dagster.jobs import job_of
from backfill_assets.lake.declared import declared
from backfill_assets.lake.home import Lake, refuse_unwritable
from backfill_assets.lake.replace import Published
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.assemble import rebuild_job
from backfill_assets.orchestration.history import cause_of
from backfill_assets.orchestration.interrupts import Interrupted, children_ignore_interrupts, ends_when_interrupted
from backfill_assets.orchestration.kept_back import names_kept_back
from backfill_assets.orchestration.metadata import rewritten
from backfill_assets.orchestration.naming import Naming, table_made_by
from backfill_assets.orchestration.runs import FORCE_TAG, NOTE_TAG, REASON_TAG, markers_of, run_rebuild
from backfill_assets.pipeline.chosen import tables_at


def run_backfill(lake: Lake, request: BackfillRequest, lines: Lines) -> RunOutcome:
    """Run the request; `lines` shows each table as it starts and ends. Raises Interrupted."""
    refuse_unwritable(lake)
    outcomes = list[RunOutcome]()
    for tables, are_given in _groups(lake, request.tables):
        outcomes.append(_run(lake, replace(request, tables=tables), lines, are_given))
        if not outcomes[-1].success:
            break
    ended = tuple(t for outcome in outcomes for t in outcome.tables)
    return replace(outcomes[-1], tables=ended, seconds=sum(o.seconds for o in outcomes))


def _groups(lake: Lake, tables: Sequence[str]) -> list[tuple[tuple[str, ...], bool]]:
    """The tables in their order, in runs: own tables of the lake, and those that assets of a project return (True)."""
    given = {d.contract.name for d in declared(lake.root)}
    return [(tuple(group), are_given) for are_given, group in groupby(tables, lambda name: name in given)]


def _run(lake: Lake, request: BackfillRequest, lines: Lines, are_given: bool) -> RunOutcome:
    """One run; `are_given`: of assets of a project."""
    if are_given and (isinstance(request.days, SomeDays) or request.tags.get(ON_BAD_DAYS_TAG)):
        raise BackfillError(
            f"the tables {', '.join(request.tables)}",
            "assets of a project return their rows: no list of days and no keeping of good days is passed on to them",
            "Nothing was started",
            "Name a range with --from and --to, and leave --keep-good-days away, or name other --tables",
        )
    began, run_id = time.perf_counter(), str(uuid.uuid4())
    listener, again = _Listener(lines), [t for t in request.tables if request.force and t not in request.written]
    naming = Naming.named_by(os.environ)
    forced = {naming.step(t): t in again for t in request.tables if not are_given}
    tags = {REASON_TAG: request.reason, NOTE_TAG: request.note, **request.tags}
    with ends_when_interrupted() as ending, silenced(), instance_of(lake) as instance:
        if are_given:
            job, listener.steps = job_of(lake, request.tables)
            listener.look = partial(_given_outcome, lake, request.days, run_id)
            tags[FORCE_TAG] = ",".join(again)
        else:
            job = rebuild_job(lake.root, tables_at(lake.root), request.tables, listener.published, whoami(), naming)
        instance.add_event_listener(run_id, listener.on_event)
        try:
            with children_ignore_interrupts():
                result = run_rebuild(job, instance, run_id, request.days, forced, tags)
        except dg.DagsterError as error:
            cause = " ".join(str(error).split())
            raise BackfillError("the run", cause, "Nothing was started", "Correct the cause, then run again") from error
        markers_of(instance, lake).forget(run_id)
    if ending.number is not None and not result.success:
        raise Interrupted(ending.number, written(lake, request.tables, run_id))
    seconds = time.perf_counter() - began
    return RunOutcome(run_id, result.success, tuple(listener.ended), listener.cause, seconds)


def _given_outcome(lake: Lake, days: DayRange, run_id: str, name: str) -> TableOutcome:
    """What the run did to a table that an asset returned, by its receipts."""
    receipts = [c.receipt for c in lake.store.commits(name) if c.receipt is not None and c.receipt.run_id == run_id]
    changed = {d for receipt in receipts for d in receipt.days if d in days}
    day_column = next(d.contract.day_column for d in declared(lake.root) if d.contract.name == name)
    stamps = lake.store.view(name, day_column).stamps
    rows = sum(stamps[d].entry.rows for d in days if d in stamps)
    incomplete = tuple(d for d in days if d in stamps and stamps[d].entry.built is Built.INCOMPLETE)
    return TableOutcome(name, len(days), len(changed), rows, 0.0, incomplete=incomplete)


def written(lake: Lake, names: Sequence[str], run_id: str) -> str:
    """Describe the days of these tables that a run which ended early has written, by their receipts. It may have
    written ledgers, too."""
    found_days = []
    for name in names:
        found = (c.receipt for c in lake.store.commits(name) if c.receipt is not None)
        days = {d for receipt in found if receipt.run_id == run_id for d in receipt.days}
        found_days += [f"{name} {ranges(days)}"] if days else []
    return f"written before that: {'; '.join(found_days)}; no other day" if found_days else "no day was written"


@dataclass
class _Listener:
    """The tables of one run: steps by its events, days and rows by what was published."""

    lines: Lines
    steps: Mapping[str, str] = field(default_factory=dict)  # the table of each step of an asset of a project
    look: Callable[[str], TableOutcome] | None = None  # what the run did to such a table, once its step succeeded
    ended: list[TableOutcome] = field(default_factory=list)
    cause: str = ""
    _began: dict[str, float] = field(default_factory=dict)
    _published: dict[str, TableOutcome] = field(default_factory=dict)

    def published(self, rebuild: Rebuild, published: Published) -> None:
        """Keep the days of a published table, those with other content now, and its rows."""
        entries = {day: rebuild.ready.entries[day] for day in rebuild.days}
        same_rows = rewritten(rebuild.ready.before, entries, published)
        self._published[rebuild.table.name] = TableOutcome(
            rebuild.table.name,
            days=len(entries),
            changed=len(published.changed - same_rows),
            rows=sum(entry.rows for entry in entries.values()),
            seconds=0.0,
            rewritten=len(same_rows),
            phases=rebuild.request.phases.seconds(),
            unlike=tuple(sorted(published.unlike)),
            incomplete=tuple(d for d, entry in entries.items() if entry.built is Built.INCOMPLETE),
            kept_back=tuple(sorted(rebuild.kept_back.days)),
        )

    def on_event(self, entry: dg.EventLogEntry) -> None:
        """Handle one event of the run."""
        event = entry.dagster_event
        if event is None:
            return
        step = event.step_key or ""
        kind, name = event.event_type_value, self.steps.get(step) or table_made_by(step)
        if kind == dg.DagsterEventType.RUN_FAILURE.value and not self.cause:
            self.cause = (event.message or "the run failed").splitlines()[0]
        if name is None:
            return  # of the run itself, or of a standing check of a table, which Dagster shows: it makes nothing
        if kind == dg.DagsterEventType.STEP_START.value:
            self._began[name] = time.perf_counter()
            self.lines.started(name)
        elif kind == dg.DagsterEventType.STEP_SUCCESS.value:
            if self.look is not None:
                self._published[name] = self.look(name)
            self._end(name, "")
        elif kind == dg.DagsterEventType.STEP_FAILURE.value:
            cause, is_own = cause_of(event), not names_kept_back(event)
            self.cause = self.cause or cause
            if self.look is not None and not is_own:
                self._published[name] = self.look(name)
            self._end(name, cause if is_own else "")  # else it was made, and fails the run for the days kept back

    def _end(self, name: str, cause: str) -> None:
        seconds = time.perf_counter() - self._began.get(name, time.perf_counter())
        published = self._published.get(name, TableOutcome(name, 0, 0, 0, 0.0))
        outcome = replace(published, seconds=seconds, cause=cause)
        self.ended.append(outcome)
        self.lines.ended(outcome)
