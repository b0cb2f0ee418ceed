"""Assets with their checks, made from contracts. An asset's body prepares a rebuild; the IO manager
publishes it.

Here: a table as Dagster shows it: partitions, policy, dependencies (identity mappings; windows are
in the contracts), from contract to asset; and what the first step and the end of a run do for the
whole lake. Not here: the load path itself (`kernel.write.rebuild`) and the ledgers beside raw
(`io_manager`).

Order of events (facts of Dagster 1.13): a check evaluated before its materialization would be
cleared by it, so a good run yields the output first; a bad run yields its evaluations and then
fails, and nothing was written.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
from pydantic import Field

from backfill_assets.dagster.adapter.alerts import report_alarms
from backfill_assets.dagster.adapter.backfill_requests import (
    raise_kept_back,
    remember_kept_back,
    with_bad_days,
    work_of,
)
from backfill_assets.dagster.adapter.checks import report_stale_checks
from backfill_assets.dagster.adapter.context import Opened
from backfill_assets.dagster.adapter.io_manager import (
    Handover,
    Hears,
    RebuildIOManager,
    as_failures,
    report_ledgers,
)
from backfill_assets.dagster.adapter.metadata import asset_metadata, data_version, earlier_facts
from backfill_assets.dagster.adapter.partitions import partitions_of, shown_mapping
from backfill_assets.dagster.adapter.reconcile import reconcile
from backfill_assets.dagster.adapter.runs import (
    DAYS_TAG,
    LAKE_TAG,
    REASON_TAG,
    TABLES_TAG,
    days_of_run,
    markers_of,
)
from backfill_assets.dagster.adapter.step_write import StepWrite
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.contracts import Contract, Input, InputKind
from backfill_assets.kernel.core.days import DayRange, parse_days, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.interrupts import ends_when_interrupted, receive_interrupts
from backfill_assets.kernel.core.ledgers import QUARANTINE
from backfill_assets.kernel.core.process import collect_seldom
from backfill_assets.kernel.place.port import load_lock
from backfill_assets.kernel.tables.home import restricted_access
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Table
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.reading.rejected import retyped_columns, unusable_rows

IO_MANAGER = "lake_io_manager"


class LoadConfig(dg.Config):
    """The launchpad's settings; it shows the descriptions beside the fields."""

    force: bool = Field(
        False,
        description="Compute and rewrite days even if their receipts say that they are right.",
    )
    note: str = Field("", description="Why, in your words: it goes into every receipt of this run.")
    on_bad_days: str = Field(
        "",
        description="keep_good: write the good days though others are refused; refuse: none. "
        "Empty: "
        "as "
        "lake.toml.",
    )
    days: str = Field(
        "",
        description="Of the run's range these days only, e.g. 2024-03-01,2024-03-05..07. Empty: "
        "all "
        "of "
        "them.",
    )
    asked: dict[str, str] = Field(
        default_factory=dict,
        description="Filled in by sensors: what was asked for, and why. Changes nothing about the "
        "run; "
        "leave it empty.",
    )


def _page_text(contract: Contract) -> str:
    """First lines of the asset's page: the table's content, its inputs, and how a person corrects
    its days."""
    inputs = ", ".join(i.table for i in contract.inputs) or "landed files"
    key = f", one row per {', '.join(contract.key)}" if contract.key else ""
    name = contract.name
    return (
        f"{contract.description}\n\nMade from {inputs}{key}. A partition is a "
        f"{contract.calendar.unit} of `{contract.day_column}` (UTC): "
        "*Partitions* shows why it was written and links to the days it is made from. To correct "
        "days press "
        f"*Materialize* (a range is one run), or use `backfill-assets plan --tables {name} --from "
        "DAY --to DAY`. What "
        "is not up to date, and why: `backfill-assets status --why`. One day's receipt, inputs "
        "and history: "
        f"`backfill-assets show {name} DAY`."
    )


