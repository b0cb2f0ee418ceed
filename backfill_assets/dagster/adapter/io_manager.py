"""What a step hands to Dagster: the IO manager of a lake's own tables, how errors look there, and
the tables that no run here makes.

Rows are written only through `StepWrite.publish` (`step_write`); a step of this lake that returns a
plain value is refused. Tables without a run: the ledgers beside raw (quarantine, too_late,
arrivals), reported by each load, and tables that others write, of which each changed day is
observed (`reconcile`); neither has a button. Not here: reading inputs (the load path pins them),
the end of a run (`assets`), and the numbers of ledgers (`reading.rejected`).
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.context import Opened
from backfill_assets.dagster.adapter.dagster_private import materialize_only
from backfill_assets.dagster.adapter.metadata import (
    VERSION,
    markdown_table,
    table_metadata,
)
from backfill_assets.dagster.adapter.partitions import partitions_of
from backfill_assets.dagster.adapter.printed_commands import commands_with_lake
from backfill_assets.dagster.adapter.step_write import StepWrite
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import (
    BackfillError,
    ContractBroken,
    GateRefused,
    unusable_file_error,
)
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import WriteResult
from backfill_assets.reading.rejected import LedgerCount, ledger_contracts, ledger_counts

Hears = Callable[[Rebuild, WriteResult], None]


@dataclass(frozen=True)
class Handover:
    """What the step of a lake's own table hands to Dagster: a write whose days are judged."""

    write: StepWrite
    # Metadata per partition key that days without computing keep.
    earlier: Mapping[str, Mapping[str, Any]]
    # gives the lock of the load back where publishing fails: Dagster does not go on with the step,
    # and keeps it
    give_up: Callable[[], None]


