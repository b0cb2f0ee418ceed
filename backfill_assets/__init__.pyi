from backfill_assets.dagster.adapter.assemble import assemble as assemble
from backfill_assets.dagster.definitions import LakeComponent as LakeComponent
from backfill_assets.foreign.external import external_table as external_table
from backfill_assets.kernel.core.contracts import Basis as Basis
from backfill_assets.kernel.core.contracts import Column as Column
from backfill_assets.kernel.core.contracts import Contract as Contract
from backfill_assets.kernel.core.contracts import Input as Input
from backfill_assets.kernel.core.contracts import InputKind as InputKind
from backfill_assets.kernel.core.contracts import Rule as Rule
from backfill_assets.kernel.core.days import DayRange as DayRange
from backfill_assets.kernel.core.errors import BackfillError as BackfillError
from backfill_assets.kernel.core.errors import ContractBroken as ContractBroken
from backfill_assets.kernel.core.errors import SettingsError as SettingsError
from backfill_assets.kernel.core.errors import TransientError as TransientError
from backfill_assets.kernel.core.process import lake_folder as lake_folder
from backfill_assets.kernel.write.model import Chunk as Chunk
from backfill_assets.kernel.write.model import Table as Table
from backfill_assets.pipeline.tables import tables as tables
from backfill_assets.pipeline.transforms.spread import spread_join as spread_join
from backfill_assets.pipeline.transforms.staging import as_known as as_known
from backfill_assets.reading.opening import open_lake as open_lake
from backfill_assets.settings import LakeSettings as LakeSettings

__all__: list[str]
