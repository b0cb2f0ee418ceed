"""Quarantine, too_late and arrivals as external assets beside raw, which Dagster never runs: no button, no partitions.

Here: their specs, and one materialization per load that changed them. Not here: the numbers (`operations.rejected`).
"""

from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.operations.rejected import Reason, SetAside, contracts_beside, set_aside
from backfill_assets.orchestration.context import Opened
from backfill_assets.orchestration.metadata import PREFIX, VERSION, table_metadata


def ledger_specs(opened: Opened, group: str) -> list[dg.AssetSpec]:
    """One external asset per table that a load writes beside raw; none for a pipeline that loads nothing."""
    return [
        dg.AssetSpec(
            contract.name, deps=[table.name], description=opened.described(contract.description), group_name=group,
            kinds={"deltalake"}, owners=["team:data"], metadata=table_metadata(opened.lake, contract),
        )
        for table in opened.pipeline.tables
        if table.is_landed
        for contract in contracts_beside(table.contract)
    ]  # fmt: skip


def report_ledgers(instance: dg.DagsterInstance, opened: Opened, raw: Contract, run_id: str) -> None:
    """Report the ledgers of the landed table `raw` whose version differs from the one in Dagster."""
    reported = {contract.name: _reported_version(instance, contract.name) for contract in contracts_beside(raw)}
    for found in set_aside(opened.lake, raw, {n: int(v) for n, v in reported.items() if v.isdigit()}):
        name = found.contract.name
        if reported[name] != str(found.version):
            instance.report_runless_asset_event(dg.AssetMaterialization(name, metadata=_metadata(found, run_id)))


def _reported_version(instance: dg.DagsterInstance, name: str) -> str:
    """The version in the ledger's newest materialization; empty without one."""
    for record in instance.fetch_materializations(dg.AssetKey(name), limit=1).records:
        if record.asset_materialization is not None and VERSION in record.asset_materialization.metadata:
            return str(record.asset_materialization.metadata[VERSION].value)
    return ""


def _metadata(found: SetAside, run_id: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"dagster/row_count": found.rows}
    if found.newest is not None:
        metadata["newest arrival day"] = str(found.newest)
    if found.reasons:
        metadata["newest reasons"] = dg.MetadataValue.md(reasons_table(list(found.reasons)))
    metadata |= {PREFIX + name: number for name, number in found.counts.items()}
    return {**metadata, VERSION: str(found.version), "loaded by": dg.MetadataValue.dagster_run(run_id)}


def reasons_table(reasons: list[Reason]) -> str:
    """The reasons as a small Markdown table, the newest first."""
    lines = ["| newest day | rows | reason |", "|---|---:|---|"]
    return "\n".join([*lines, *(f"| {r.newest} | {r.rows:,} | {_plain(r.text)} |" for r in reasons)])


def _plain(text: str) -> str:
    """A reason may quote what a file holds: as code on one line nothing of it is Markdown, neither a tag nor a link."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    return f"`{kept.replace('`', chr(39)).replace('|', '¦')}`"  # a table's cell ends at | in code, too
