"""The doctor's look at what the second engine would refuse, on a lake that has it.

Lives here: expressions of `lake.toml` and tables written as SQL, by their texts; the functions that tables in Python
name. Does not live here: the plans of these, looked at when they are made (`load.second_engine`), and the lists
(`core.second_engine`).
"""

import ast
from collections.abc import Iterator, Sequence

from backfill_assets.core.second_engine import REFUSED, advised
from backfill_assets.core.unsteady import keys_of
from backfill_assets.engine.confs import SAIL
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Table, source_files
from backfill_assets.lake.second_engine import advice, told, unequal_names
from backfill_assets.lake.second_engine_settings import unequal_settings
from backfill_assets.operations.diagnosis import Diagnosis, broken, fine, odd

HOME = "pyspark.sql.functions"
UNSEEN = (
    f"made by Python: what it asks of {SAIL} is looked at when it runs, and was not here; `check-engine` computes it"
)


def examine_second_engine(lake: Lake, tables: Sequence[Table]) -> list[Diagnosis]:
    """What would be refused, named; nothing where the lake has another engine."""
    if lake.settings.spark.engine != SAIL:
        return []
    found = {str(u): u.names for u in unequal_settings(lake.settings, [t.contract for t in tables])}
    known = {t.name: {c.name.lower(): str(c.type).upper() for c in t.contract.columns} for t in tables}
    for table in tables:
        keys = keys_of([t.contract for t in tables if t.name in {i.table for i in table.contract.inputs}])
        types = {n: kind for i in table.contract.inputs for n, kind in known.get(i.table, {}).items()}
        for path in (s for s in source_files(table) if s.suffix == ".sql"):
            found[f"the table {table.name}"] = unequal_names(path.read_text(encoding="utf-8"), types, keys)
    refused = [broken(where, told(names), advice(names)) for where, names in found.items() if names]
    refused = refused or [
        fine(
            "the second engine",
            f"nothing here is known to give something else on {SAIL}; `check-engine` computes days on both",
        )
    ]
    return [*refused, *_in_python(tables)]


def _in_python(tables: Sequence[Table]) -> Iterator[Diagnosis]:
    """Tables made by functions: those that name what is on the list, and that the others were not looked at."""
    unseen = []
    for table in tables:
        files = [f for f in source_files(table) if f.suffix == ".py"] if table.brings_code else []
        names = advised(name for f in files for name in functions_named(f.read_text(encoding="utf-8")))
        if names:
            yield odd(f"the table {table.name}", f"its file names {told(names)}", advice(names))
        elif files:
            unseen.append(table.name)
    if unseen:
        yield fine(f"the table(s) {', '.join(unseen)}", UNSEEN)


def functions_named(source: str) -> list[str]:
    """The functions of `pyspark.sql.functions` that a text of Python names and Sail computes otherwise, in their order.
    What else it does is not told: types, windows and joins only its plan shows."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    homes, named = set[str](), list[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "pyspark.sql":
            homes |= {a.asname or a.name for a in node.names if a.name == "functions"}
        elif isinstance(node, ast.Import):
            homes |= {a.asname for a in node.names if a.name == HOME and a.asname}
        elif isinstance(node, ast.ImportFrom) and node.module == HOME:
            named += [a.name for a in node.names]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in homes:
            named.append(node.attr)
    return [name for name in dict.fromkeys(named) if name.lower() in REFUSED]