def lake_asset(opened: Opened, table: Table) -> dg.AssetsDefinition:
    """The Dagster asset of a table. Runs a range of days as one run, one commit."""
    contract, naming, looks = table.contract, opened.naming, opened.appearance
    spec = dg.AssetSpec(
        naming.key(contract.name),
        deps=_asset_deps(opened, contract),
        description=opened.described(_page_text(contract)),
        code_version=opened.pipeline.codes[contract.name].code_digest,
        partitions_def=partitions_of(contract.calendar, opened.lake.settings.start_date),
        metadata=asset_metadata(opened.lake, table, naming),
        **looks.of(table.is_landed),
    ).with_io_manager_key(naming.name(IO_MANAGER))

    @dg.multi_asset(
        name=naming.step(contract.name),
        specs=[spec],
        backfill_policy=dg.BackfillPolicy.single_run(),
        **opened.step,
    )
    def make(context: dg.AssetExecutionContext, config: LoadConfig) -> Iterator[Any]:
        """Rebuild the run's days."""
        with as_failures():
            if not opened.appearance.is_guest:
                collect_seldom()
            receive_interrupts()
            lake, _ = opened.require()
            with ends_when_interrupted(), restricted_access(lake):
                yield from _table_steps(
                    context, config, opened, table, _run_days(context, config.days)
                )

    return make


def _asset_deps(opened: Opened, contract: Contract) -> list[dg.AssetDep]:
    """The inputs of a table as Dagster shows them, a mapping each: several windows of one table
    become the widest."""
    windows: dict[str, list[Input]] = {}
    for wanted in contract.inputs:
        if wanted.kind is not InputKind.FILES:
            windows.setdefault(wanted.table, []).append(wanted)
    as_windows = opened.appearance.mappings == "windows"
    contracts = {c.name: c for c in opened.pipeline.contracts}
    return [
        dg.AssetDep(
            opened.naming.of(contracts[t]),
            partition_mapping=shown_mapping(wanted, as_windows),
        )
        for t, wanted in windows.items()
    ]


def _run_days(context: dg.AssetExecutionContext, chosen: str) -> DayRange:
    """The days that the run is to rebuild: the `chosen` days of its range ("": all). Raises
    BackfillError for a run without days, and for chosen days that lie outside."""
    days = days_of_run(context.run)
    if days is None:
        raise BackfillError(
            "the run",
            "its partitions are no days in order",
            "Nothing was written",
            "Name days of the form YYYY-MM-DD, the earlier one first",
        )
    if not chosen:
        return days
    named = parse_days(chosen)
    if beyond := {*named} - {*days}:
        raise BackfillError(
            "the setting days of the run",
            f"{ranges_text(beyond)} are not in its range {days}",
            "Nothing was written",
            "Choose a range that holds all of them",
        )
    return named


def _table_steps(
    context: dg.AssetExecutionContext,
    config: LoadConfig,
    opened: Opened,
    table: Table,
    days: DayRange,
) -> Iterator[Any]:
    """Prepare, judge and publish one table of the run; then report what its load set aside and
    which days are stale."""
    contract, run_id = table.contract, context.run.run_id
    known = opened.known(run_id)
    if opened.is_first_step(run_id):
        _begin_run(context, opened, known, days)
    rebuild = Rebuild(_table_request(context, opened, known, days, table, config))
    write = StepWrite(context, rebuild, opened.naming)
    with contextlib.ExitStack() as held:
        if table.is_landed:
            held.enter_context(load_lock(opened.lake.place, contract.source))
        try:
            write.prepare()
            yield _handover_output(write, held.close)
            write.log_verdicts(rebuild.days)
            remember_kept_back(context, opened, rebuild)
            if table.is_landed:
                report_ledgers(context.instance, opened, contract, run_id)
                _warn_of_unusable(context, rebuild)
            raise_kept_back(context, opened, contract.name)
        finally:
            with contextlib.suppress(Exception):
                rebuild.release()


