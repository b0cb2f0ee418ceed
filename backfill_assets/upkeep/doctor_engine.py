"""The doctor's findings about an engine without Java: absent, open to others, different from Spark.

Not here: the other checks (`doctor`), and proving that nothing differs (`compare.prove`).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from backfill_assets.cli.findings import Diagnosis, error_finding, good_finding
from backfill_assets.engines.abilities import (
    Engine,
    differences_advice,
    differences_culprit,
    identifying_columns,
)
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.server import (
    identity_version,
    server_engine,
)
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Table, source_files

PROOF = (
    "nothing in lake.toml or SQL is known to differ from Spark; `check-engine` computes days on "
    "both"
)


def examine_engine(lake: Lake, tables: Sequence[Table]) -> Iterator[Diagnosis]:
    """Yield the doctor's findings about an engine without Java: absent, open to others, differences
    from Spark."""
    session = LakeSession(lake)
    settings = session.engine
    engine = server_engine(settings)
    version = identity_version(engine.identity(settings))
    engine.refuse(settings)
    text = f"{version}, memory {settings.memory}, cores {settings.cores or 'all'}"
    text += ", open to this machine's users" if settings.open_port else ", in a private network"
    yield good_finding(engine.name, text)
    yield from _differing_expressions(session, engine, tables)


def _differing_expressions(
    session: LakeSession, engine: Engine, tables: Sequence[Table]
) -> Iterator[Diagnosis]:
    """Yield what is declared, or written as SQL, and known to differ; else how to prove that
    nothing does."""
    found: dict[str, Mapping[str, str]] = {**session.differing_expressions(tables)}
    for table in tables:
        inputs = _input_contracts(table, tables)
        types = {c.name.lower(): str(c.type) for contract in inputs for c in contract.columns}
        for path in _sql_files(table):
            text = path.read_text(encoding="utf-8")
            found[f"the table {table.name}"] = engine.differences(
                text, types, identifying_columns(inputs)
            )
    differing = {where: names for where, names in found.items() if names}
    for where, names in differing.items():
        yield error_finding(where, differences_culprit(names, engine), differences_advice(names))
    if not differing:
        yield good_finding("the second engine", PROOF)


def _input_contracts(table: Table, tables: Sequence[Table]) -> list[Contract]:
    named = {i.table for i in table.contract.inputs}
    return [t.contract for t in tables if t.name in named]


def _sql_files(table: Table) -> list[Path]:
    return [path for path in source_files(table) if path.suffix == ".sql"]
