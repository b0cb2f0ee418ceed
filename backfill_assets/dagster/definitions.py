"""`build_lake_defs`: the tables of a lake as definitions that merge with any project's.

Here: which names and switches of Dagster a user sets for the whole lake. Not here: how a table becomes an asset and
what stands beside it (`orchestration.assemble`), and our own project, where the lake is alone (`definitions`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import dagster as dg

from backfill_assets.core.process import lake_folder
from backfill_assets.orchestration.assemble import assemble_anyway
from backfill_assets.orchestration.naming import GROUP, Appearance, Naming
from backfill_assets.pipeline.chosen import tables_at

Automation = Literal["off", "sensors"]
Mappings = Literal["identity", "windows"]


def build_lake_defs(  # noqa: PLR0913 - what Dagster's own decorator takes
    lake: str | Path,
    *,
    key_prefix: str | Sequence[str] = (),
    group_name: str | None = GROUP,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    kinds: set[str] | None = None,
    pool: str | None = None,
    op_tags: Mapping[str, Any] | None = None,
    automation: Automation = "off",
    automation_condition: "dg.AutomationCondition[Any] | None" = None,
    mappings: Mappings = "identity",
) -> dg.Definitions:
    """The tables of the lake in the folder `lake`, with checks, jobs, sensors and schedules, for `Definitions.merge`.

    Reads `lake.toml` and the lake's own tables; starts no engine, writes nothing, and needs no lake yet: without one
    the sample's tables are shown and say so. Claims nothing that is common to a project: no resource `io_manager`, no
    executor (each job brings its own, in one process), no plain name. A run that is started from an asset's page uses
    the project's executor.

    key_prefix: leads the asset keys, and the names of all else (`shop` → `shop/raw`, `shop__rebuild`); without one keys
      are plain and other names begin with `lake__`. Two lakes of a project need two.
    group_name, owners, tags, kinds, automation_condition: of every table's `dg.AssetSpec`, in Dagster's words; for one
      table only: `Definitions.map_asset_specs`. kinds: default `{"spark", "deltalake"}`.
    pool, op_tags: of every table's step, as for `dg.asset`.
    automation: "off": sensors and schedules are there, stopped. "sensors": `landing`, `late_data`, `plans`, `controls`
      and the schedule `daily_load` run unless turned off in the browser.
    mappings: how inputs are shown. "identity": day to same day, so that Dagster never launches a week for a late day:
      which days are stale is read from receipts, exact to the column, by `late_data`. "windows": the days `before` and
      `after` of `core.contracts.Input` as `dg.TimeWindowPartitionMapping`, for lineage and eager conditions that
      follow them; deliveries by arrival stay identity, since they can be for any day.

    Raises ValueError for a part of `key_prefix` that is no name, SettingsError for a bad `lake.toml` or own tables.
    """
    root = lake_folder(str(lake))
    appearance = Appearance(
        Naming.below(key_prefix),
        is_guest=True,
        sensors_run=automation == "sensors",
        mappings=mappings,
        spec=_given(
            group_name=group_name, owners=[*owners], tags={**(tags or {})}, kinds=kinds,
            automation_condition=automation_condition,
        ),
        step=_given(pool=pool, op_tags=op_tags),
    )  # fmt: skip
    return assemble_anyway(root, tables_at(root), appearance)


def _given(**words: object) -> dict[str, object]:
    """The words that have a value."""
    return {name: value for name, value in words.items() if value}
