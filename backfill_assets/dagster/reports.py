"""What Dagster shows of a write through the IO manager: figures of each day, and the verdict of each check.

Does not live here: the same for a lake's own tables (`orchestration.checks`, `orchestration.assets`).
"""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.core.days import parse_day, ranges
from backfill_assets.dagster.rules import DECLARED
from backfill_assets.lake.gates import Finding
from backfill_assets.lake.replace import Published
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.metadata import data_version, day_metadata

DATA_VERSION = "dagster/data_version"


def report_written(context: dg.OutputContext, rebuild: Rebuild, published: Published) -> None:
    """Add the figures of each written day to its materialization, which Dagster makes."""
    step = dg.AssetExecutionContext.get()
    for partition, metadata in day_metadata(rebuild, published, {}).items():
        step.add_asset_metadata(metadata, asset_key=context.asset_key, partition_key=partition)


def report_good_days(context: dg.OutputContext, rebuild: Rebuild, published: Published) -> None:
    """Log a materialization of each written day, and the verdicts: the step fails for the days that were kept back, so
    that Dagster makes none."""
    entries = rebuild.ready.entries
    for partition, metadata in day_metadata(rebuild, published, {}).items():
        tags = {DATA_VERSION: data_version(entries[parse_day(partition)]), f"{DATA_VERSION}_is_user_provided": "true"}
        context.log_event(dg.AssetMaterialization(context.asset_key, partition=partition, metadata=metadata, tags=tags))
    step, checks = dg.AssetExecutionContext.get(), DECLARED.of(context.op_def).checks
    for evaluation in evaluations(context.asset_key, checks, rebuild.kept_back.findings, rebuild):
        step.log_event(evaluation)


def report_refused(context: dg.OutputContext, rebuild: Rebuild) -> None:
    """Log the verdict of each declared check on rows that were not written: the step of the check will not run."""
    step = dg.AssetExecutionContext.get()
    checks = DECLARED.of(context.op_def).checks
    for evaluation in evaluations(context.asset_key, checks, rebuild.findings, rebuild):
        step.log_event(evaluation)  # stored with the run's id, although its step planned none


def evaluations(
    key: dg.AssetKey, checks: Sequence[str], findings: Sequence[Finding], rebuild: Rebuild | None = None
) -> Iterator[dg.AssetCheckEvaluation]:
    """One evaluation per check: the days that fail, with the first one's words and up to ten keys of its rows."""
    for name in checks:
        failed = [f for f in findings if f.check == name and not f.passed]
        refused = [f for f in failed if f.refuses]
        first = next(iter(refused or failed), None)
        yield dg.AssetCheckEvaluation(
            asset_key=key, check_name=name, passed=first is None,
            severity=dg.AssetCheckSeverity.ERROR if refused else dg.AssetCheckSeverity.WARN,
            metadata=_facts(first, [f.day for f in failed], rebuild) if first is not None else {},
        )  # fmt: skip


def _facts(first: Finding, days: Sequence[date], rebuild: Rebuild | None) -> dict[str, Any]:
    keys = rebuild.sample_keys(first) if rebuild is not None and first.refuses else []
    samples = {"sample_keys": dg.MetadataValue.json(keys)} if keys else {}
    return {"which": ranges(sorted(days)), "what": f"{first.day}: {first.message}", **first.facts, **samples}
