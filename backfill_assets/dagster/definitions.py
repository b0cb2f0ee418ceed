"""`build_lake_defs` and `LakeComponent`: the tables of a lake as definitions that merge with any
project's.

Here: which names and switches of Dagster a user sets for the whole lake, in Python or in a
`defs.yaml`, and the scaffold, which makes the sample where there is no lake. Not here: how a table
becomes an asset and what stands beside it (`dagster.adapter.assemble`), and our own project, where
the lake is alone (`definitions`).
"""

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import dagster as dg
from pydantic import BaseModel, Field

from backfill_assets.dagster.adapter.alerts import ALERTS
from backfill_assets.dagster.adapter.assemble import project_definitions
from backfill_assets.dagster.adapter.context import GROUP, Appearance, Naming
from backfill_assets.dagster.adapter.lake_definitions import sample_module
from backfill_assets.dagster.adapter.runs import LAKE_TAG, REASON_TAG
from backfill_assets.dagster.adapter.ticks import CONTROLS, LANDING, PLANS
from backfill_assets.dagster.stale import is_stale
from backfill_assets.kernel.core.addresses import ADDRESS, address_of, local_root
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.process import lake_folder
from backfill_assets.kernel.tables.settings import is_lake
from backfill_assets.pipeline.chosen import tables_at

Automation = Literal["off", "sensors", "conditions"]
Mappings = Literal["identity", "windows"]
CONDITIONS: Final = "conditions"
RUNNING: Mapping[Automation, Collection[str] | None] = {
    "off": (),
    "sensors": None,
    CONDITIONS: (LANDING, PLANS, CONTROLS, ALERTS, CONDITIONS),
}
INTERVAL_SECONDS = 30


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
    """The tables of the lake in the folder `lake`, with checks, jobs, sensors and schedules, for
    `Definitions.merge`.

    Reads `lake.toml` and the lake's own tables; starts no engine, writes nothing, and needs no lake
    yet: without one the sample's tables are shown and say so. Claims nothing that is common to a
    project: no resource `io_manager`, no executor (each job brings its own, in one process), no
    plain name. A run that is started from an asset's page uses the project's executor.

    key_prefix: leads the asset keys, and the names of all else (`shop` → `shop/raw`,
    `shop__rebuild`); without one keys
      are plain and other names begin with `lake__`. Two lakes of a project need two.
    group_name, owners, tags, kinds, automation_condition: of every table's `dg.AssetSpec`, in
    Dagster's words; for one
      table only: `Definitions.map_asset_specs`. kinds: default `{"spark", "deltalake"}`.
    pool, op_tags: of every table's step, as for `dg.asset`.
    automation: "off": sensors and schedules are there, stopped. "sensors": `landing`, `late_data`,
    `plans`, `controls`
      and the schedule `daily_load` run unless turned off in the browser. "conditions": in place of
      the last two the built tables bear `is_stale(…, missing=True)`, which the sensor `conditions`
      evaluates in the code location; unlike `late_data` it asks for a day once, and again only when
      its inputs, code or settings changed.
    mappings: how inputs are shown. "identity": day to same day, so that Dagster never launches a
    week for a late day:
      which days are stale is read from receipts, exact to the column, by `late_data`. "windows":
      the days `before` and `after` of `kernel.core.contracts.Input` as
      `dg.TimeWindowPartitionMapping`, for lineage and eager conditions that follow them; deliveries
      by arrival stay identity, since they can be for any day.

    Raises ValueError for a part of `key_prefix` that is no name, SettingsError for a bad
    `lake.toml` or own tables.
    """
    root = lake_folder(str(lake))
    of_built_tables = dict[str, Any]()
    if automation == CONDITIONS and automation_condition is None:
        of_built_tables["automation_condition"] = _stale_condition(root, key_prefix)
    appearance = Appearance(
        Naming.below(key_prefix),
        is_guest=True,
        running=RUNNING[automation],
        mappings=mappings,
        spec=_nonempty_values(
            group_name=group_name,
            owners=[*owners],
            tags={**(tags or {})},
            kinds=kinds,
            automation_condition=automation_condition,
        ),
        built=of_built_tables,
        step=_nonempty_values(pool=pool, op_tags=op_tags),
    )
    defs = project_definitions(root, tables_at(root), appearance)
    if automation != CONDITIONS:
        return defs
    return dg.Definitions.merge(
        defs, dg.Definitions(sensors=[_conditions_sensor(root, defs, appearance)])
    )


