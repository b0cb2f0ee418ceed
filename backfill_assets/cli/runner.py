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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from importlib import import_module
from itertools import chain, groupby
from pathlib import Path
from types import ModuleType

import dagster as dg

from backfill_assets.cli.dagster_home import instance_of, silence_dagster
from backfill_assets.cli.progress import ProgressLines, RunOutcome, TableOutcome, joined_outcome
from backfill_assets.dagster.adapter.assemble import rebuild_job
from backfill_assets.dagster.adapter.backfill_requests import is_kept_back_failure, run_rebuild
from backfill_assets.dagster.adapter.context import ALONE, Naming, Opened, table_of_step
from backfill_assets.dagster.adapter.history import cause_of
from backfill_assets.dagster.adapter.metadata import rewritten_days
from backfill_assets.dagster.adapter.runs import markers_of
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import (
    DayRange,
    SomeDays,
    contiguous_ranges,
    inclusive_range,
    parse_day,
    ranges_text,
    some_days,
)
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
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import WriteResult
from backfill_assets.pipeline.own_files import loaded_module

Look = Callable[[str, Collection[date] | None], TableOutcome]


def run_backfill(known: KnownStates, request: Work, lines: ProgressLines) -> RunOutcome:
    """Run the request; `lines` shows each table as it starts and ends. Raises Interrupted."""
    refuse_unwritable(known.lake)
    outcomes = list[RunOutcome]()
    for part, are_of_assets in _request_parts(known, request):
        lines.days = part.days
        outcome = _run_part(known, part, lines, are_of_assets)
        outcomes.append(outcome)
        if not outcome.success and not outcome.only_kept_back:
            break  # later tables may read what was not made
    return joined_outcome(outcomes)


def _request_parts(known: KnownStates, request: Work) -> Iterator[tuple[Work, bool]]:
    """Yield the request as runs, each with its tables in order, and whether assets of the project
    return their rows.

    An asset's function gets one range of partitions, so that each stretch of them is a run. A table
    that keeps good days fails its step, which would end the later steps of a run: it gets a run of
    its own. So does a table whose partitions are others, for those that cover a day of the request.
    """
    names_of_assets = {c.name for c in known.pipeline.contracts if c.made_by}
    for part in request.parts(known.pipeline.contracts):
        yield from _parts_by_maker(known, part, names_of_assets)


def _parts_by_maker(
    known: KnownStates, request: Work, names_of_assets: Collection[str]
) -> Iterator[tuple[Work, bool]]:
    """Yield a request of tables with equal partitions as `_request_parts` does."""
    for are_of_assets, group in groupby(request.tables, lambda name: name in names_of_assets):
        tables = tuple(group)
        has_gaps = isinstance(request.days, SomeDays)
        run_apart = are_of_assets and (has_gaps or _keep_good_days(known.lake, request, tables))
        if not run_apart:
            yield replace(request, tables=tables), are_of_assets
            continue
        for table in tables:
            contract = known.pipeline.contract(table, NOTHING_WAS_RUN)
            for days in _ranges_of_asset(known.lake, contract, request.days):
                yield replace(request, tables=(table,), days=days), are_of_assets


def _ranges_of_asset(lake: Lake, contract: Contract, keys: DayRange) -> list[DayRange]:
    """The partitions of an asset as ranges, ascending, with one call of its function for each.
    Partitions that follow each other are one range, also over those that its definition leaves out,
    where its backfill policy is a single run: else it may take one partition only."""
    calendar, left_out = contract.calendar, contract.left_out
    is_plain = calendar.is_of_days and not left_out
    if is_plain or not _takes_ranges(lake, contract):
        return contiguous_ranges(keys)
    between = calendar.keys_in(inclusive_range(keys.start, keys.last))
    passed_over = {key for key in between if left_out.has(key)}
    covered = chain.from_iterable(map(calendar.span, {*keys} | passed_over))
    found = (contract.keys_in(days) for days in contiguous_ranges(covered))
    return [some_days(stretch) for stretch in found if stretch]


def _takes_ranges(lake: Lake, contract: Contract) -> bool:
    """Whether the backfill policy of a table's asset is a single run. Raises SettingsError as
    `project_definitions`."""
    made = _assets_by_key(project_definitions(lake, [contract.name]))
    asset = made.get(_asset_key_of(contract))
    policy = asset.backfill_policy if asset is not None else None
    return policy is not None and policy.max_partitions_per_run is None


def _asset_key_of(contract: Contract) -> dg.AssetKey:
    """The key of the asset that returns a table's rows."""
    return dg.AssetKey(contract.made_by.split("/"))


def _keep_good_days(lake: Lake, request: Work, tables: Sequence[str]) -> bool:
    """Whether one of these tables is written without its bad days, by the request or its gates."""
    bounds = lake.settings.gates.bounds
    modes = (request.mode.with_default(bounds(table).on_bad_days) for table in tables)
    return any(mode.keeps_good_days for mode in modes)


