"""Running a backfill through Dagster, in this process: one run of the job `rebuild`, and its events
per table.

Tables that assets of a project return are made by a job of the project's definitions, which
`[pipeline] definitions` of `lake.toml` names. Not here: the write path (`kernel.write`), a lake's
own tables (`dagster.adapter.assemble`), and which Dagster instance is meant (`dagster_home`).
"""

import os
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import ModuleType

import dagster as dg

from backfill_assets.assets.declared import declared
from backfill_assets.cli.dagster_home import instance_of, silenced
from backfill_assets.cli.progress import Lines, RunOutcome, TableOutcome, joined
from backfill_assets.dagster.adapter.assemble import rebuild_job
from backfill_assets.dagster.adapter.backfill_requests import names_kept_back, run_rebuild
from backfill_assets.dagster.adapter.context import ALONE, Naming, Opened, table_made_by
from backfill_assets.dagster.adapter.history import cause_of
from backfill_assets.dagster.adapter.metadata import rewritten_days
from backfill_assets.dagster.adapter.runs import markers_of
from backfill_assets.kernel.core.days import DayRange, SomeDays, contiguous, parse_day, ranges
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.interrupts import (
    Interrupted,
    children_ignore_interrupts,
    ends_when_interrupted,
)
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.tables.home import Lake, refuse_unwritable
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.known import Known
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import Published
from backfill_assets.pipeline.own_files import loaded

Look = Callable[[str, Collection[date] | None], TableOutcome]


def run_backfill(known: Known, request: Work, lines: Lines) -> RunOutcome:
    """Run the request; `lines` shows each table as it starts and ends. Raises Interrupted."""
    refuse_unwritable(known.lake)
    outcomes = list[RunOutcome]()
    for part, are_given in _parts(known.lake, request):
        lines.days = part.days
        outcomes.append(_run(known, part, lines, are_given))
        if not outcomes[-1].success and not outcomes[-1].only_kept_back:
            break
    return joined(outcomes)


def _parts(lake: Lake, request: Work) -> Iterator[tuple[Work, bool]]:
    """The request as runs, each with its tables in order, and whether assets of the project return
    their rows. An asset's function gets one range of days, so that each stretch of days is a run. A
    table that keeps good days fails its step, which would end the later steps of a run: it gets a
    run of its own."""
    given = {d.contract.name for d in declared(lake.root)}
    mode, gates = request.mode, lake.settings.gates
    for are_given, group in groupby(request.tables, lambda name: name in given):
        tables = tuple(group)
        alone = isinstance(request.days, SomeDays) or any(
            mode.with_default(gates.bounds(t).on_bad_days).keeps_good_days for t in tables
        )
        if not (are_given and alone):
            yield replace(request, tables=tables), are_given
            continue
        for table in tables:
            for days in contiguous(request.days):
                yield replace(request, tables=(table,), days=days), are_given


def _run(known: Known, request: Work, lines: Lines, are_given: bool) -> RunOutcome:
    """One run; `are_given`: of assets of a project, which look by themselves."""
    lake, began, run_id = known.lake, time.perf_counter(), str(uuid.uuid4())
    listener, naming = _Listener(lines), Naming.named_by(os.environ)
    with ends_when_interrupted() as ending, silenced(), instance_of(lake) as instance:
        if are_given:
            job, listener.steps = job_of(lake, request.tables)
            listener.look = _GivenTables(
                lake, request.days, run_id, {t: _view(lake, t) for t in request.tables}
            ).outcome
        else:
            looks = replace(ALONE, naming=naming)
            opened = Opened(
                lake, known.pipeline, by=whoami(), appearance=looks, known_by={run_id: known}
            )
            job = rebuild_job(opened, request.tables, listener.published)
        instance.add_event_listener(run_id, listener.on_event)
        try:
            with children_ignore_interrupts():
                result = run_rebuild(job, instance, run_id, request)
        except dg.DagsterError as error:
            cause = " ".join(str(error).split())
            raise BackfillError(
                "the run", cause, "Nothing was started", "Correct the cause, then run again"
            ) from error
        markers_of(instance, lake).forget(run_id)
        if are_given:
            known.read()
    if ending.number is not None and not result.success:
        raise Interrupted(ending.number, written(lake, request.tables, run_id))
    seconds = time.perf_counter() - began
    return RunOutcome(run_id, result.success, tuple(listener.ended), listener.cause, seconds)


@dataclass(frozen=True)
class _GivenTables:
    """What a run does to the tables that assets return, by their receipts."""

    lake: Lake
    days: DayRange
    run_id: str
    before: Mapping[str, TableView]  # as the run found them

    def outcome(self, name: str, made: Collection[date] | None) -> TableOutcome:
        """Of one table. `made`: the days that Dagster heard of, where the step failed for the
        others, which were kept back; None: all of them."""
        before, now = self.before[name], _view(self.lake, name)
        there = {d: now.latest[d].entry for d in self.days if d in now.latest}
        wrote = {d for d in there if now.latest[d].run_id == self.run_id}
        same = {
            d
            for d in wrote
            if d in before.latest and before.latest[d].entry.content == there[d].content
        }
        kept_back = tuple(d for d in self.days if made is not None and d not in made)
        return TableOutcome(
            name,
            len(self.days) - len(kept_back),
            len(wrote - same),
            sum(e.rows for e in there.values()),
            0.0,
            rewritten=len(same),
            kept_back=kept_back,
            incomplete=tuple(d for d, e in there.items() if e.built is Built.INCOMPLETE),
        )


def _view(lake: Lake, name: str) -> TableView:
    day_column = next(
        (d.contract.day_column for d in declared(lake.root) if d.contract.name == name), ""
    )
    return lake.store.view(name, day_column)


