"""Daily-partitioned Spark assets on Delta Lake in Dagster, safe to rebuild: any day, any order, any
number of times.

Lives here: the public surface, that is what a pipeline of your own needs; `__all__` is all of it, a
test pins names and signatures, and everything else may change without notice. Does not live here:
any code. `kernel` is what one reads first; each other folder is a room, whose `__init__` says what
it is for. A name is imported at its first use,
so that `import backfill_assets` costs neither Dagster nor Spark.
"""

from backfill_assets.kernel.core.rooms import public_door

__getattr__, __dir__ = public_door(
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
        "kernel.write.model": ("Chunk", "Table"),
        "dagster.adapter.assemble": ("assemble",),
        "pipeline.tables": ("tables",),
        "pipeline.transforms.spread": ("spread_join",),
        "pipeline.transforms.staging": ("as_known",),
        "reading.opening": ("open_lake",),
        "settings": ("LakeSettings",),
    },
)