def _run_part(
    known: KnownStates, request: Work, lines: ProgressLines, are_of_assets: bool
) -> RunOutcome:
    """Make one run. `are_of_assets`: the tables' rows are returned by assets of the project, whose
    steps publish nothing here, so that their outcome is read from receipts."""
    lake, began, run_id = known.lake, time.perf_counter(), str(uuid.uuid4())
    listener = _Listener(lines)
    with ends_when_interrupted() as ending, silence_dagster(), instance_of(lake) as instance:
        if are_of_assets:
            contracts = {
                name: known.pipeline.contract(name, NOTHING_WAS_RUN) for name in request.tables
            }
            job, listener.steps = asset_job(lake, contracts.values())
            before = {c.name: lake.store.view(c.name, c.day_column) for c in contracts.values()}
            listener.look = _AssetTables(lake, request.days, run_id, contracts, before).outcome
        else:
            looks = replace(ALONE, naming=Naming.named_by(os.environ))
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
        if are_of_assets:  # they opened the lake themselves: what is known of it is old
            known.read()
    if ending.number is not None and not result.success:
        raise Interrupted(ending.number, written_days_text(lake, request.tables, run_id))
    seconds = time.perf_counter() - began
    return RunOutcome(run_id, result.success, tuple(listener.ended), listener.cause, seconds)


@dataclass(frozen=True)
class _AssetTables:
    """What a run does to the tables that assets return, by their receipts."""

    lake: Lake
    days: DayRange
    run_id: str
    contracts: Mapping[str, Contract]
    before: Mapping[str, TableView]  # as the run found them

    def outcome(self, name: str, made: Collection[date] | None) -> TableOutcome:
        """Return what the run did to one table. `made`: the days that Dagster heard of, where the
        step failed for the others, which were kept back; None: all of them."""
        latest = self.lake.store.view(name, self.contracts[name].day_column).latest
        entries = {day: latest[day].entry for day in self.days if day in latest}
        written = {day for day in entries if latest[day].run_id == self.run_id}
        before = self.before[name].latest
        written_again = {day for day in written if day in before}
        unchanged = set()
        for day in written_again:
            if before[day].entry.content == entries[day].content:
                unchanged.add(day)
        kept_back = [] if made is None else [day for day in self.days if day not in made]
        incomplete = [day for day, entry in entries.items() if entry.built is Built.INCOMPLETE]
        return TableOutcome(
            name,
            days=len(self.days) - len(kept_back),
            changed=len(written - unchanged),
            rows=sum(entry.rows for entry in entries.values()),
            seconds=0.0,
            rewritten=len(unchanged),
            kept_back=tuple(kept_back),
            incomplete=tuple(incomplete),
            unit=self.contracts[name].calendar.unit,
        )


def written_days_text(lake: Lake, names: Sequence[str], run_id: str) -> str:
    """Describe the days of these tables that a run which ended early has written, by their
    receipts. It may have written ledgers, too."""
    found = []
    for name in names:
        days = set[date]()
        for commit in lake.store.commits(name):
            if commit.receipt is not None and commit.receipt.run_id == run_id:
                days.update(commit.receipt.days)
        if days:
            found.append(f"{name} {ranges_text(days)}")
    if not found:
        return "no day was written"
    return f"written before that: {'; '.join(found)}; no other day"


@dataclass
class _Listener:
    """The tables of one run: steps by its events, days and rows by what was published."""

    lines: ProgressLines
    # The table of each step of an asset of a project.
    steps: Mapping[str, str] = field(default_factory=dict)
    look: Look | None = None  # what the run did to such a table, once its step ended and wrote
    ended: list[TableOutcome] = field(default_factory=list)
    cause: str = ""
    _began: dict[str, float] = field(default_factory=dict)
    _published: dict[str, TableOutcome] = field(default_factory=dict)
    # The days as Dagster heard of them.
    _made: dict[str, set[date]] = field(default_factory=lambda: defaultdict(set))

    def published(self, rebuild: Rebuild, published: WriteResult) -> None:
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
            unit=rebuild.table.contract.calendar.unit,
        )

    def on_event(self, entry: dg.EventLogEntry) -> None:
        """Handle one event of the run."""
        event = entry.dagster_event
        if event is None:
            return
        if event.event_type is dg.DagsterEventType.RUN_FAILURE and not self.cause:
            self.cause = (event.message or "the run failed").splitlines()[0]
        step = event.step_key or ""
        # Other events are of the run itself, or of a standing check of a table, which Dagster
        # shows: it makes nothing.
        if name := self.steps.get(step) or table_of_step(step):
            self._on_event_of_table(name, event)

    def _on_event_of_table(self, name: str, event: dg.DagsterEvent) -> None:
        """Follow the step of a table: it begins, its asset's days are made, it succeeds or
        fails."""
        kind = event.event_type
        if kind is dg.DagsterEventType.STEP_START:
            self._began[name] = time.perf_counter()
            self.lines.started(name)
        elif kind is dg.DagsterEventType.ASSET_MATERIALIZATION:
            if event.partition is not None:
                self._made[name].add(parse_day(event.partition))
        elif kind is dg.DagsterEventType.STEP_SUCCESS:
            self._end_table(name, "", None)
        elif kind is dg.DagsterEventType.STEP_FAILURE:
            cause = cause_of(event)
            self.cause = self.cause or cause
            # A step that names days that it kept back has made its table, and fails the run for
            # these days.
            was_made = is_kept_back_failure(event)
            self._end_table(name, "" if was_made else cause, self._made[name])

    def _end_table(self, name: str, cause: str, made: Collection[date] | None) -> None:
        """Keep and show the outcome of a table whose step ended; `cause` and `made` as for
        `TableOutcome` and `look`."""
        if self.look is not None and not cause:
            self._published[name] = self.look(name, made)
        seconds = time.perf_counter() - self._began.get(name, time.perf_counter())
        nothing = TableOutcome(name, days=0, changed=0, rows=0, seconds=0.0)
        published = self._published.get(name, nothing)
        outcome = replace(published, seconds=seconds, cause=cause)
        self.ended.append(outcome)
        self.lines.ended(outcome)


