"""`LakeIOManager`: days that any daily asset of a project returns, written by the path of a lake's
own tables.

Lives here: what Dagster asks of an IO manager, the versions that a step's inputs are pinned to, and
what Dagster shows of a write. Does not live here: the contract of a table (`contracts`), and
staging, judging and committing rows (`kernel.write.rebuild`).
"""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg
from pydantic import Field, PrivateAttr

from backfill_assets.assets.contracts import (
    DECLARED,
    TABLE,
    SchemaChanges,
    asset_periods,
    asset_table_name,
    input_table_name,
    table_declaration,
    unpinned_inputs,
)
from backfill_assets.assets.declared import DeclaredTable, find_declared
from backfill_assets.assets.given_rows import GivenRows
from backfill_assets.assets.inputs import (
    Form,
    InputDays,
    input_columns,
    input_first_day,
    input_metadata,
    never_made_error,
    placeholder_contract,
    rows_as_annotated,
)
from backfill_assets.assets.lakes import declaring_table, lake_at, lake_for_asset
from backfill_assets.assets.loaded import (
    LoadedInput,
    MappedInput,
    config_digest,
    days_to_load,
    mapping_of,
    read_inputs,
)
from backfill_assets.dagster.adding import (
    StepWrite,
    as_failures,
    day_materialization,
    day_metadata,
    declared_table_name,
    end_dead_runs,
    explaining_commit,
    logging_refused_days,
    markers_of,
    record_observations,
    report_green_days,
    step_reads,
    work_of,
)
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.core.contracts import Contract, Input
from backfill_assets.kernel.core.days import parse_day, some_days
from backfill_assets.kernel.core.errors import BackfillError, InputMissing, SettingsError
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import is_lake
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.candidate import RebuildRequest, ReturnedRows
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import WriteResult
from backfill_assets.pipeline.chosen import chosen_pipeline

ObserveInput = Callable[[str, dg.InputContext, Collection[str]], Lake | None]
BESIDE_TAG = "not pinned"  # the tag of a receipt: inputs that the asset did not load from the lake


@dataclass(frozen=True)
class StepInputs:
    """The lake as a step first asked for it, with what it wrote itself, and the inputs that were
    loaded for the step since, by table."""

    pipeline: Pipeline
    states: States
    loaded: dict[str, LoadedInput] = field(default_factory=dict)
    written: dict[str, LoadedInput] = field(default_factory=dict)  # its own outputs, by table

    @property
    def read(self) -> dict[str, LoadedInput]:
        """What the rows of an output may be made from, by table."""
        return {**self.written, **self.loaded}


# by each attempt of a step, as long as it runs, and lake: managers of one lake share what one of
# them read for the step
PINNED: WeakKeyDictionary[dg.OpExecutionContext, dict[Path, StepInputs]] = WeakKeyDictionary()


