"""`check-engine`: days computed again on the other engine, and compared; and the doctor's findings about an engine.

Not here: computing and comparing (`load.recompute`). Nothing is committed, and the lake's own server keeps running.
"""

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backfill_assets.core.days import DayRange, from_inclusive
from backfill_assets.core.engines import Engine, advice, culprit
from backfill_assets.core.errors import BackfillError, unwritten
from backfill_assets.core.unsteady import keys_of
from backfill_assets.engine.sail import Sail
from backfill_assets.engine.server import SERVERS, engine_named, stop_server, version_of
from backfill_assets.engine.session import drop_session
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table, source_files
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.view import Known
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.recompute import Recomputation, SessionElsewhere, recompute
from backfill_assets.load.steadiness import differing_expressions
from backfill_assets.operations.doctor_tables import Diagnosis, broken, fine

REASON = "check-engine"
PROOF = "nothing in lake.toml or SQL is known to differ from Spark; `check-engine` computes days on both"


@dataclass(frozen=True)
class EngineReport(Recomputation):
    """The comparison of days with another engine's; `refused`: tables that it may not compute, with the reason."""

    engine: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {"engine": self.engine, **super().to_dict()}


def other_engine(lake: Lake) -> str:
    """Return the engine to check a lake with: one without Java for a lake on Spark, else the embedded Spark."""
    is_spark = engine_named(lake.settings.spark.engine).needs_java
    return next(name for name, engine in SERVERS.items() if engine.needs_java != is_spark)


def check_engine(
    lake: Lake, pipeline: Pipeline, days: DayRange | None, tables: Collection[str] | None, engine: str
) -> EngineReport:
    """Compute the days (None: all written ones) of the tables (None: all) on `engine`, and compare. Raises
    BackfillError for an unknown table, if none of the days was written, and if the engine cannot be used."""
    for name in tables or ():
        pipeline.contract(name, "Nothing was computed")
    named = [table for table in pipeline.tables if tables is None or table.name in tables]
    written = {table.name: lake.store.view(table.name, table.contract.day_column).latest for table in named}
    named = [table for table in named if any(days is None or day in days for day in written[table.name])]
    if not named:
        raise unwritten("the comparison of engines", "Nothing was computed")
    verdicts, refused, known = [], [], Known(lake, pipeline)
    with _session(lake, engine) as session:
        for table in named:
            chosen = days or from_inclusive(min(written[table.name]), max(written[table.name]))
            try:
                verdicts.append(recompute(RebuildRequest(session, known, table, chosen, Provenance(REASON))))
            except BackfillError as error:
                refused.append((table.name, str(error)))
    return EngineReport(tuple(verdicts), tuple(refused), engine)


@contextmanager
def _session(lake: Lake, engine: str) -> Iterator[SessionElsewhere]:
    """Yield a session on a server that stops afterwards."""
    spark = lake.settings.spark.model_copy(update={"engine": engine, "confs": {}})
    other = replace(lake, settings=lake.settings.model_copy(update={"spark": spark}))
    with tempfile.TemporaryDirectory(prefix="check_engine_") as folder:
        home = Path(folder)
        try:
            yield SessionElsewhere(other, home)
        finally:
            drop_session(home)
            stop_server(home, force=True)


def examine_engine(lake: Lake, tables: Sequence[Table]) -> Iterator[Diagnosis]:
    """Yield the doctor's findings about an engine without Java: absent, open to others, differences from Spark."""
    settings = LakeSession(lake).engine
    engine = Sail()
    version = version_of(engine.identity(settings))
    engine.refuse(settings)
    text = f"{version}, memory {settings.memory}, cores {settings.cores or 'all'}"
    text += ", open to this machine's users" if settings.open_port else ", in a private network"
    yield fine(engine.name, text)
    yield from _differences(engine, tables)


def _differences(engine: Engine, tables: Sequence[Table]) -> Iterator[Diagnosis]:
    """Yield what is declared, or written as SQL, and known to differ; else how to prove that nothing does."""
    differing: dict[str, Mapping[str, str]] = {**differing_expressions(tables, engine)}
    for table in tables:
        inputs = [t.contract for t in tables if t.name in {i.table for i in table.contract.inputs}]
        types = {c.name.lower(): str(c.type) for contract in inputs for c in contract.columns}
        for path in (s for s in source_files(table) if s.suffix == ".sql"):
            text = path.read_text(encoding="utf-8")
            differing[f"the table {table.name}"] = engine.differences(text, types, keys_of(inputs))
    refused = [broken(where, culprit(names, engine), advice(names)) for where, names in differing.items() if names]
    yield from refused or [fine("the second engine", PROOF)]
