"""The one file that touches what Dagster 1.13 does not call public, each with the reason and the test that watches it.

Lives here: the target of a check evaluation, and per-partition metadata in one step. Does not live here: anything that
a public name can do.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.execution.context.metadata_logging import AssetMetadataHandle, OutputMetadataAccumulator


def check_target(record: dg.EventLogRecord) -> AssetCheckEvaluationTargetMaterializationData:
    """The materialization that an evaluation speaks of: without it Dagster clears the status at the next one."""
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
    )


def set_partition_metadata(
    context: dg.OutputContext, key: dg.AssetKey, metadata: Mapping[str, Mapping[str, Any]]
) -> None:
    """Give every partition of the coming materializations its own metadata.

    The public `add_asset_metadata(partition_key=...)` lists all partition keys of the run at every call: quadratic in
    days, minutes for ten years.
    """
    step: Any = context.step_context
    before = step._metadata_accumulator.per_output_metadata
    ours: dict[Any, Any] = {AssetMetadataHandle(asset_key=key, partition_key=p): dict(m) for p, m in metadata.items()}
    step._metadata_accumulator = OutputMetadataAccumulator(per_output_metadata={**before, **ours})
