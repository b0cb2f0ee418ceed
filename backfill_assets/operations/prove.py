"""Proof of a rerun: days computed again from the inputs that their receipts pin, in another physical order, number of
partitions and chunk, and compared by fingerprint; nothing is committed. And the standing proof: a few days of tables,
drawn by the date, as often as the load pays for it.

Not here: computing again (`load.recompute`), another engine of its own (`check_engine`), and Dagster's schedule, check
and alarm (`orchestration.proofs`). What a person proves by command goes into the history (`standing`), too.
"""

import random
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime

from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import DayRange, contiguous, from_inclusive
from backfill_assets.core.errors import BackfillError, unwritten
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.session import ReorderedSession
from backfill_assets.lake.view import Known
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.recompute import Recomputation, RecomputeVerdict, recompute
from backfill_assets.operations.standing import (
    DIFFERS,
    EQUAL,
    NOT_COMPUTED,
    PASSED_OVER,
    Proof,
    keep_proofs,
    newest_writes,
    proofs,
)
from backfill_assets.operations.writes import writes

REASON = "prove"


@dataclass(frozen=True)
class ProofRequest:
    """Written days to prove."""

    days: DayRange | None = None  # a range of days
    random: int = 0  # so many days, drawn by `seed`
    seed: str = "0"
    tables: Collection[str] = ()  # empty: all
    chunk: int = 1  # days computed at once


def prove(lake: Lake, pipeline: Pipeline, request: ProofRequest) -> Recomputation:
    """Compute the days again and compare; raises BackfillError for an unknown table, and if no day is written."""
    names = [pipeline.contract(n, "Nothing was computed").name for n in request.tables]
    written = {
        t.name: sorted(lake.store.view(t.name, t.contract.day_column).latest)
        for t in pipeline.tables
        if not names or t.name in names
    }
    chosen = chosen_days(request, {d for days in written.values() for d in days})
    if not chosen:
        raise unwritten("the proof", "Nothing was computed")
    verdicts, refused, known = dict[str, RecomputeVerdict](), [], Known(lake, pipeline)
    for table, days in written.items():
        for chunk in _chunks(sorted(chosen & set(days)), request.chunk):
            rebuild = RebuildRequest(ReorderedSession(lake), known, pipeline.table(table), chunk, Provenance(REASON))
            try:
                verdicts[table] = verdicts.get(table, RecomputeVerdict(table, ())).plus(recompute(rebuild))
            except BackfillError as error:
                refused.append((table, str(error)))
                break
    return Recomputation(tuple(verdicts.values()), tuple(refused))


def chosen_days(request: ProofRequest, written: Collection[date]) -> set[date]:
    """Return the days of the range that were written, or as many random ones of these as asked; the seed decides."""
    within = sorted(d for d in written if request.days is None or d in request.days)
    if not request.random:
        return set(within)
    return set(random.Random(request.seed).sample(within, min(request.random, len(within))))  # noqa: S311  # no secret


def _chunks(days: list[date], size: int) -> list[DayRange]:
    """Return ranges of at most `size` days that cover the days and no others."""
    parts = (list(span)[i : i + size] for span in contiguous(days) for i in range(0, len(span), size))
    return [from_inclusive(part[0], part[-1]) for part in parts]


Prover = Callable[[Lake, Pipeline, ProofRequest], Recomputation]


def waits(lake: Lake, pipeline: Pipeline) -> str:
    """Return why no proof is due ("" if one is): proofs are off, or the last took more than its share of
    writes since."""
    settings, last = lake.settings.proof, [p for p in proofs(lake) if p.seconds]
    if not settings.days_per_day:
        return "[proof] days_per_day is 0"
    if not last:
        return ""
    newest = max(p.at for p in last)
    spent = sum(p.seconds for p in last if p.at == newest)
    began = datetime.fromisoformat(newest)
    loaded = sum(w.seconds or 0.0 for w in writes(lake, pipeline) if w.at > began)
    if loaded * settings.max_share >= spent:
        return ""
    return (
        f"the last proof took {spent:.1f} s and writes since then {loaded:.1f} s; the next is due after "
        f"{spent / settings.max_share:.0f} s of them ([proof] max_share = {settings.max_share:g})"
    )


def prove_days(lake: Lake, pipeline: Pipeline, today: date, prover: Prover = prove) -> list[Proof]:
    """Prove the days of tables drawn by the date, and keep the outcomes. Commits nothing."""
    written = sorted((t.name, day) for t in pipeline.tables for day in newest_writes(lake, pipeline, t.name))
    drawn = random.Random(str(today)).sample(written, min(lake.settings.proof.days_per_day, len(written)))  # noqa: S311
    began, outcomes = time.monotonic(), list[Proof]()
    for table, day in drawn:
        proof = prover(lake, pipeline, ProofRequest(days=from_inclusive(day, day), tables=(table,)))
        outcomes += _outcomes(lake, pipeline, proof, day)
    seconds = max(round((time.monotonic() - began) / max(len(outcomes), 1), 3), 0.001)
    at = utc_now().isoformat()
    timed = [replace(p, at=at, seconds=seconds) for p in outcomes]
    keep_proofs(lake, timed)
    return timed


def keep_proof(lake: Lake, pipeline: Pipeline, proof: Recomputation) -> None:
    """Keep what a person's proof found, which also ends alarms about days that are equal again."""
    keep_proofs(lake, list(_outcomes(lake, pipeline, proof)))


def _outcomes(lake: Lake, pipeline: Pipeline, proof: Recomputation, day: date | None = None) -> Iterator[Proof]:
    """Yield the outcome of every day; `day`: the only one asked for, which a refused table has no verdict of."""
    at = utc_now().isoformat()
    for v in proof.verdicts:
        ids, differing = newest_writes(lake, pipeline, v.table), {d.day: d for d in v.differing}
        for d in v.days:
            outcome = PASSED_OVER if d.passed_over else EQUAL if d.equal else DIFFERS
            diff = differing.get(d.day)
            words = f"{diff.added} added, {diff.removed} removed, {diff.changed} changed" if diff else d.passed_over
            columns = f", in {', '.join(diff.columns)}" if diff and diff.columns else ""
            yield Proof(v.table, str(d.day), at, outcome, words + columns, ids.get(d.day, ""))
    if day is None:
        return
    for table, why in proof.refused:
        yield Proof(table, str(day), at, NOT_COMPUTED, why, newest_writes(lake, pipeline, table).get(day, ""))