class RebuildIOManager(dg.IOManager):
    """Publishes what the steps of a lake's own tables have judged; calls `hears` after each, in
    this process. The rows never pass through Dagster: a step reads its inputs at pinned versions
    and stages its rows itself."""

    def __init__(self, hears: Hears | None = None) -> None:
        self.hears = hears

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Publish the judged days in at most one commit; raises dg.Failure that names what stayed
        as it was."""
        if not isinstance(obj, Handover):
            raise _no_handover_error(context, obj)
        rebuild = obj.write.rebuild
        with as_failures(), contextlib.ExitStack() as failed:
            failed.callback(obj.give_up)
            try:
                published = obj.write.publish()
            except ContractBroken:  # newer inputs came meanwhile, and their rows are refused
                obj.write.log_verdicts()
                raise
            if len(rebuild.days) != len(context.asset_partition_keys):
                materialize_only(context, [str(day) for day in rebuild.days])
            failed.pop_all()
        with explaining_commit(rebuild, published):
            if self.hears is not None:
                self.hears(rebuild, published)
            obj.write.show_days(published, obj.earlier)

    def load_input(self, context: dg.InputContext) -> Any:
        """Not offered: the load path reads its inputs at pinned versions. Raises dg.Failure."""
        raise dg.Failure(
            "Read a lake's table with `backfill_assets.open_lake`, or with any Delta reader.",
            allow_retries=False,
        )


def _no_handover_error(context: dg.OutputContext, obj: object) -> dg.Failure:
    """The error of a step that no `lake_asset` made."""
    if context.has_asset_key:
        step = f"asset {context.asset_key.to_user_string()}"
    else:
        step = f"op {context.step_key}"
    return dg.Failure(
        f"the {step} returned a {type(obj).__name__}; only assets made by `lake_asset` can be "
        "stored in a lake. Nothing was written. Return None, or give it an IO manager of its own "
        "(`io_manager_key`).",
        allow_retries=False,
    )


def as_failure(error: BackfillError, lake: Path | None = None) -> dg.Failure:
    """The error as Dagster shows it: one line of cause, and its four parts as metadata; its
    commands name the `lake`, where one is given. Never retried by Dagster: what is transient was
    retried inside the load path."""
    fix = commands_with_lake(error.fix, lake) if lake is not None else error.fix
    shown = BackfillError(error.object, error.culprit, error.consequence, fix)
    return dg.Failure(
        str(shown),
        metadata={
            "about": shown.object,
            "cause": shown.culprit,
            "consequence": shown.consequence,
            "next": shown.fix,
            "kind": type(error).__name__,
            **(error.facts if isinstance(error, GateRefused) else {}),
        },
        allow_retries=False,
    )


@contextlib.contextmanager
def as_failures(lake: Path | None = None) -> Iterator[None]:
    """Turn the product's errors and the system's into dg.Failure, which Dagster shows in one line;
    `lake` as of `as_failure`."""
    try:
        yield
    except BackfillError as error:
        # One line of cause: Dagster would add the stack of what led to it.
        raise as_failure(error, lake) from None
    except OSError as error:
        raise as_failure(unusable_file_error(error)) from error


@contextlib.contextmanager
def explaining_commit(rebuild: Rebuild, published: WriteResult) -> Iterator[None]:
    """Say of an error within that the days are committed. It fails the step, because Dagster
    records a step's days only after its IO manager: they are red until a run, or a retry, which
    writes nothing, has recorded them."""
    try:
        yield
    except Exception as error:
        raise dg.Failure(
            f"the table {rebuild.table.name}: {rebuild.days} are committed (version "
            f"{published.version}), and Dagster "
            f"was not told of it ({type(error).__name__}: {error}). The rows are right, and the "
            "days stay red. Run "
            "them again: equal rows write nothing."
        ) from error


# What says nothing of a ledger, which a load reports.
OF_BUILT = (
    "kinds",
    "automation_condition",
    "skippable",
)


def ledger_specs(opened: Opened) -> list[dg.AssetSpec]:
    """One external asset per table that a load writes beside raw; none for a pipeline that loads
    nothing."""
    naming = opened.naming
    looks = {name: value for name, value in opened.appearance.spec.items() if name not in OF_BUILT}
    return [
        dg.AssetSpec(
            naming.key(contract.name),
            deps=[naming.key(table.name)],
            description=opened.described(contract.description),
            metadata=table_metadata(opened.lake, contract, naming),
            **{"kinds": {"deltalake"}, **looks},
        )
        for table in opened.pipeline.tables
        if table.is_landed
        for contract in ledger_contracts(table.contract)
    ]


def external_specs(opened: Opened) -> list[dg.AssetSpec]:
    """One external asset per table that others write, but for those that an asset of the project
    stands for."""
    naming, looks = opened.naming, opened.appearance.spec
    return [
        dg.AssetSpec(
            naming.key(contract.name),
            description=opened.described(contract.description),
            partitions_def=partitions_of(contract.calendar, opened.lake.settings.start_date),
            metadata=table_metadata(opened.lake, contract, naming),
            **{
                "kinds": {"deltalake"},
                **{name: value for name, value in looks.items() if name not in OF_BUILT},
            },
        )
        for contract in opened.pipeline.contracts
        if contract.external and not contract.made_by
    ]


def report_ledgers(
    instance: dg.DagsterInstance, opened: Opened, raw: Contract, run_id: str
) -> None:
    """Report the ledgers of the landed table `raw` whose version differs from Dagster's."""
    key = opened.naming.key
    reported = {c.name: _reported_version(instance, key(c.name)) for c in ledger_contracts(raw)}
    known_versions = {name: int(text) for name, text in reported.items() if text.isdigit()}
    for ledger in ledger_counts(opened.lake, raw, known_versions):
        name = ledger.contract.name
        if reported[name] != str(ledger.version):
            event = dg.AssetMaterialization(key(name), metadata=_ledger_metadata(ledger, run_id))
            instance.report_runless_asset_event(event)


def _reported_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    """The version in the ledger's newest materialization; empty without one."""
    for record in instance.fetch_materializations(key, limit=1).records:
        if (
            record.asset_materialization is not None
            and VERSION in record.asset_materialization.metadata
        ):
            return str(record.asset_materialization.metadata[VERSION].value)
    return ""


def _ledger_metadata(ledger: LedgerCount, run_id: str) -> dict[str, Any]:
    """What Dagster shows of a ledger: its rows, newest arrival day, newest reasons, version, and
    the run that loaded it."""
    metadata: dict[str, Any] = {"dagster/row_count": ledger.rows}
    if ledger.newest is not None:
        metadata["newest arrival day"] = str(ledger.newest)
    if ledger.reasons:
        metadata["newest reasons"] = markdown_table(
            ["newest day", "rows", "reason"],
            [(str(r.newest), f"{r.rows:,}", r.text) for r in ledger.reasons],
        )
    return {
        **metadata,
        VERSION: str(ledger.version),
        "loaded by": dg.MetadataValue.dagster_run(run_id),
    }
