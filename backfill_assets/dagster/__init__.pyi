from backfill_assets.assets.daily import daily_table as daily_table
from backfill_assets.assets.daily import lake_checks as lake_checks
from backfill_assets.assets.io_manager import LakeIOManager as LakeIOManager
from backfill_assets.dagster.definitions import LakeComponent as LakeComponent
from backfill_assets.dagster.definitions import build_lake_defs as build_lake_defs
from backfill_assets.dagster.resource import LakeResource as LakeResource
from backfill_assets.dagster.stale import is_stale as is_stale
from backfill_assets.foreign.in_dagster import external_table as external_table
from backfill_assets.kernel.core.contracts import Input as Input
from backfill_assets.kernel.core.rooms import Room

ROOM: Room
__all__: list[str]
