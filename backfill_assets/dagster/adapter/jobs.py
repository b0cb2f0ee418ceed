"""Jobs of one step for the browser: their form, with a launchpad that is filled in, and how their
run shows what it did.

Here: what such a job of any room shares. Not here: what the jobs do (`in_dagster` of each room that
adds one), and the job `rebuild` (`assemble`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets.kernel.core.addresses import address_of


def one_op_job(
    lake_context: LakeContext,
    name: str,
    op: dg.OpDefinition,
    config: "dg.Config | dg.PartitionedConfig[Any] | None",
    description: str,
    tags: Mapping[str, str] | None = None,
) -> dg.JobDefinition:
    """The job of one op, with further `tags`. Its launchpad is filled in with `config`: one that is
    partitioned is asked anew, in the code location, whenever a partition is chosen."""
    named = lake_context.naming.name(name)
    return dg.GraphDefinition(name=named, node_defs=[op]).to_job(
        name=named,
        executor_def=dg.in_process_executor,
        tags={LAKE_TAG: address_of(lake_context.root), **(tags or {})},
        config=dg.RunConfig(ops={op.name: config}) if isinstance(config, dg.Config) else config,
        description=description,
    )


def show_lines(context: dg.OpExecutionContext, lines: Iterable[str]) -> None:
    """Show the lines on the page of the run: among its events, and as a list of its output."""
    told = [*lines]
    for line in told:
        # A list is behind a click, and a run that looked only ends with success, too.
        context.log.info(line)
    context.add_output_metadata(
        {"done": dg.MetadataValue.md("\n".join(f"- {line}" for line in told))}
    )
