"""`LakeComponent`: a lake as a component of a project, found by `dg list components` and declared in a `defs.yaml`.

Here: its fields, which are the parameters of `build_lake_defs`, and the scaffold, which makes the sample where there is
no lake. Not here: the definitions themselves (`definitions`).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from pydantic import BaseModel, Field

from backfill_assets.core.clock import utc_today
from backfill_assets.dagster.definitions import Automation, Mappings, build_lake_defs
from backfill_assets.lake.settings import is_lake
from backfill_assets.operations.example_lakes import days_until, make_sample
from backfill_assets.orchestration.naming import GROUP


class LakeScaffoldParams(BaseModel):
    """Options of `dg scaffold defs backfill_assets.LakeComponent NAME`."""

    lake: str = Field(default="lake", description="The lake's folder; without a lake there, a sample is made.")


class LakeScaffolder(dg.Scaffolder[LakeScaffoldParams]):
    """Writes a `defs.yaml`, and a sample lake of made-up orders where the folder has none."""

    @classmethod
    def get_scaffold_params(cls) -> type[LakeScaffoldParams]:
        """The options."""
        return LakeScaffoldParams

    def scaffold(self, request: "dg.ScaffoldRequest[LakeScaffoldParams]") -> None:
        """Write the files. Raises SettingsError for a folder that holds something else than a lake."""
        wanted = request.params
        folder = folder_of(wanted.lake, request.project_root)
        if not is_lake(folder):
            make_sample(folder, days_until(utc_today()))
        name = re.sub(r"\W", "_", request.target_path.name)
        dg.scaffold_component(request, {"lake": wanted.lake, "key_prefix": [name], "group_name": name})


@dg.scaffold_with(LakeScaffolder)
class LakeComponent(dg.Component, dg.Model, dg.Resolvable):
    """Daily tables of a lake: any day can be rebuilt, in any order, and every write is checked before it is seen."""

    lake: Annotated[str, Field(description="The lake's folder; a relative one lies in the project's root.")]
    key_prefix: Annotated[Sequence[str], Field(description="Leads the asset keys and all other names.")] = ()
    group_name: Annotated[str | None, Field(description="The group of its tables.")] = GROUP
    owners: Annotated[Sequence[str], Field(description="Owners of its tables: team:NAME, or an e-mail address.")] = ()
    tags: Annotated[Mapping[str, str] | None, Field(description="Tags of its tables.")] = None
    kinds: Annotated[Sequence[str] | None, Field(description="Kinds of its tables (spark, deltalake).")] = None
    pool: Annotated[str | None, Field(description="The pool of its steps.")] = None
    op_tags: Annotated[Mapping[str, Any] | None, Field(description="Tags of its steps.")] = None
    automation: Annotated[Automation, Field(description="What runs by itself: off, sensors or conditions.")] = "off"
    mappings: Annotated[Mappings, Field(description="How inputs are shown: identity or windows.")] = "identity"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of `build_lake_defs` with these fields. Reads the lake's settings; writes nothing."""
        return build_lake_defs(
            folder_of(self.lake, context.project_root),
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


def folder_of(lake: str, project_root: Path | None) -> Path:
    """The folder that a `defs.yaml` names: a relative path lies in the project, else in the working folder."""
    return ((project_root or Path.cwd()) / Path(lake).expanduser()).resolve()
