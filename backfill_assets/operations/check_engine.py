"""`check-engine`: days computed again on the other engine from their pinned inputs, and held against their receipts.

Lives here: which engine and days, a server of its own for the time that takes, and the report. Does not live here:
computing and comparing (`load.recompute`). Nothing is committed, and the lake's own server is left alone.
"""

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backfill_assets.core.days import DayRange, from_inclusive
from backfill_assets.core.errors import BackfillError
from backfill_assets.engine.confs import EMBEDDED, SAIL
from backfill_assets.engine.server import stop_server
from backfill_assets.engine.session import drop_session
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table
from backfill_assets.lake.replace import Provenance
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.recompute import RecomputeVerdict, SessionElsewhere, recompute

REASON = "check-engine"


@dataclass(frozen=True)
class EngineReport:
    """What the other engine says of some days; `refused` are tables that it may not compute, with the reason."""

    engine: str
    verdicts: tuple[RecomputeVerdict, ...]
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def compared(self) -> int:
        """How many days of tables were computed again."""
        return sum(not d.passed_over for v in self.verdicts for d in v.days)

    @property
    def differing(self) -> int:
        """How many of them are not as they were written."""
        return sum(not d.equal for v in self.verdicts for d in v.days)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "engine": self.engine, "compared": self.compared, "differing": self.differing,
            "tables": [
                {
                    "table": v.table, "days": [{**vars(d), "day": str(d.day)} for d in v.days],
                    "differing": [{**vars(d), "day": str(d.day), "columns": dict(d.columns)} for d in v.differing],
                    "samples": [{**vars(s), "day": str(s.day)} for s in v.samples],
                }
                for v in self.verdicts
            ],
            "refused": [{"table": table, "reason": reason} for table, reason in self.refused],
        }  # fmt: skip


def other_engine(lake: Lake) -> str:
    """The engine that a lake is checked with: Spark where it is computed by Sail, else Sail."""
    return EMBEDDED if lake.settings.spark.engine == SAIL else SAIL


def check_engine(
    lake: Lake, pipeline: Pipeline, days: DayRange | None, tables: Collection[str] | None, engine: str
) -> EngineReport:
    """Compute the days (None: all that were made) of the tables (None: all) on that engine. Raises BackfillError for a
    table that is not known, and where the engine cannot be used."""
    for name in tables or ():
        pipeline.contract(name, "Nothing was computed")
    verdicts, refused = [], []
    with _session(lake, engine) as session:
        for table in pipeline.tables:
            asked = _asked(lake, table, days) if tables is None or table.name in tables else None
            if asked is None:
                continue
            request = RebuildRequest(session, pipeline, table, asked, Provenance(REASON))
            try:
                verdicts.append(recompute(request))
            except BackfillError as error:
                refused.append((table.name, str(error)))
    return EngineReport(engine, tuple(verdicts), tuple(refused))


def _asked(lake: Lake, table: Table, days: DayRange | None) -> DayRange | None:
    """The days asked for; of all those that were made, None where there are none."""
    made = lake.store.view(table.name, table.contract.day_column).stamps
    if days is not None or not made:
        return days if made else None
    return from_inclusive(min(made), max(made))


@contextmanager
def _session(lake: Lake, engine: str) -> Iterator[SessionElsewhere]:
    """A session on a server that is stopped afterwards."""
    spark = lake.settings.spark.model_copy(update={"engine": engine, "confs": {}})
    other = replace(lake, settings=lake.settings.model_copy(update={"spark": spark}))
    with tempfile.TemporaryDirectory(prefix="check_engine_") as folder:
        home = Path(folder)
        try:
            yield SessionElsewhere(other, home)
        finally:
            drop_session(home)
            stop_server(home, force=True)