ASSET_JOB = "backfill_assets__given"
NOTHING_WAS_RUN = "Nothing was run"


def asset_job(
    lake: Lake, contracts: Iterable[Contract]
) -> tuple[dg.JobDefinition, Mapping[str, str]]:
    """Return the job of the assets that return the tables of these contracts, in this process, and
    the table of each of its steps. Raises SettingsError where the lake does not name the project's
    definitions, and where these lack an asset."""
    keys = {contract.name: _asset_key_of(contract) for contract in contracts}
    defs = project_definitions(lake, sorted(keys))
    made = _assets_by_key(defs)
    if lacking := sorted(name for name, key in keys.items() if key not in made):
        raise SettingsError(
            str(lake.settings.pipeline.definitions),
            f"they have no asset {', '.join(keys[name].to_user_string() for name in lacking)}",
            NOTHING_WAS_RUN,
            "Correct [pipeline] definitions, or leave these tables out with --tables",
        )
    selection = dg.AssetSelection.assets(*keys.values())
    job = dg.define_asset_job(ASSET_JOB, selection=selection, executor_def=dg.in_process_executor)
    with_job = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    tables_of_steps = {made[key].op.name: name for name, key in keys.items()}
    return with_job.resolve_job_def(ASSET_JOB), tables_of_steps


def _assets_by_key(defs: dg.Definitions) -> dict[dg.AssetKey, dg.AssetsDefinition]:
    """The definitions of assets that make something, by each key that they make."""
    made: dict[dg.AssetKey, dg.AssetsDefinition] = {}
    for asset in defs.assets or ():
        if isinstance(asset, dg.AssetsDefinition):
            made |= dict.fromkeys(asset.keys, asset)
    return made


def project_definitions(lake: Lake, tables: Collection[str]) -> dg.Definitions:
    """The project's definitions. Raises SettingsError where `lake.toml` names none that can be
    loaded."""
    named = lake.settings.pipeline.definitions
    if named is None:
        raise SettingsError(
            f"the table {', '.join(tables)}",
            "an asset of a Dagster project returns its rows",
            NOTHING_WAS_RUN,
            "Materialize it in Dagster, or name the project's definitions in lake.toml, for "
            "example "
            '[pipeline] definitions = "shop.definitions"',
        )
    try:
        found = _loaded_definitions(lake, named)
    except BackfillError:
        raise
    except Exception as error:
        raise SettingsError(
            f"[pipeline] definitions in {lake.place.uri(FILE_NAME)}",
            f"{named}: {type(error).__name__}: {error}",
            NOTHING_WAS_RUN,
            "Run the command where the project can be imported, or correct the name",
        ) from error
    if isinstance(found, dg.Definitions):
        return found
    raise SettingsError(
        f"[pipeline] definitions in {lake.place.uri(FILE_NAME)}",
        f"{named} is a {type(found).__name__}",
        NOTHING_WAS_RUN,
        "Name a dagster.Definitions",
    )


def _loaded_definitions(lake: Lake, named: str) -> object:
    """What MODULE or FILE.py holds under `defs`, or under NAME of MODULE:NAME; a function is
    called. Raises what loading raises."""
    place, _, name = named.partition(":")
    module = _module_at(lake.root / place) if place.endswith(".py") else import_module(place)
    found = getattr(module, name or "defs")
    if isinstance(found, dg.Definitions) or not callable(found):
        return found
    return found()


def _module_at(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return loaded_module(path)
