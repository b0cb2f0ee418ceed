"""Proof of a rerun: days computed again from the inputs that their receipts pin, in another physical order, number of
partitions and chunk, and compared by fingerprint; nothing is committed.

Not here: computing again (`load.recompute`), and another engine of its own (`check_engine`).
"""

import random
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

from backfill_assets.core.days import DayRange, contiguous, from_inclusive
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.replace import Provenance
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.recompute import Recomputation, RecomputeVerdict, ReorderedSession, recompute

REASON = "prove"


@dataclass(frozen=True)
class ProofRequest:
    """Written days to prove: those of a range (`days`), or `random` of them, drawn by `seed`; of some tables (empty:
    all). `chunk`: days that are computed at once."""

    days: DayRange | None = None
    random: int = 0
    seed: str = "0"
    tables: Collection[str] = ()
    chunk: int = 1


def prove(lake: Lake, pipeline: Pipeline, asked: ProofRequest) -> Recomputation:
    """Compute the days again and compare; raises BackfillError for an unknown table, and if no day is written."""
    names = [pipeline.contract(n, "Nothing was computed").name for n in asked.tables]
    written = {
        t.name: sorted(lake.store.view(t.name, t.contract.day_column).stamps)
        for t in pipeline.tables
        if not names or t.name in names
    }
    chosen = chosen_days(asked, {d for days in written.values() for d in days})
    if not chosen:
        raise BackfillError(
            "the proof", "none of these days was written", "Nothing was computed",
            "`backfill-assets status` shows which days are",
        )  # fmt: skip
    verdicts, refused = dict[str, RecomputeVerdict](), []
    for table, days in written.items():
        for chunk in _chunks(sorted(chosen & set(days)), asked.chunk):
            request = RebuildRequest(ReorderedSession(lake), pipeline, pipeline.table(table), chunk, Provenance(REASON))
            try:
                verdicts[table] = verdicts.get(table, RecomputeVerdict(table, ())).plus(recompute(request))
            except BackfillError as error:
                refused.append((table, str(error)))
                break
    return Recomputation(tuple(verdicts.values()), tuple(refused))


def chosen_days(asked: ProofRequest, written: Collection[date]) -> set[date]:
    """Return the days of the range that were written, or as many random ones of these as asked; the seed decides."""
    within = sorted(d for d in written if asked.days is None or d in asked.days)
    if not asked.random:
        return set(within)
    return set(random.Random(asked.seed).sample(within, min(asked.random, len(within))))  # noqa: S311  # no secret


def _chunks(days: list[date], size: int) -> list[DayRange]:
    """Return ranges of at most `size` days that cover the days and no others."""
    parts = (list(span)[i : i + size] for span in contiguous(days) for i in range(0, len(span), size))
    return [from_inclusive(part[0], part[-1]) for part in parts]