def _stale_condition(root: Path, key_prefix: str | Sequence[str]) -> "dg.AutomationCondition[Any]":
    """Days that need a rebuild, held until they are requested while a run of the asset or of an
    input is under way."""
    stale = is_stale(root, key_prefix=key_prefix, missing=True)
    return (
        stale
        & ~dg.AutomationCondition.in_progress()
        & ~dg.AutomationCondition.any_deps_in_progress()
    )


def _conditions_sensor(
    root: Path, defs: dg.Definitions, appearance: Appearance
) -> dg.AutomationConditionSensorDefinition:
    """The sensor that evaluates the conditions of the lake's assets in the code location."""
    keys = [
        spec.key for spec in defs.resolve_all_asset_specs() if spec.automation_condition is not None
    ]
    with warnings.catch_warnings():
        # Of `use_user_code_server`, without which none is evaluated.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.AutomationConditionSensorDefinition(
            appearance.naming.name(CONDITIONS),
            target=keys,
            run_tags={LAKE_TAG: address_of(root), REASON_TAG: CONDITIONS},
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=INTERVAL_SECONDS,
            description="Requests the days that receipts say need a rebuild, upstream first.",
            use_user_code_server=True,
        )


def _nonempty_values(**words: object) -> dict[str, object]:
    """The words that have a value."""
    return {name: value for name, value in words.items() if value}


class LakeScaffoldParams(BaseModel):
    """Options of `dg scaffold defs backfill_assets.LakeComponent NAME`."""

    lake: str = Field(
        default="lake", description="The lake's folder; without a lake there, a sample is made."
    )


class LakeScaffolder(dg.Scaffolder[LakeScaffoldParams]):
    """Writes a `defs.yaml`, and a sample lake of made-up orders where the folder has none."""

    @classmethod
    def get_scaffold_params(cls) -> type[LakeScaffoldParams]:
        """The options."""
        return LakeScaffoldParams

    def scaffold(self, request: "dg.ScaffoldRequest[LakeScaffoldParams]") -> None:
        """Write the files. Raises SettingsError for a folder that holds something else than a
        lake."""
        wanted = request.params
        folder = component_folder(wanted.lake, request.project_root)
        samples = sample_module()
        if samples is not None and not is_lake(folder):
            samples.make_sample(folder, samples.days_until(utc_today()))
        name = re.sub(r"\W", "_", request.target_path.name)
        dg.scaffold_component(
            request, {"lake": wanted.lake, "key_prefix": [name], "group_name": name}
        )


@dg.scaffold_with(LakeScaffolder)
class LakeComponent(dg.Component, dg.Model, dg.Resolvable):
    """Daily tables of a lake: any day can be rebuilt, in any order, and every write is checked
    before it is seen."""

    lake: Annotated[
        str, Field(description="The lake's folder; a relative one lies in the project's root.")
    ]
    key_prefix: Annotated[
        Sequence[str], Field(description="Leads the asset keys and all other names.")
    ] = ()
    group_name: Annotated[str | None, Field(description="The group of its tables.")] = GROUP
    owners: Annotated[
        Sequence[str], Field(description="Owners of its tables: team:NAME, or an e-mail address.")
    ] = ()
    tags: Annotated[Mapping[str, str] | None, Field(description="Tags of its tables.")] = None
    kinds: Annotated[
        Sequence[str] | None, Field(description="Kinds of its tables (spark, deltalake).")
    ] = None
    pool: Annotated[str | None, Field(description="The pool of its steps.")] = None
    op_tags: Annotated[Mapping[str, Any] | None, Field(description="Tags of its steps.")] = None
    automation: Annotated[
        Automation, Field(description="What runs by itself: off, sensors or conditions.")
    ] = "off"
    mappings: Annotated[
        Mappings, Field(description="How inputs are shown: identity or windows.")
    ] = "identity"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of `build_lake_defs` with these fields. Reads the lake's settings; writes
        nothing."""
        return build_lake_defs(
            component_folder(self.lake, context.project_root),
            key_prefix=self.key_prefix,
            group_name=self.group_name,
            owners=self.owners,
            tags=self.tags,
            kinds={*self.kinds} if self.kinds else None,
            pool=self.pool,
            op_tags=self.op_tags,
            automation=self.automation,
            mappings=self.mappings,
        )


def component_folder(lake: str, project_root: Path | None) -> Path:
    """The folder of the lake that a `defs.yaml` names: a relative path lies in the project, else in
    the working folder; an address is one in a bucket."""
    if ADDRESS.fullmatch(lake):
        return local_root(lake)
    return ((project_root or Path.cwd()) / Path(lake).expanduser()).resolve()
