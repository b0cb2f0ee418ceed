"""Daily-partitioned Spark assets on Delta Lake in Dagster, safe to rebuild: any day, any order, any
number of times.

Lives here: the public surface, that is what a pipeline of your own needs; `__all__` is all of it, a
test pins names and signatures, and everything else may change without notice. Does not live here:
any code. `kernel` is what one reads first; each other folder is a room, whose `__init__` says what
it is for. A name is imported at its first use,
so that `import backfill_assets` costs neither Dagster nor Spark.
"""

from typing import TYPE_CHECKING

from backfill_assets.kernel.core.process import imported_when_used

if TYPE_CHECKING:
    from backfill_assets.dagster.adapter.assemble import assemble
    from backfill_assets.dagster.definitions import LakeComponent
    from backfill_assets.foreign.external import external_table
    from backfill_assets.kernel.core.contracts import (
        Basis,
        Column,
        Contract,
        Input,
        InputKind,
        Rule,
    )
    from backfill_assets.kernel.core.days import DayRange
    from backfill_assets.kernel.core.errors import (
        BackfillError,
        ContractBroken,
        SettingsError,
        TransientError,
    )
    from backfill_assets.kernel.core.process import lake_folder
    from backfill_assets.kernel.write.model import Chunk, Table
    from backfill_assets.pipeline.tables import tables
    from backfill_assets.pipeline.transforms.spread import spread_join
    from backfill_assets.pipeline.transforms.staging import as_known
    from backfill_assets.reading.opening import open_lake
    from backfill_assets.settings import LakeSettings

__all__ = [
    "BackfillError",
    "Basis",
    "Chunk",
    "Column",
    "Contract",
    "ContractBroken",
    "DayRange",
    "Input",
    "InputKind",
    "LakeComponent",
    "LakeSettings",
    "Rule",
    "SettingsError",
    "Table",
    "TransientError",
    "as_known",
    "assemble",
    "external_table",
    "lake_folder",
    "open_lake",
    "spread_join",
    "tables",
]

if not TYPE_CHECKING:  # for a type checker, a name that is not above is a mistake
    __getattr__ = imported_when_used(
        __name__,
        {
            "kernel.core.contracts": ("Basis", "Column", "Contract", "Input", "InputKind", "Rule"),
            "kernel.core.days": ("DayRange",),
            "kernel.core.errors": (
                "BackfillError",
                "ContractBroken",
                "SettingsError",
                "TransientError",
            ),
            "kernel.core.process": ("lake_folder",),
            "dagster.definitions": ("LakeComponent",),
            "foreign.external": ("external_table",),
            "kernel.write.model": ("Chunk", "Table"),
            "dagster.adapter.assemble": ("assemble",),
            "pipeline.tables": ("tables",),
            "pipeline.transforms.spread": ("spread_join",),
            "pipeline.transforms.staging": ("as_known",),
            "reading.opening": ("open_lake",),
            "settings": ("LakeSettings",),
        },
    )


def __dir__() -> list[str]:
    return __all__