def written(lake: Lake, names: Sequence[str], run_id: str) -> str:
    """Describe the days of these tables that a run which ended early has written, by their
    receipts. It may have written ledgers, too."""
    found_days = []
    for name in names:
        found = (c.receipt for c in lake.store.commits(name) if c.receipt is not None)
        days = {d for receipt in found if receipt.run_id == run_id for d in receipt.days}
        found_days += [f"{name} {ranges(days)}"] if days else []
    return (
        f"written before that: {'; '.join(found_days)}; no other day"
        if found_days
        else "no day was written"
    )


@dataclass
class _Listener:
    """The tables of one run: steps by its events, days and rows by what was published."""

    lines: Lines
    steps: Mapping[str, str] = field(
        default_factory=dict
    )  # the table of each step of an asset of a project
    look: Look | None = None  # what the run did to such a table, once its step ended and wrote
    ended: list[TableOutcome] = field(default_factory=list)
    cause: str = ""
    _began: dict[str, float] = field(default_factory=dict)
    _published: dict[str, TableOutcome] = field(default_factory=dict)
    _made: dict[str, set[date]] = field(
        default_factory=lambda: defaultdict(set)
    )  # as Dagster heard of it

    def published(self, rebuild: Rebuild, published: Published) -> None:
        """Keep the days of a published table, the days whose content changed, and its rows."""
        entries = {day: rebuild.ready.entries[day] for day in rebuild.days}
        same_rows = rewritten_days(rebuild.ready.before, entries, published)
        self._published[rebuild.table.name] = TableOutcome(
            rebuild.table.name,
            days=len(entries),
            changed=len(published.changed - same_rows),
            rows=sum(entry.rows for entry in entries.values()),
            seconds=0.0,
            rewritten=len(same_rows),
            phases=rebuild.request.phases.seconds(),
            irreproducible=tuple(sorted(published.irreproducible)),
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
            # Of the run itself, or of a standing check of a table, which Dagster shows: it makes
            # nothing.
            return
        if kind == dg.DagsterEventType.STEP_START.value:
            self._began[name] = time.perf_counter()
            self.lines.started(name)
        elif (
            kind == dg.DagsterEventType.ASSET_MATERIALIZATION.value and event.partition is not None
        ):
            self._made[name].add(parse_day(event.partition))
        elif kind == dg.DagsterEventType.STEP_SUCCESS.value:
            self._end(name, "", None)
        elif kind == dg.DagsterEventType.STEP_FAILURE.value:
            cause, is_own = cause_of(event), not names_kept_back(event)
            self.cause = self.cause or cause
            self._end(
                name, cause if is_own else "", self._made[name]
            )  # else made, and fails the run for others

    def _end(self, name: str, cause: str, made: Collection[date] | None) -> None:
        if self.look is not None and not cause:
            self._published[name] = self.look(name, made)
        seconds = time.perf_counter() - self._began.get(name, time.perf_counter())
        published = self._published.get(name, TableOutcome(name, 0, 0, 0, 0.0))
        outcome = replace(published, seconds=seconds, cause=cause)
        self.ended.append(outcome)
        self.lines.ended(outcome)


JOB = "backfill_assets__given"
NOTHING = "Nothing was run"


def job_of(lake: Lake, tables: Collection[str]) -> tuple[dg.JobDefinition, Mapping[str, str]]:
    """The job of the assets that return these tables, in this process, and the table of each of its
    steps. Raises SettingsError where the lake does not name the project's definitions, and where
    these lack an asset."""
    keys = {
        d.contract.name: dg.AssetKey(list(d.asset))
        for d in declared(lake.root)
        if d.contract.name in tables
    }
    defs = definitions_of(lake, sorted(keys))
    made = {
        key: asset
        for asset in defs.assets or ()
        if isinstance(asset, dg.AssetsDefinition)
        for key in asset.keys
    }
    if lacking := sorted(name for name, key in keys.items() if key not in made):
        raise SettingsError(
            str(lake.settings.pipeline.definitions),
            f"they have no asset {', '.join(keys[name].to_user_string() for name in lacking)}",
            NOTHING,
            "Correct [pipeline] definitions, or leave these tables out with --tables",
        )
    job = dg.define_asset_job(
        JOB, selection=dg.AssetSelection.assets(*keys.values()), executor_def=dg.in_process_executor
    )
    whole = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    return whole.resolve_job_def(JOB), {made[key].op.name: name for name, key in keys.items()}


def definitions_of(lake: Lake, tables: Collection[str]) -> dg.Definitions:
    """The project's definitions. Raises SettingsError where `lake.toml` names none that can be
    loaded."""
    named = lake.settings.pipeline.definitions
    if named is None:
        raise SettingsError(
            f"the table {', '.join(tables)}",
            "an asset of a Dagster project returns its rows",
            NOTHING,
            "Materialize it in Dagster, or name the project's definitions in lake.toml, for "
            "example "
            '[pipeline] definitions = "shop.definitions"',
        )
    place, _, name = named.partition(":")
    try:
        found = getattr(
            _module(lake.root / place) if place.endswith(".py") else import_module(place),
            name or "defs",
        )
        found = found if isinstance(found, dg.Definitions) or not callable(found) else found()
    except BackfillError:
        raise
    except Exception as error:
        raise SettingsError(
            f"[pipeline] definitions in {lake.place.uri(FILE_NAME)}",
            f"{named}: {type(error).__name__}: {error}",
            NOTHING,
            "Run the command where the project can be imported, or correct the name",
        ) from error
    if isinstance(found, dg.Definitions):
        return found
    raise SettingsError(
        f"[pipeline] definitions in {lake.place.uri(FILE_NAME)}",
        f"{named} is a {type(found).__name__}",
        NOTHING,
        "Name a dagster.Definitions",
    )


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return loaded(path)