def _begin_run(
    context: dg.AssetExecutionContext, opened: Opened, known: KnownStates, days: DayRange
) -> None:
    """Tag the run with its lake, days and tables, show in the lake that it lives, and record what
    Dagster missed: before the first step of the run in this process."""
    lake, naming, instance = opened.lake, opened.naming, context.instance
    chosen = context.run.asset_selection or context.job_def.asset_layer.executable_asset_keys
    names = [c.name for c in opened.pipeline.contracts if naming.key(c.name) in chosen]
    tags = {LAKE_TAG: lake.address}
    if len(days) > 1:  # for the runs list, which shows single days only
        has_all_tables = len(names) == len(opened.pipeline.contracts)
        tags |= {DAYS_TAG: str(days), TABLES_TAG: "all" if has_all_tables else ", ".join(names)}
    instance.add_run_tags(context.run.run_id, tags)
    markers_of(instance, lake).mark(context.run.run_id, context.job_def.executor_def.name)
    reconcile(instance, lake, known.states, naming)


def _warn_of_unusable(context: dg.AssetExecutionContext, rebuild: Rebuild) -> None:
    """Warn of rows and files of the run's days that no table gets; also by alert where the run
    loaded them."""
    request, contract = rebuild.request, rebuild.table.contract
    lake = request.lake_session.lake.of_source(contract.source)
    unusable = str(unusable_rows(lake, request.days))
    for line in (unusable, *retyped_columns(lake)):
        if line:
            context.log.warning(line)
    loaded = {*request.days} - {*rebuild.ready.settled}
    if not loaded:
        return
    loaded_all = len(loaded) == len(request.days)
    news = unusable if loaded_all else str(unusable_rows(lake, loaded))
    if news:
        alarms = {f"{contract.name} {ranges_text(loaded)}": news}
        report_alarms(lake.root, context.instance, QUARANTINE, alarms, context.log, is_run=True)


def _table_request(
    context: dg.AssetExecutionContext,
    opened: Opened,
    known: KnownStates,
    days: DayRange,
    table: Table,
    config: LoadConfig,
) -> RebuildRequest:
    """The request for one table of the run."""
    work = work_of(context.run.tags, days, table.name, opened.by)
    work = with_bad_days(context, opened, work, config.on_bad_days)
    if config.force:
        work = replace(work, force=work.force | {table.name})
    if config.note:
        work = replace(work, note=config.note)
    session = LakeSession(opened.lake)
    return RebuildRequest.of(work, session, known, context.run.run_id, meter=session.meter())


def _handover_output(write: StepWrite, give_up: Callable[[], None]) -> dg.Output[Handover]:
    """The output by which the IO manager publishes. A single day has its fingerprint as Dagster's
    data version."""
    rebuild, naming = write.rebuild, write.naming
    earlier = earlier_facts(write.step.instance, rebuild, naming)
    version = None
    if len(rebuild.days) == 1:
        entry = rebuild.ready.entries[rebuild.days.start]
        version = dg.DataVersion(data_version(entry))
    return dg.Output(
        Handover(write, earlier, give_up),
        output_name=naming.output(rebuild.table.name),
        data_version=version,
    )


def io_manager_of(opened: Opened, hears: Hears | None = None) -> dg.IOManagerDefinition:
    """The IO manager of a lake. At the end of each run, also of a failed one, readers see what it
    wrote."""

    @dg.io_manager  # type: ignore[arg-type]  # a generator is documented, and not in the types
    def lake_io_manager(context: dg.InitResourceContext) -> Iterator[RebuildIOManager]:
        """The IO manager of one run."""
        try:
            yield RebuildIOManager(hears)
        finally:
            if context.run is not None and context.instance is not None and opened.missing is None:
                _end_run(context.instance, context.run, opened)

    return lake_io_manager


def _end_run(instance: dg.DagsterInstance, run: dg.DagsterRun, opened: Opened) -> None:
    """Let readers see what the run wrote, and tell which tables are stale now: also others than its
    own."""
    why = f"{run.tags.get(REASON_TAG, 'manual')} (run {run.run_id[:8]})"
    markers = markers_of(instance, opened.lake)
    ended = markers.ending_run(instance, run)
    try:
        record_versions(opened.lake, opened.pipeline.contracts, why, ended, opened.by)
    finally:
        markers.forget(ended)
    states = opened.known(run.run_id).read()  # others may have written since it began
    report_stale_checks(instance, opened.lake, states, opened.naming)