class LakeIOManager(dg.ConfigurableIOManager):
    """Stores the days that daily assets return in a lake, and gives them to assets that read them.

    An asset returns the rows of its days as a Spark, pandas or polars DataFrame, an Arrow table or
    reader; the column with the day is named by its metadata `partition_expr`. All days of a run are
    written in one commit with a receipt; days without rows are cleared; equal rows write nothing.
    Nothing is written, and the step fails, where rows are of other days, a rule of `lake_checks`
    refuses them, or the columns are others. With `on_bad_days = "keep_good"` (of `lake_checks`,
    `[gates.tables.NAME]` or the run's tag `on_bad_days`) a refused day keeps its rows, the other
    days are written, and the step fails afterwards.

    A parameter gets the input's days of the partition mapping, in the form of its annotation (a
    DataFrame of Spark, pandas or polars, `pyarrow.Table`, `pyarrow.RecordBatchReader`,
    `duckdb.DuckDBPyRelation`); all inputs of a step are of one moment, which the receipt names.
    Does not store assets whose partitions are no whole days, weeks, months, quarters or years.

    `spark` gives frames of Spark in place of an engine of the lake's own: a session, a function
    that returns one, or a resource with a `spark_session`. Nothing of it is started, stopped or
    set.
    """

    lake: str = Field(description="The folder of the lake. It is made with the first write.")
    schema_changes: SchemaChanges = Field(
        default="refuse",
        description="What to do with rows of other columns than the table's: refuse, or evolve it.",
    )
    spark: dg.ResourceDependency[Any] = None  # type: ignore[assignment]  # Dagster makes a field of it
    default_form: Form = Field(
        default="spark", description="The form of inputs whose parameter has no annotation."
    )
    _run: dg.DagsterRun | None = PrivateAttr(default=None)
    _is_marked: bool = PrivateAttr(default=False)  # whether the run has its marker in the lake

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Remember the run. If another step of it wrote to the lake already, so that its marker is
        there, show from this process, too, that the run lives."""
        self._run = context.run
        run, instance = context.run, context.instance
        if run is None or instance is None or not is_lake(local_root(self.lake)):
            return
        self._is_marked = markers_of(instance, lake_at(self.lake)).join(run.run_id)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Let readers see together what the run has written, once its last step ended; look for
        days that Dagster shows as made although nothing was returned."""
        run, instance = self._run, context.instance
        if run is None or instance is None or not is_lake(local_root(self.lake)):
            return
        lake = lake_at(self.lake)
        pipeline = chosen_pipeline(lake)
        if self._is_marked:
            end_dead_runs(instance, lake)
            markers = markers_of(instance, lake)
            ended = markers.ending_run(instance, run)
            try:
                record_versions(lake, pipeline.contracts, f"run {run.run_id[:8]}", ended)
            finally:
                markers.forget(ended)
        states = pipeline.states(read_view(lake, pipeline.contracts))
        report_green_days(instance, lake, states)
        record_observations(instance, lake, states)

    def load_input(self, context: dg.InputContext) -> Any:
        """The days of an input. Raises dg.Failure for a table that was never made and a type that
        no input has."""
        with as_failures(local_root(self.lake)):
            self._observe_external(context)
            partitions, asked = None, None
            if context.has_asset_partitions:
                partitions = context.asset_partitions_def
                keys = context.asset_partition_keys
                asked = days_to_load(context) if self._run else tuple(map(parse_day, keys))
            lake = self._lake_to_read(context, asked)
            pinned = self._pinned_inputs(lake)
            contract = _contract_to_read(context, pinned, asked, lake.root)
            table = pinned.states.view.table(contract.name)
            days = tuple(sorted(table.latest)) if asked is None else asked
            pinned.loaded[contract.name] = LoadedInput(context.asset_key, days, partitions)
            read = InputDays(lake, contract, table.version, days, input_columns(context, contract))
            return rows_as_annotated(
                read,
                context.dagster_type.typing_type,
                self.default_form,
                self._reading_session(lake),
            )

    def _lake_to_read(self, context: dg.InputContext, asked: tuple[date, ...] | None) -> Lake:
        """The lake of an input; made where there is none, if no day of the input is asked for.
        Raises InputMissing for days of a lake that is not there."""
        if asked == ():
            return lake_for_asset(self.lake, input_first_day(context))
        root = local_root(self.lake)
        if asked and not is_lake(root):
            raise never_made_error(context.asset_key.to_user_string(), asked, root)
        return lake_at(self.lake)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the days of the step in at most one commit. Raises dg.Failure where nothing was
        written."""
        with as_failures(local_root(self.lake)):
            _refuse_unfit_output(context, obj)
            partitions = context.asset_partitions_def if context.has_asset_partitions else None
            owner = f"the asset {context.asset_key.to_user_string()}"
            lake = lake_for_asset(
                self.lake,
                asset_periods(partitions, owner)[1],
            )
            try:
                rows, table = self._declared_table(context, lake, obj)
            except BackfillError:
                # What was computed without its input is often no table at all: that is the cause.
                with _logging_refused_days(context):
                    self._refuse_unmade_inputs(context, lake)
                raise
            self._mark_run(context, lake)
            with declaring_table(lake, table):
                rebuild = Rebuild(self._rebuild_request(context, rows, table))
                write = StepWrite(
                    dg.AssetExecutionContext.get(),
                    rebuild,
                    # of other checks Dagster has no page
                    checks=DECLARED.of(context.op_def).checks,
                )
                try:
                    write.prepare()
                    published = write.publish()
                    self._remember_written(context, lake)
                finally:
                    rebuild.release()
            with explaining_commit(rebuild, published):
                if rebuild.kept_back.error is None:
                    write.show_days(published)
                else:
                    _log_written_days(context, rebuild, published)
                write.log_verdicts(rebuild.days)
            if rebuild.kept_back.error is not None:
                raise rebuild.kept_back.error

    def _mark_run(self, context: dg.OutputContext, lake: Lake) -> None:
        """Say in the lake that the run writes to it, before its first commit."""
        step = dg.OpExecutionContext.get()
        if self._run is not None:
            markers_of(step.instance, lake).mark(context.run_id, step.job_def.executor_def.name)
            self._is_marked = True

    def _observe_external(self, context: dg.InputContext) -> None:
        """Take in the tables of others before the step first reads one, which the lake may not know
        yet. What the step has read stays as it was."""
        step, root = self._step_inputs(), local_root(self.lake)
        known = step.get(root)
        observe: ObserveInput | None = offered_function("observe_input")
        if observe is None:
            return
        tables: Collection[str] = known.states.contracts.keys() if known is not None else ()
        lake = observe(self.lake, context, tables)
        if lake is not None and known is not None:
            step[root] = _refreshed_inputs(lake, known)

    def _remember_written(self, context: dg.OutputContext, lake: Lake) -> None:
        """Keep what the step wrote, from which its later outputs may be made."""
        written = self._pinned_inputs(lake).written
        days = tuple(map(parse_day, context.asset_partition_keys))
        name = asset_table_name(context.asset_key, context.definition_metadata)
        written[name] = LoadedInput(context.asset_key, days, context.asset_partitions_def)
        if len(context.op_def.output_defs) > 1:
            self._step_inputs()[lake.root] = _refreshed_inputs(lake, self._pinned_inputs(lake))

    def _refuse_unmade_inputs(self, context: dg.OutputContext, lake: Lake) -> None:
        """Raise InputMissing where the step loaded days that were never made, of another table of
        ours than its own."""
        pinned = self._pinned_inputs(lake)
        for name, loaded in pinned.loaded.items():
            contract = pinned.states.contracts.get(name)
            if contract is None or contract.external or loaded.key == context.asset_key:
                continue
            if absent := {*loaded.days} - pinned.states.view.table(name).latest.keys():
                raise _unmade_days_error(context, loaded, absent, lake.root)

    def _declared_table(
        self, context: dg.OutputContext, lake: Lake, obj: Any
    ) -> tuple[GivenRows, DeclaredTable]:
        """The rows of what the asset returned (`obj`), and their table with the inputs that the
        step read."""
        pinned = self._pinned_inputs(lake)
        rows = GivenRows.of(obj)
        name = asset_table_name(context.asset_key, context.definition_metadata)
        _refuse_renamed_table(context.asset_key, name, pinned.pipeline)
        known = find_declared(lake.place, name)
        rules = DECLARED.of(context.op_def)
        if known is not None and not rules.unique and lake.is_adopted(known.contract.name):
            rules = replace(rules, unique=known.contract.key)  # that `adopt` was given
        table = table_declaration(context, rows, rules, known, self.schema_changes)
        found = self._output_inputs(context, pinned, table.contract)
        inputs = tuple(replace(wanted, keys=()) for wanted in found)
        read = {pinned.read[wanted.table].key for wanted in inputs}
        beside = unpinned_inputs(context.asset_spec, read)
        return rows, replace(
            table,
            contract=replace(table.contract, inputs=inputs, beside=beside),
            config=config_digest(dg.OpExecutionContext.get()),
        )

    def _output_inputs(
        self, context: dg.OutputContext, pinned: StepInputs, contract: Contract
    ) -> tuple[Input, ...]:
        """What the days of an output are made from: all that the step loaded, and its earlier
        outputs that this one follows from."""
        by_key = {read.key: name for name, read in pinned.read.items() if name != contract.name}
        in_order = dict[str, LoadedInput]()  # first those that the asset names, as it names them
        for dep in context.asset_spec.deps:
            if (name := by_key.get(dep.asset_key)) is not None:
                in_order[name] = pinned.read[name]
        contracts = {c.name: c for c in pinned.pipeline.contracts} | {contract.name: contract}
        every = {**in_order, **pinned.loaded}
        read = {name: loaded for name, loaded in every.items() if name in contracts}
        return tuple(read_inputs(context, read, contracts))

    def _unpinned_reads(self, lake: Lake) -> tuple[str, ...]:
        """What the step read of lakes and no receipt of this one can name."""
        found = {*step_reads()}
        for root, inputs in self._step_inputs().items():
            if root != lake.root:
                found |= {f"{name} of another lake" for name in inputs.loaded}
        return tuple(sorted(found))

    def _rebuild_request(
        self, context: dg.OutputContext, rows: GivenRows, table: DeclaredTable
    ) -> RebuildRequest:
        """The request to write the rows to their table, which the lake knows by now."""
        name = table.contract.name
        beside = ", ".join(table.contract.beside)
        if beside:
            context.log.info(
                f"{beside} stand in no receipt of {name}: not loaded by days from the lake"
            )
        lake = lake_at(self.lake)
        pinned = self._pinned_inputs(lake)
        inputs = self._output_inputs(context, pinned, table.contract)
        pipeline = chosen_pipeline(lake).making(name, inputs, self._unpinned_reads(lake))
        made = pipeline.table(name)
        tags = self._run.tags if self._run is not None else {}
        work = work_of(tags, some_days(map(parse_day, context.asset_partition_keys)), name)
        if beside:
            work = replace(work, tags={**work.tags, BESIDE_TAG: beside})
        given = ReturnedRows(lambda: rows.stage(lake, made.contract), rows.kind)
        known = KnownStates(lake, pipeline, pipeline.states(pinned.states.view))
        return RebuildRequest.of(
            work,
            LakeSession(lake, project_session=self.spark),
            known,
            context.run_id,
            given=given,
        )

    def _pinned_inputs(self, lake: Lake) -> StepInputs:
        """The tables and states of the lake as the step first read them; outside of a step, as they
        are now."""
        step = self._step_inputs()
        if lake.root not in step:
            pipeline = chosen_pipeline(lake)
            step[lake.root] = StepInputs(
                pipeline, pipeline.states(read_view(lake, pipeline.contracts))
            )
        return step[lake.root]

    def _step_inputs(self) -> dict[Path, StepInputs]:
        """What the attempt of the step has read, by lake; outside of a step nothing is kept."""
        return PINNED.setdefault(dg.OpExecutionContext.get(), {}) if self._run is not None else {}

    def _reading_session(self, lake: Lake) -> Callable[[], Any]:
        return LakeSession(lake, project_session=self.spark).for_reading


def _contract_to_read(
    context: dg.InputContext, pinned: StepInputs, asked: tuple[date, ...] | None, lake: Path
) -> Contract:
    """The contract of an input's table; a placeholder if no day is `asked` of a table that the lake
    does not know (None: all its days are). Raises InputMissing for days of such a table."""
    contracts = pinned.states.contracts
    name = input_table_name(context.asset_key, input_metadata(context), contracts.values())
    if name not in contracts and asked is not None:
        if asked:
            raise never_made_error(context.asset_key.to_user_string(), asked, lake)
        return placeholder_contract(context)
    return pinned.pipeline.contract(name, "Nothing was read")


def _logging_refused_days(context: dg.OutputContext) -> AbstractContextManager[None]:
    """Log for each day of the output's asset that is refused within the block why it was not
    written."""
    return logging_refused_days(dg.AssetExecutionContext.get(), context.asset_key)


def _unmade_days_error(
    context: dg.OutputContext, loaded: LoadedInput, absent: Collection[date], lake: Path
) -> InputMissing:
    """The error about `absent` days that the step loaded, which names what each day lacks."""
    mapping = mapping_of(context, loaded.key)
    read = MappedInput(loaded, mapping, context.asset_partitions_def).by_mapping(
        map(parse_day, context.asset_partition_keys)
    )
    named, consequence = loaded.key.to_user_string(), "Nothing was written"
    error = never_made_error(named, absent, lake, consequence)
    error.by_day = {}
    for day, days in read.items():
        if lacking := {*days} & {*absent}:
            error.by_day[day] = never_made_error(named, lacking, lake, consequence).culprit
    return error


def _refreshed_inputs(lake: Lake, known: StepInputs) -> StepInputs:
    """What a step knows, with the newest of all tables that were not loaded for it."""
    pipeline, read = chosen_pipeline(lake), dict[str, int]()
    for name in known.loaded.keys() - known.written.keys():
        table = known.states.view.table(name)
        if table.exists:
            read[name] = table.version
    view = read_view(lake, pipeline.contracts, read)
    return replace(known, pipeline=pipeline, states=pipeline.states(view))


def _refuse_renamed_table(key: dg.AssetKey, name: str, pipeline: Pipeline) -> None:
    """Raise SettingsError where the asset has a table of another name in the lake, which its
    readers would go on reading."""
    if (made := declared_table_name(key, pipeline.contracts)) not in (None, name):
        raise SettingsError(
            f"the asset {key.to_user_string()}",
            f"its table in the lake is {made}, and would be {name} now",
            "Nothing was written",
            f'Name it as it is, metadata={{"{TABLE}": "{made}"}}, or take a new lake',
        )


def _refuse_unfit_output(context: dg.OutputContext, obj: Any) -> None:
    """Raise BackfillError for an output of an op within a graph, and for None."""
    if not context.has_asset_key:
        raise BackfillError(
            f"the op {context.step_key}",
            "what it returns goes to another op, and is no asset",
            "Nothing was written",
            "Give it an IO manager of its own, out=dg.Out(io_manager_key=…): the lake's is for "
            "the graph's last op",
        )
    if obj is None:
        raise BackfillError(
            f"the asset {context.asset_key.to_user_string()}",
            "it returned None in place of rows",
            "Nothing was written",
            "Return a frame without rows to clear its days, or give it another IO manager",
        )


def _log_written_days(context: dg.OutputContext, rebuild: Rebuild, published: WriteResult) -> None:
    """Log a materialization of each written day: the step fails for the days that were kept back,
    so that Dagster makes none."""
    entries = rebuild.ready.entries
    for partition, metadata in day_metadata(rebuild, published, {}).items():
        day = parse_day(partition)
        context.log_event(day_materialization(context.asset_key, day, entries[day], metadata))
