"""Tables that others write as assets of anybody's project: their spec, and taking one in before a
step reads it.

Not here: reading the days of an input (`assets.inputs`), which days of such a table changed
(`foreign.observing`), and tables of others that `lake.toml` names (`foreign.external`).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.assets.contracts import (
    DAY_COLUMN,
    asset_partitions,
    asset_periods,
    asset_table_name,
)
from backfill_assets.assets.declared import DeclaredTable, declare_table, find_declared
from backfill_assets.assets.inputs import input_metadata
from backfill_assets.assets.lakes import lake_for_asset
from backfill_assets.foreign.external import (
    ExternalTable,
    declaration_of,
    external_place,
    open_external,
    recorded_place,
    seen_contract,
)
from backfill_assets.foreign.observing import observe_table, observe_tables
from backfill_assets.kernel.core.addresses import CATALOG_NAME
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.chosen import chosen_pipeline

NOTHING_READ = "Nothing was read or recorded"
EXTERNAL = "backfill_assets/external"  # the metadata with the table's folder


def external_table(  # noqa: PLR0913 - each is a word of such a table
    key: str | Sequence[str] | dg.AssetKey,
    *,
    table: str | Path,
    day: str,
    start: date | str | None = None,
    every: str = "",
    partitions_def: dg.TimeWindowPartitionsDefinition | None = None,
    io_manager_key: str = "io_manager",
    **spec: Any,
) -> dg.AssetSpec:
    """The spec of an asset that no run makes: a Delta table that others write, by days or by longer
    partitions, to be given to `dg.Definitions`.

    Assets read days of it as of any asset: `Input("orders", before=6)` of a `daily_table`, or a
    partition mapping. A step reads one version, which its receipt names; days whose rows are others
    since make what was made from them stale (`is_stale`, `status`), and are observed in Dagster. A
    compaction, and equal rows written again, change nothing.

    table: its folder, of which a relative one lies in the working folder, its address in a bucket
    (`s3://…`), or its
        name in a catalog (`SCHEMA.TABLE`), whose place `backfill-assets locate` has recorded in the
        lake.
    day: its column with a row's day, of type DATE; rows without a day belong to none. start: the
    first day, or else partitions_def: a definition whose partitions are whole days, weeks, months,
        quarters or years.
    every: what a partition covers, from the first that begins on `start` or later: "week",
        "month", …, as of `daily_table`. The column `day` holds the first day of a row's partition
        then; a table with a row of another day is refused by name.
    io_manager_key: the `LakeIOManager` of the assets that read it.
    spec: whatever else `dg.AssetSpec` takes.

    Raises SettingsError for an address that none can have, where there is no first day, or two, and
    for other partitions.
    """
    asset_key = _key_of(key)
    owner = f"the external table {asset_key.to_user_string()}"
    days = asset_partitions(owner, start, partitions_def, every, NOTHING_READ)
    place = str(table)
    if not CATALOG_NAME.fullmatch(place):
        place = external_place(asset_key.to_user_string(), place, Path.cwd())
    metadata = {DAY_COLUMN: day, EXTERNAL: place, **spec.pop("metadata", {})}
    made = dg.AssetSpec(asset_key, partitions_def=days, metadata=metadata, **spec)
    return made.with_io_manager_key(io_manager_key)


def _key_of(key: str | Sequence[str] | dg.AssetKey) -> dg.AssetKey:
    if isinstance(key, str):
        return dg.AssetKey.from_user_string(key)
    return dg.AssetKey.from_coercible(key)


def observe_input(
    folder: str | Path, context: dg.InputContext, known: Collection[str]
) -> Lake | None:
    """The lake in a folder, made if there is none, as `observe_external` gives it for an input that
    is a table of others; None where it is another asset, or one of the tables that are `known`
    already. Raises BackfillError as that does."""
    external = external_input(context)
    if external is None or external.name in known:
        return None
    return observe_external(folder, external)


def external_input(context: dg.InputContext) -> ExternalTable | None:
    """The table of others that an input reads; None where it is another asset. Raises SettingsError
    where its partitions are none that a lake has."""
    metadata = input_metadata(context)
    if EXTERNAL not in metadata:
        return None
    key = context.asset_key
    partitions = context.asset_partitions_def if context.has_asset_partitions else None
    owner = f"the asset {key.to_user_string()}"
    calendar, first_day = asset_periods(partitions, owner, NOTHING_READ)
    return ExternalTable(
        asset_table_name(key, metadata, NOTHING_READ),
        str(metadata[EXTERNAL]),
        str(metadata[DAY_COLUMN]),
        made_by=key.to_user_string(),
        first_day=first_day,
        calendar=calendar,
    )


def observe_external(folder: str | Path, table: ExternalTable) -> Lake:
    """The lake in a folder, made if there is none, which knows the table and has seen the newest
    version of all tables of others. Raises BackfillError where this one cannot be read, or is a
    name in a catalog whose place is unknown."""
    lake = lake_for_asset(folder, table.first_day or date.max)
    table = replace(table, table=recorded_place(lake.root, table))
    known = find_declared(lake.place, table.name)
    is_as_declared = (
        known is not None and replace(declaration_of(known.contract), description="") == table
    )
    if not is_as_declared:
        contract = seen_contract(table, open_external(table.name, table.table))
        _refuse_own_table(lake, contract)
        with lake.store.lock(table.name):
            asset = tuple(table.made_by.split("/"))
            declare_table(lake.place, DeclaredTable(contract, asset, code=""))
    contracts = chosen_pipeline(lake).contracts
    _, failed = observe_tables(lake, contracts)
    if failed:  # an error of another table is for the assets that read that one
        observe_table(lake, contracts, next(c for c in contracts if c.name == table.name))
    return lake


def _refuse_own_table(lake: Lake, contract: Contract) -> None:
    """Raise SettingsError where the lake has a table of that name which others do not write."""
    known = find_declared(lake.place, contract.name)
    if lake.store.exists(contract.name) and (known is None or not known.contract.external):
        raise _external_table_error(
            dg.AssetKey(contract.made_by.split("/")),
            f"the lake {lake.address} has a table {contract.name} of its own",
            "Give the asset another key",
        )


def _external_table_error(key: dg.AssetKey, culprit: str, fix: str) -> SettingsError:
    return SettingsError(f"the external table {key.to_user_string()}", culprit, NOTHING_READ, fix)
