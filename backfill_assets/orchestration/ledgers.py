"""Tables in Dagster that no run here makes: the ledgers beside raw (quarantine, too_late, arrivals), reported by each
load, and tables that others write, of which each changed day is observed (`reconcile`).

Here: their specs, without button and partitions, and the event that says what a load set aside. Not here: the numbers
(`operations.rejected`) and the load (`load.raw`).
"""

from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.operations.rejected import LedgerCount, ledger_contracts, ledger_counts
from backfill_assets.orchestration.context import Opened
from backfill_assets.orchestration.metadata import VERSION, markdown_table, table_metadata

OF_BUILT = ("kinds", "automation_condition", "skippable")  # what says nothing of a ledger, which a load reports


def ledger_specs(opened: Opened) -> list[dg.AssetSpec]:
    """One external asset per table that a load writes beside raw; none for a pipeline that loads nothing."""
    naming = opened.naming
    looks = {name: value for name, value in opened.appearance.spec.items() if name not in OF_BUILT}
    return [
        dg.AssetSpec(
            naming.key(contract.name), deps=[naming.key(table.name)],
            description=opened.described(contract.description), metadata=table_metadata(opened.lake, contract, naming),
            **{"kinds": {"deltalake"}, **looks},
        )
        for table in opened.pipeline.tables
        if table.is_landed
        for contract in ledger_contracts(table.contract)
    ]  # fmt: skip


def external_specs(opened: Opened, partitions: dg.DailyPartitionsDefinition) -> list[dg.AssetSpec]:
    """One external asset per table that others write, but for those that an asset of the project stands for."""
    naming, looks = opened.naming, opened.appearance.spec
    return [
        dg.AssetSpec(
            naming.key(contract.name), description=opened.described(contract.description), partitions_def=partitions,
            metadata=table_metadata(opened.lake, contract, naming),
            **{"kinds": {"deltalake"}, **{name: value for name, value in looks.items() if name not in OF_BUILT}},
        )
        for contract in opened.pipeline.contracts
        if contract.external and not contract.made_by
    ]  # fmt: skip


def report_ledgers(instance: dg.DagsterInstance, opened: Opened, raw: Contract, run_id: str) -> None:
    """Report the ledgers of the landed table `raw` whose version differs from Dagster's."""
    key = opened.naming.key
    reported = {c.name: _reported_version(instance, key(c.name)) for c in ledger_contracts(raw)}
    for ledger in ledger_counts(opened.lake, raw, {n: int(v) for n, v in reported.items() if v.isdigit()}):
        name = ledger.contract.name
        if reported[name] != str(ledger.version):
            event = dg.AssetMaterialization(key(name), metadata=_ledger_metadata(ledger, run_id))
            instance.report_runless_asset_event(event)


def _reported_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    """The version in the ledger's newest materialization; empty without one."""
    for record in instance.fetch_materializations(key, limit=1).records:
        if record.asset_materialization is not None and VERSION in record.asset_materialization.metadata:
            return str(record.asset_materialization.metadata[VERSION].value)
    return ""


def _ledger_metadata(ledger: LedgerCount, run_id: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"dagster/row_count": ledger.rows}
    if ledger.newest is not None:
        metadata["newest arrival day"] = str(ledger.newest)
    if ledger.reasons:
        metadata["newest reasons"] = markdown_table(
            ["newest day", "rows", "reason"], [(str(r.newest), f"{r.rows:,}", r.text) for r in ledger.reasons]
        )
    return {**metadata, VERSION: str(ledger.version), "loaded by": dg.MetadataValue.dagster_run(run_id)}
