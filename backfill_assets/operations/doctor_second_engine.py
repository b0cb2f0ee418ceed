"""The doctor's look at what the second engine would refuse, on a lake that has it.

Lives here: expressions of `lake.toml` and tables written as SQL, by their texts. Does not live here: tables in Python,
whose plans are looked at when they are made (`load.second_engine`), and the lists (`core.second_engine`).
"""

from collections.abc import Sequence
from pathlib import Path

from backfill_assets.engine.confs import SAIL
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Table
from backfill_assets.lake.second_engine import advice, told, unequal_names, unequal_settings
from backfill_assets.operations.diagnosis import Diagnosis, broken, fine


def examine_second_engine(lake: Lake, tables: Sequence[Table]) -> list[Diagnosis]:
    """What would be refused, named; nothing where the lake has another engine."""
    if lake.settings.spark.engine != SAIL:
        return []
    found = {f"{where} in lake.toml": names for where, names in unequal_settings(lake.settings).items()}
    known = {t.name: {c.name.lower(): str(c.type).upper() for c in t.contract.columns} for t in tables}
    for table in tables:
        types = {n: kind for i in table.contract.inputs for n, kind in known.get(i.table, {}).items()}
        for path in (s for s in table.sources if isinstance(s, Path) and s.suffix == ".sql"):
            found[f"the table {table.name}"] = unequal_names(path.read_text(encoding="utf-8"), types)
    refused = [broken(where, told(names), advice(names)) for where, names in found.items() if names]
    return refused or [fine("the second engine", f"{SAIL} is known to compute all expressions and SQL here")]
