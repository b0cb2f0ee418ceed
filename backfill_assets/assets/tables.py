"""The tables of a lake whose rows assets return, as its pipeline has them.

Apart from their files (`declared`), which are read with every `lake.toml`, so that reading that
imports no more. Not here: tables that others write (`foreign.external`).
"""

from pathlib import Path

from backfill_assets.assets.declared import declared_tables
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Table


def tables_of_assets(root: Path, _settings: LakeSettings) -> list[Table]:
    """The tables that assets return; the config of an asset's runs counts as a setting."""
    found = []
    for declared in declared_tables(root):
        if declared.contract.made_by:
            config = {"config": declared.config} if declared.config else {}
            found.append(Table(declared.contract, settings=config, code_version=declared.code))
    return found
